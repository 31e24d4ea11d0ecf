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
    "Model": "model",
    "Ops": "uop.ops",
    "PolygradError": "errors",
    "Tensor": "tensor",
    "UOp": "uop.ops",
    "Variable": "uop",
    "compile": "_jit",
    "device": "",
    "dtypes": "dtype",
    "errors": "",
    "jit": "_jit",
    "nn": "",
}

__all__ = ["__version__", *_NAMES]

if TYPE_CHECKING:
    from . import device as device
    from . import errors as errors
    from . import nn as nn
    from ._jit import compile as compile
    from ._jit import jit as jit
    from .dtype import dtypes as dtypes
    from .errors import PolygradError as PolygradError
    from .model import Model as Model
    from .plugin import Device as Device
    from .settings import Context as Context
    from .tensor import Tensor as Tensor
    from .uop import BoundVariable as BoundVariable
    from .uop import Variable as Variable
    from .uop.ops import Ops as Ops
    from .uop.ops import UOp as UOp
__getattr__ = lazily(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
