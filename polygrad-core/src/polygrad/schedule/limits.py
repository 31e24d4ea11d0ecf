"""Kernels that can be: few enough buffers for the machine, and a place for each reduction.

Fusion decides without asking how many buffers a kernel may have, and before anything is simplified.
Where a kernel has too many, or its reductions turn out to need different loops, something it
computes on the way is stored first (or its results are taken apart), and fusion decides again with
that in mind; each round stores at least one value more, so this ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Final

from ..dtype import dtypes
from ..errors import UnsupportedOp
from ..uop.linear import ranges_of
from ..uop.ops import ELEMENTWISE, Ops, UOp, toposort
from .build import Builder, KernelBuilder
from .fusion import Fusion, Group, Use

_STORABLE: Final = ELEMENTWISE | {Ops.REDUCE}
Limit = Callable[[str], int]  # device name -> buffers that a kernel of it may have
Lanes = Callable[[str], int]  # device name -> elements of float32 in a vector of it, 0 without


def unlimited(device: str) -> int:
    return 1 << 30


def no_lanes(device: str) -> int:
    return 0


class Cuts:
    """What is stored whatever fusion thinks, and what has a kernel of its own."""

    __slots__ = ("alone", "stored")

    def __init__(self) -> None:
        self.stored: set[UOp] = set()
        self.alone: set[UOp] = set()


def add_cuts(
    cuts: Cuts, fusion: Fusion, builder: Builder, devices: Mapping[UOp, str], limit: Limit
) -> bool:
    """Cut what does not fit; whether there was anything. Raises UnsupportedOp for a kernel that
    cannot be made smaller."""
    found = False
    for group, kernel in builder.kernels.items():
        first = group.stored[0]
        if first.op in (Ops.COPY, Ops.KERNEL, Ops.SCATTER):
            continue
        apart = _apart(group, kernel)
        if apart:
            cuts.stored.update(apart)
            found = True
            continue
        most = limit(devices[first])
        if len(kernel.slots) <= most:
            continue
        found = True
        if len(group.stored) > 1:
            cuts.alone.update(group.stored)
        else:
            cuts.stored.add(_piece(group, fusion, builder, most, devices[first]))
    return found


def _apart(group: Group, kernel: KernelBuilder) -> list[UOp]:
    """Reductions that must be stored because no order of loops has a place for all of them.

    Fusion goes by the loops that a reduction is indexed with. A factor that is a constant (what
    flows into the gradient of a sum) leaves some of them out when the kernel is written; two that
    need different loops then cannot stand in one nest. The small ones are stored, which fusion
    would have hoisted.
    """
    if len(group.inlined) < 2:
        return []
    loops = frozenset(r for r in group.ranges if r.op is Ops.RANGE)
    needs = {ranges_of(n) & loops for n in toposort(kernel.stores) if n.op is Ops.REDUCE}
    if all(a <= b or b <= a for a, b in combinations(needs, 2)):
        return []
    small = [n for n, h in zip(group.inlined, group.hoisted, strict=True) if h != loops]
    return small or group.inlined[1:]


def _piece(group: Group, fusion: Fusion, builder: Builder, most: int, device: str) -> UOp:
    """The value inside a kernel that reads the most buffers which one kernel may read, and more
    than one: stored first, it is one buffer of this kernel."""
    reads: dict[tuple[UOp, Use], frozenset[UOp]] = {}
    best: UOp | None = None
    widest = 2
    for node in fusion.order:
        home = fusion.home.get(node)
        for use in dict.fromkeys((*fusion.uses[node], *((home,) if home else ()))):
            if use.kernel is not group:
                continue
            if node.op is Ops.BUFFER or (home is not None and home != use):
                reads[node, use] = frozenset((node,))
                continue
            below = reads[node, use] = _below(node, use, fusion, reads)
            storable = home is None and node.op in _STORABLE and node.dtype is not dtypes.index
            if storable and widest <= len(below) < most:
                best, widest = node, len(below)
    if best is None:
        count = len(builder.kernels[group].slots)
        raise UnsupportedOp(
            f"device {device!r} takes {most} buffers a kernel, and one here needs {count} at once"
            f" ({group.stored[0].op.name}). Call .contiguous() on parts of its inputs."
        )
    return best


def _below(
    node: UOp, use: Use, fusion: Fusion, reads: Mapping[tuple[UOp, Use], frozenset[UOp]]
) -> frozenset[UOp]:
    """The stored values that a node reads at one of its uses."""
    parts = [reads.get(link, frozenset()) for link in fusion.links.get((node, use), ())]
    base = frozenset((node.src[0].base,)) if node.op is Ops.GATHER else frozenset()
    return base.union(*parts)
