"""Where the tensor floor meets the engine: leaves with storage, realisation, reading back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import DType
from ..engine.capture import active as capturing
from ..uop.ops import Ops, UOp, size
from .base import Base, _leaves, leaf

if TYPE_CHECKING:
    from .tensor import Tensor


def device_name(device: Any) -> str:
    """The canonical name of a device, the default one for None."""
    from ..device import canonical, default

    return default() if device is None else canonical(device)


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

    buffer = Buffer(uop.arg[2], size(uop.arg[1]) * uop.dtype.itemsize)
    if data is not None:
        buffer.write(data)
    runtime.bind(uop, buffer)


def realize(tensors: Sequence[Base]) -> None:
    """Compute tensors together. Each then stands on its result, unless a gradient still goes
    through."""
    from .. import engine

    lazy = [t for t in tensors if t.uop.op is not Ops.BUFFER]
    if not lazy or capturing.get() is not None:  # in a capture all stays lazy: nobody can tell
        return
    kept = [t.uop for t in lazy if t._requires_grad and not is_leaf(t)]
    stored = engine.realize([t.uop for t in lazy], kept)
    for t, node in zip(lazy, stored, strict=True):
        if t._requires_grad and not is_leaf(t):
            continue
        t._replace(node)
        t._device = node.arg[2]
        if node.dtype.is_float:
            _leaves[id(node)] = t  # type: ignore[assignment]


def is_leaf(t: Base) -> bool:
    return _leaves.get(id(t.uop)) is t


def read(t: Base) -> memoryview:
    """The bytes of a tensor, computed if need be."""
    from .. import engine

    capture = capturing.get()
    if capture is not None:
        capture.check_read(t.uop)
    realize([t])
    runtime = engine.current()
    node = t.uop if t.uop.op is Ops.BUFFER else engine.realize([t.uop], [t.uop])[0]
    return runtime.buffer_of(node).read()
