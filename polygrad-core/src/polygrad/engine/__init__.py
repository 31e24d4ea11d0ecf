"""The engine: what a graph of nodes needs to become bytes. See `run`, `record` and `runtime`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# public name -> (module, name there); an empty name is the module itself
_NAMES = {
    "Capture": ("capture", "Capture"),
    "Number": ("capture", "Number"),
    "Recorded": ("record", "Recorded"),
    "Runtime": ("runtime", "Runtime"),
    "current": ("runtime", "current"),
    "make_plan": ("record", "make_plan"),
    "realize": ("run", "realize"),
    "runtime": ("runtime", ""),
    "use": ("runtime", "use"),
}

__all__ = sorted(_NAMES)

if TYPE_CHECKING:
    from . import runtime as runtime
    from .capture import Capture as Capture
    from .capture import Number as Number
    from .record import Recorded as Recorded
    from .record import make_plan as make_plan
    from .run import realize as realize
    from .runtime import Runtime as Runtime
    from .runtime import current as current
    from .runtime import use as use


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'polygrad.engine' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _NAMES[name]
    found = import_module(f"{__name__}.{module}")
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value
