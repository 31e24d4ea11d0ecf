"""The bare node: its parts in slots, and the table that gives the same parts the same object.

Floor: uop. `ops.py` makes of it what everybody uses. The table is weak: a node goes when nobody
holds it, whatever stood above it.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from ..dtype import DType
from .names import Names
from .opcodes import Ops
from .shapes import Shape

if TYPE_CHECKING:
    from .ops import UOp


class Parts(Names):
    """The slots of a UOp. A node is filled as `Parts`, whose slots are quick to write, and then
    becomes a `UOp`, which is immutable: five times faster than `object.__setattr__`."""

    __slots__ = (
        "__weakref__", "arg", "cache", "dtype", "hi", "lo", "op", "order", "provenance", "ranges",
        "shape", "src",
    )  # fmt: skip

    op: Ops
    dtype: DType
    src: tuple[UOp, ...]
    arg: Any
    shape: Shape
    lo: int | None  # interval of a scalar integer or bool node; None where nothing is known
    hi: int | None
    # What follows is no part of identity and filled when somebody asks.
    provenance: Any  # write-once: where the user made it (provenance.py)
    cache: Any  # its linear form (linear.py); of a SINK, what the schedule knows of it
    order: Any  # its place in an order that is the same in every process (linear.py)
    ranges: Any  # the loop counters below it (linear.py)


Node = TypeVar("Node", bound=Parts)


def filled(
    kind: type[Node],
    op: Ops,
    dtype: DType,
    src: tuple[UOp, ...],
    arg: Any,
    shape: Shape,
    lo: int | None,
    hi: int | None,
) -> Node:
    """A node with these parts, whether there is such a one already or not."""
    made: Any = Parts()
    made.op, made.dtype, made.src = op, dtype, src  # four at once would go by way of a tuple
    made.arg, made.shape = arg, shape
    made.lo, made.hi = lo, hi
    made.provenance = made.cache = made.order = made.ranges = None
    made.__class__ = kind
    node: Node = made
    return node


# ---- the table of living nodes


class Ref(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("key",)
    key: Any


living: dict[Any, Ref] = {}
_lock = threading.RLock()  # reentrant: a collection inside `entered` may run _forget


def _forget(ref: Ref) -> None:
    with _lock:
        found = living.pop(ref.key, None)
        if found is not None and found is not ref:  # a new node has taken the place
            living[ref.key] = found


def entered(key: Any, made: Node) -> Node:
    """The living node of this key: `made`, unless another thread was faster."""
    ref = Ref(made, _forget)
    ref.key = key
    with _lock:
        old = living.setdefault(key, ref)
        if old is not ref:
            found: Node | None = old()
            if found is not None:
                return found
            living[key] = ref
    return made


def live_nodes() -> int:
    """How many nodes are alive (tests of growth)."""
    return len(living)
