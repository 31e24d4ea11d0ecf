"""A small tensor compiler that grows by `pip install`.

Names are handed on from the rooms that define them, at first use: importing this module runs
nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# public name -> (module, name there); an empty name is the module itself
_NAMES: dict[str, tuple[str, str]] = {
    "Context": ("polygrad.settings", "Context"),
    "Device": ("polygrad.plugin", "Device"),
    "Model": ("polygrad.model", "Model"),
    "Ops": ("polygrad.uop.ops", "Ops"),
    "PolygradError": ("polygrad.errors", "PolygradError"),
    "Tensor": ("polygrad.tensor", "Tensor"),
    "UOp": ("polygrad.uop.ops", "UOp"),
    "Variable": ("polygrad.uop", "Variable"),
    "compile": ("polygrad._jit", "compile"),
    "device": ("polygrad.device", ""),
    "dtypes": ("polygrad.dtype", "dtypes"),
    "errors": ("polygrad.errors", ""),
    "jit": ("polygrad._jit", "jit"),
    "nn": ("polygrad.nn", ""),
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
    from .uop import Variable as Variable
    from .uop.ops import Ops as Ops
    from .uop.ops import UOp as UOp


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'polygrad' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _NAMES[name]
    found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
