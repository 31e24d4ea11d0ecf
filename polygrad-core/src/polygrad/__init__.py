"""A small tensor compiler that grows by `pip install`.

Names are handed on from the rooms that define them, at first use: importing this module runs
nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazily

__version__ = "0.1.0"

# public name -> module; an empty one where the name is the module itself
_NAMES = {
    "BoundVariable": "uop",
    "Context": "settings",
    "Device": "plugin",
    "GlobalCounters": "_memory",
    "LOGICAL": "settings",
    "Model": "model",
    "Ops": "uop.ops",
    "PolygradError": "errors",
    "Runtime": "_create",
    "Tensor": "tensor",
    "UOp": "uop.ops",
    "Variable": "uop",
    "associative_scan": "_scan",
    "can_run": "_can_run",
    "clear_schedule_cache": "_memory",
    "collect": "_memory",
    "compile": "_jit",
    "create": "_create",
    "device": "",
    "dtypes": "dtype",
    "errors": "",
    "fetch": "files",
    "function": "_function",
    "getenv": "settings",
    "jit": "_jit",
    "nn": "",
    "stats": "_memory",
}

__all__ = ["__version__", *_NAMES]

if TYPE_CHECKING:
    from . import device as device
    from . import errors as errors
    from . import nn as nn
    from ._can_run import can_run as can_run
    from ._create import Runtime as Runtime
    from ._create import create as create
    from ._function import function as function
    from ._jit import compile as compile
    from ._jit import jit as jit
    from ._memory import GlobalCounters as GlobalCounters
    from ._memory import clear_schedule_cache as clear_schedule_cache
    from ._memory import collect as collect
    from ._memory import stats as stats
    from ._scan import associative_scan as associative_scan
    from .dtype import dtypes as dtypes
    from .errors import PolygradError as PolygradError
    from .files import fetch as fetch
    from .model import Model as Model
    from .plugin import Device as Device
    from .settings import LOGICAL as LOGICAL
    from .settings import Context as Context
    from .settings import getenv as getenv
    from .tensor import Tensor as Tensor
    from .uop import BoundVariable as BoundVariable
    from .uop import Variable as Variable
    from .uop.ops import Ops as Ops
    from .uop.ops import UOp as UOp
__getattr__ = lazily(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
