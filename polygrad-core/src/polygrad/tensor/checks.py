"""What only computed values tell, asked under POLY_CHECK=1: do index tensors stay in their axes?

Without the setting nothing is computed, and an index outside its axis has a defined meaning: what
is read there is 0, what is written there is dropped; no memory but the tensor's own is touched.
With it, whoever takes an index tensor computes it at the call and raises IndexError for the first
element outside. While a function is captured there are no values yet: the capture notes what is to
be checked, and each call of what was captured runs these checks first, as a Plan of their own
(`Guard`), so that nothing was written when one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import settings
from ..dtype import dtypes, unpack
from ..engine.capture import Bounds, Check
from ..engine.capture import active as capturing
from ..errors import IndexError_, called
from ..uop.ops import Ops, Shape, UOp, size
from ..uop.provenance import here
from ..uop.sizes import actual, rebound
from .base import Base, result
from .store import read

if TYPE_CHECKING:
    from ..device.buffer import Buffer
    from ..engine.record import Recorded


def check_index(name: str, index: Base, axis: int, shape: Shape) -> None:
    """Under POLY_CHECK=1 raise IndexError_ if an element of `index` is outside an axis of `shape`;
    negative ones count from the end."""
    n = shape[axis] if shape else 1
    check_range(name, index, -n, n, f"axis {axis} of shape {shape}")


def wanted() -> bool:
    """Whether a check that takes work to say would be looked at."""
    capture = capturing.get()
    return capture.watched if capture is not None else bool(settings.get("POLY_CHECK"))


def check_range(
    name: str, index: Base, low: int, high: int, what: str, ignored: int | None = None
) -> None:
    """Under POLY_CHECK=1 raise IndexError_ for the first element not in low .. high - 1."""
    capture = capturing.get()
    if capture is not None:
        if capture.watched:
            bounds = Bounds(called() or name, low, high, what, ignored, here())
            capture.checks.append(Check(index.uop, bounds))
    elif settings.get("POLY_CHECK"):
        _check_now(index, Bounds(name, low, high, what, ignored))


def check_again(check: Check, operands: Sequence[Base]) -> None:
    """A check of a captured function whose graph now stands on other nodes."""
    capture = capturing.get()
    if capture is None:
        _check_now(result(check.node, *operands), check.bounds)
    elif capture.watched:
        capture.checks.append(check)


def _check_now(index: Base, bounds: Bounds) -> None:
    values = unpack(index.dtype, read(index))
    for place, value in enumerate(values):
        if not bounds.low <= value < bounds.high and value != bounds.ignored:
            raise _outside(bounds, place, value, actual(index.shape))


def _outside(bounds: Bounds, place: int, value: int, shape: Shape) -> IndexError_:
    at: list[int] = []
    for n in reversed(shape):
        place, i = divmod(place, n)
        at.insert(0, i)
    where = f" at {bounds.site}" if bounds.site else ""
    return IndexError_(
        f"{bounds.operation}{where}: element {tuple(at)} of the index is {value}, outside"
        f" {bounds.what}."
    )


# ---- checks of what was captured


class Guard:
    """Checks compiled into one Plan, `recorded`; `judge` reads what a run of it found."""

    def __init__(self, checks: Sequence[Check], compiled: Callable[[list[UOp]], Recorded]) -> None:
        # No node is kept: it would count as a reader of the state that it stands on.
        self.asked = [(c.bounds, c.node.shape, c.node.dtype) for c in checks]
        self.recorded = compiled([root for c in checks for root in _found(c)])

    def judge(self, made: Sequence[Buffer], sizes: Mapping[UOp, int]) -> None:
        """Raises IndexError_ for the first check that failed."""
        for i, (bounds, shape, dtype) in enumerate(self.asked):
            now = actual(tuple([rebound(n, sizes) for n in shape]) if sizes else shape)
            place = _integer(made[2 * i])
            if place < size(now):
                value = _integer(made[2 * i + 1], signed=dtype is not dtypes.uint64)
                raise _outside(bounds, place, value, now)


def guard_of(checks: Sequence[Check], compiled: Callable[[list[UOp]], Recorded]) -> Guard | None:
    """What runs before a captured graph; None if there is nothing to check."""
    return Guard(checks, compiled) if checks else None


def _found(check: Check) -> tuple[UOp, UOp]:
    """The place of the first element outside, or one that none has; and that element."""
    index, (_, low, high, _, ignored, _) = check
    unsigned = index.dtype is dtypes.uint64
    count = size(index.shape)
    flat = index.reshape((count,)).cast(dtypes.uint64 if unsigned else dtypes.int64)
    outside = flat >= high if unsigned else (flat < low) | (flat >= high)
    if ignored is not None and not (unsigned and ignored < 0):
        outside = outside & flat.ne(ignored)
    first = outside.where(UOp.iota(count, dtypes.int64), _NOWHERE).reduce(Ops.MINIMUM, (0,))
    return first, flat.gather(first.reshape((1,)), 0)


_NOWHERE = 1 << 62


def _integer(buffer: Any, signed: bool = True) -> int:
    return int.from_bytes(buffer.read(8), "little", signed=signed)
