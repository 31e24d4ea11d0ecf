"""Where the tensor floor meets the engine: leaves with storage, realisation, reading back."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..dtype import DType
from ..engine.capture import active as capturing
from ..uop.ops import Ops, UOp, size
from ..uop.sizes import actual, capacity
from .base import Base, _leaves, leaf

if TYPE_CHECKING:
    from .tensor import Tensor


def device_name(device: Any) -> str:
    """The canonical name of a device, the default one for None. A device that was named is opened
    here, so that one that cannot be used is an error at the call that names it."""
    from ..device import canonical, default, get

    if device is None:
        return default()
    name = canonical(device)
    get(name)
    return name


def new_leaf(
    dtype: DType,
    shape: Sequence[int],
    device: Any,
    data: memoryview | None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor with storage of its own, holding `data` (its bytes) if given."""
    name = device_name(device)
    uop = UOp.buffer(dtype, shape, name)
    bind(uop, data)
    return leaf(uop, name, requires_grad)


def bind(uop: UOp, data: memoryview | None) -> None:
    """Give a BUFFER node its memory."""
    from ..device.buffer import Buffer
    from ..engine import runtime

    buffer = Buffer(uop.arg[2], capacity(uop.arg[1]) * uop.dtype.itemsize)
    if data is not None:
        buffer.write(data)
    runtime.bind(uop, buffer)


def own(value: UOp, device: str) -> UOp:
    """A new leaf, with storage of its own, that starts as `value`."""
    buffer = UOp.buffer(value.dtype, value.shape, device)
    bind(buffer, None)
    return buffer.after(buffer.store(value.detach()))


# What `backward` went through and what it gave, not computed yet. It reads the parameters as they
# are before an optimizer's step, so it is computed together with the step, from one forward pass;
# later it would need a copy of every parameter and the forward pass again.
_differentiated: ContextVar[list[ref[Base]] | None] = ContextVar("polygrad_backward", default=None)


def differentiated(tensors: Sequence[Base]) -> None:
    """Compute these with the next assignment, and let go of their graphs then."""
    waiting = _differentiated.get()
    if waiting is None:
        waiting = []
        _differentiated.set(waiting)
    waiting[:] = [r for r in waiting if r() is not None]
    waiting += [ref(t) for t in tensors]


def _take_differentiated() -> list[Base]:
    waiting = _differentiated.get() or []
    found = [t for r in waiting if (t := r()) is not None and t.uop.op is not Ops.BUFFER]
    waiting.clear()
    return found


def realize(tensors: Sequence[Base]) -> None:
    """Compute tensors together. Each then stands on its result, unless a gradient still goes
    through."""
    from .. import engine

    lazy = [t for t in tensors if t.uop.op is not Ops.BUFFER]
    if not lazy or capturing.get() is not None:  # in a capture all stays lazy: nobody can tell
        return
    released: set[int] = set()
    if any(t.uop.op is Ops.AFTER for t in lazy):
        ending = _take_differentiated()
        released = set(map(id, ending))
        lazy += ending
    kept = [t for t in lazy if t._requires_grad and not is_leaf(t) and id(t) not in released]
    stored = engine.realize([t.uop for t in lazy], [t.uop for t in kept])
    keeping = set(map(id, kept))
    for t, node in zip(lazy, stored, strict=True):
        if id(t) not in keeping:
            _settle(t, node, id(t) in released)


def _settle(t: Base, node: UOp, released: bool) -> None:
    t._replace(node)
    t._device = node.arg[2]
    if released and not is_leaf(t):
        t._requires_grad = None  # its graph is gone, so nothing can ask it for gradients again
    elif node.dtype.is_float:
        _leaves.setdefault(id(node), t)  # type: ignore[arg-type]  # an alias leaves it to its owner


def is_leaf(t: Base) -> bool:
    return _leaves.get(id(t.uop)) is t


def read(t: Base) -> memoryview:
    """The bytes of a tensor, computed if need be."""
    from .. import engine

    capture = capturing.get()
    if capture is not None:
        capture.check_read(t.uop)
    nbytes = size(actual(t.uop.shape)) * t.uop.dtype.itemsize
    realize([t])
    runtime = engine.current()
    node = t.uop if t.uop.op is Ops.BUFFER else engine.realize([t.uop], [t.uop])[0]
    return runtime.buffer_of(node).read(nbytes)
