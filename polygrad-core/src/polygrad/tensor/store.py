"""Where the tensor floor meets the engine: leaves with storage, realisation, reading back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from .. import settings
from ..dtype import DType
from ..engine.capture import active as capturing
from ..engine.owner import explicit
from ..engine.weak import WeakTable
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.sizes import actual, capacity
from .base import Base, _leaves, away, leaf, one_owner

if TYPE_CHECKING:
    from ..engine.runtime import Parts, Runtime
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
    """Those of the current runtime; the others wait for theirs."""
    waiting, here = _differentiated.get() or [], explicit.get()
    living = [t for r in waiting if (t := r()) is not None and t.uop.op is not Ops.BUFFER]
    waiting[:] = [ref(t) for t in living if t._owner is not here]
    return [t for t in living if t._owner is here]


def realize(tensors: Sequence[Base]) -> None:
    """Compute tensors together. Each then stands on its result, unless a gradient still goes
    through."""
    lazy = [t for t in tensors if t.uop.op is not Ops.BUFFER]
    if not lazy or capturing.get() is not None:  # in a capture all stays lazy: nobody can tell
        return
    owner = one_owner(lazy)
    if owner is explicit.get():
        _realize(lazy)
    else:
        with inside(owner):
            _realize(lazy)


def inside(owner: Runtime | None) -> AbstractContextManager[Any]:
    """A block in which `owner` is the current runtime."""
    from ..engine.runtime import owned_by, use

    return nullcontext() if owner is explicit.get() else use(owned_by(owner))


def _realize(lazy: list[Base]) -> None:
    from .. import engine

    released: set[int] = set()
    if any(t.uop.op is Ops.AFTER for t in lazy):
        taken = _take_differentiated()
        ending = [t for t in taken if not _let_go(t)]
        released = set(map(id, ending))
        lazy += ending
        if taken:  # a step: what the forward pass wrote (a batch's statistics) ends with it
            known = set(map(id, lazy))
            lazy += [t for t in _written() if id(t) not in known]
    watched = len(policies) or settings.get("LOGICAL") == "always"
    graphs = _graphs(lazy, engine.current().graphs) if watched else {}
    kept = [t for t in lazy if t._requires_grad and not is_leaf(t) and id(t) not in released]
    stored = engine.realize([t.uop for t in lazy], [t.uop for t in kept])
    keeping = set(map(id, kept))
    for t, node in zip(lazy, stored, strict=True):
        if id(t) in graphs:
            engine.current().graphs.set(node, graphs[id(t)])
        if id(t) not in keeping:
            _settle(t, node, id(t) in released)


def _graphs(lazy: Sequence[Base], known: WeakTable[Parts]) -> dict[int, Parts]:
    """What computes each tensor that keeps its graph, by the tensor's id."""
    kept = {id(t): unfolded(t.uop, known) for t in lazy if policy_of(t) == "always"}
    return {key: (u.op, u.dtype, u.src, u.arg) for key, u in kept.items()}


def unfolded(root: UOp, graphs: WeakTable[Parts]) -> UOp:
    """`root` down to data: a leaf whose graph was kept is that graph, an assignment its value."""
    new: dict[UOp, UOp] = {}
    for node in toposort((root,)):
        parts = graphs.get(node)
        if parts is not None:
            new[node] = UOp(*parts)
        elif node.op is Ops.AFTER:
            new[node] = new[node.src[1].src[1]]
        else:
            src = tuple([new[s] for s in node.src])
            new[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg)
    return new[root]


policies: WeakTable[str] = WeakTable()  # of tensors that have their own


def policy_of(t: Base) -> str:
    """What LOGICAL is for `t`: whether its graph is kept when it has been computed."""
    return policies.get(t) or str(settings.get("LOGICAL"))


def _let_go(t: Base) -> bool:
    """Put a tensor whose value is known, and whose graph has ended, on it; whether there was one.

    Its graph would count as a reader of what is written now, and cost a copy."""
    from .. import engine

    runtime = engine.current()
    leaf = runtime.leaf_of(t.uop)
    if leaf is None or runtime.find(leaf) is None:
        return False
    _settle(t, leaf, True)
    return True


MOST_WAITING: Final = 32
# How often a tensor was written to since it was computed and written to.
_waiting: WeakTable[int] = WeakTable()


def _written() -> list[Base]:
    """Tensors of the current runtime with writes that wait and no gradient that goes through."""
    here = explicit.get()
    return [
        t
        for t in _waiting.living()
        if t.uop.op not in _KNOWN and t._owner is here and not t._requires_grad
    ]


_KNOWN: Final = frozenset({Ops.BUFFER, Ops.CONST})  # nothing is left to compute


def before_write(t: Base, value: Any = None) -> None:
    """Note a write of `t`, of `value` or of what comes of it. Those that wait are carried out first
    if they are 32, so that a loop of them neither grows nor compiles new code for ever.

    Nobody can tell: it is done only if the program holds nothing that was computed on the way to
    `t` and `value`, nor floats that they were computed from, which a gradient could be asked for.
    Otherwise the next time to look is after twice as many. In a capture all writes wait.
    """
    if capturing.get() is not None:
        _waiting.pop(t)
        return
    if t.uop.op is Ops.BUFFER:
        _waiting.set(t, 0)
        return
    count = (_waiting.get(t) or 0) + 1
    _waiting.set(t, count)
    if count >= MOST_WAITING and not count & (count - 1):
        computed = [t, value] if isinstance(value, Base) and _new(value, t) else [t]
        if _alone(computed):
            _waiting.pop(t)
            inner = [x for x in computed if not is_leaf(x)]
            realize(computed)
            for x in inner:  # nobody asked for it to be one
                _leaves.pop(id(x.uop), None)


def _new(value: Base, t: Base) -> bool:
    """Whether no earlier write of `t` has read `value`."""
    return all(n is not value.uop for n in toposort((t.uop,)))


def _alone(tensors: Sequence[Base]) -> bool:
    """Whether the program holds nothing below `tensors` but data that takes no gradient."""
    from ..engine.versions import unshared

    if any(away(t) or (t._requires_grad and not is_leaf(t)) for t in tensors):
        return False
    return unshared(toposort([t.uop for t in tensors]), tensors)


def runtime_of(t: Base) -> Runtime:
    """The runtime that a tensor belongs to."""
    from ..engine.runtime import owned_by

    return owned_by(t._owner)


def _settle(t: Base, node: UOp, released: bool) -> None:
    t._replace(node)
    t._device, t._owner = node.arg[2], explicit.get()
    if released and not is_leaf(t):
        t._requires_grad = None  # its graph is gone, so nothing can ask it for gradients again
    elif node.dtype.is_float:
        _leaves.setdefault(id(node), t)  # type: ignore[arg-type]  # an alias leaves it to its owner


def is_leaf(t: Base) -> bool:
    return _leaves.get(id(t.uop)) is t


def read(t: Base) -> memoryview:
    """The bytes of a tensor, computed if need be."""
    data = memoryview(bytearray(size(actual(t.uop.shape)) * t.uop.dtype.itemsize))
    read_into(t, data)
    return data


def read_into(t: Base, data: memoryview, offset: int = 0) -> None:
    """Fill all of `data` with the bytes of a tensor from byte `offset` on."""
    from .. import engine

    capture = capturing.get()
    if capture is not None:
        capture.check_read(t.uop)
    if away(t):
        with inside(t._owner):
            read_into(t, data, offset)
        return
    realize([t])
    node = t.uop if t.uop.op is Ops.BUFFER else engine.realize([t.uop], [t.uop])[0]
    engine.current().read_into(node, data, offset)
