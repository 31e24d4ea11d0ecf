"""The engine: what a graph of nodes needs to become bytes. See `run`, `record` and `runtime`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

# public name -> module; an empty one where the name is the module itself
_NAMES = {
    "Capture": "capture",
    "Number": "number",
    "Recorded": "record",
    "Runtime": "runtime",
    "current": "runtime",
    "make_plan": "record",
    "realize": "run",
    "runtime": "",
    "use": "runtime",
}

__all__ = sorted(_NAMES)

if TYPE_CHECKING:
    from . import runtime as runtime
    from .capture import Capture as Capture
    from .number import Number as Number
    from .record import Recorded as Recorded
    from .record import make_plan as make_plan
    from .run import realize as realize
    from .runtime import Runtime as Runtime
    from .runtime import current as current
    from .runtime import use as use
__getattr__ = lazily(__name__, _NAMES)
