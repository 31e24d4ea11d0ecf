"""From a graph of tensors to an ordered list of kernels: the second floor.

`schedule(roots)` decides what is stored (`fusion`), writes each kernel as stores of scalar
expressions (`build`), lets assignments write in place where that is safe, and orders the kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from .. import settings
from ..dtype import DType
from ..uop.ops import Ops, UOp, size
from ..uop.rewrite import substitute
from .boxes import boxed
from .build import Builder, KernelBuilder, scatter_kernels
from .fusion import Fusion, Group, Use
from .indexing import flat
from .items import CopyItem, Item, KernelItem, Planned, Schedule
from .limits import Cuts, Lanes, Limit, add_cuts, no_lanes, unlimited
from .repeats import scheduled
from .rules import prepare
from .sharing import share
from .sinks import sink_facts

__all__ = ["CopyItem", "Item", "KernelItem", "Schedule", "schedule"]


def schedule(
    roots: Sequence[UOp], device: str = "", limit: Limit = unlimited, lanes: Lanes = no_lanes
) -> Schedule:
    """Plan the computation of `roots`. `device` is for graphs that read no buffer at all; `limit`
    gives the number of buffers that a kernel of a device may have, `lanes` the floats of a vector:
    layouts are chosen for them."""
    if settings.get("POLY_SPEC"):
        from ..uop.spec import verify_tensor

        verify_tensor(roots)
    wanted = prepare(roots, device, lanes)
    return scheduled(wanted, partial(_planned, device=device, limit=limit, lanes=lanes))


def _planned(wanted: Sequence[UOp], device: str, limit: Limit, lanes: Lanes) -> Planned:
    """The schedule of a graph that is prepared."""
    cuts = Cuts()
    while True:
        fusion = Fusion(tuple(dict.fromkeys(wanted)), bool(settings.get("POLY_FUSION")), cuts)
        devices = _devices(fusion.order, device)
        in_place = _in_place(fusion, wanted)
        in_place |= _scattered_in_place(fusion, in_place, wanted)
        leaves = {n: in_place[n] if n in in_place else _leaf(n, devices) for n in fusion.home}
        builder = Builder(fusion, leaves)
        if not add_cuts(cuts, fusion, builder, devices, limit):
            break
    items: list[Item] = []
    plain: set[int] = set()
    known: dict[Stores, Boxes] = {}
    for group in _ordered(fusion.groups):
        made = _items(group, builder, leaves, devices, known)
        if fusion.fuse and _plain(group):
            plain.update(range(len(items), len(items) + len(made)))
        items += made
    items = share(items, frozenset(plain), limit)
    writes = tuple((target, leaves[n]) for n, target in _targets(fusion).items())
    results = tuple(leaves.get(r, r) for r in wanted)
    if fusion.fuse and len(items) > 1:
        from .chains import chained  # one kernel has nobody to hand rows to
        from .copies import copied_near

        kept = {*results, *(leaf for pair in writes for leaf in pair)}
        items = copied_near(chained(items, kept, limit, lanes), kept, limit, lanes)
    return Planned(Schedule(tuple(items), results, writes), leaves)


def _plain(group: Group) -> bool:
    """Elementwise, or reductions with one value for each element; no matrix product, no scan."""
    whole = frozenset(r for r in group.ranges if r.op is Ops.RANGE)
    if group.contraction or any(r.arg[1] == "seq" for r in whole):
        return False
    ordinary = all(n.op not in (Ops.COPY, Ops.SCATTER, Ops.KERNEL) for n in group.stored)
    return ordinary and size(group.shape) != 0 and all(h == whole for h in group.hoisted)


def _leaf(node: UOp, devices: dict[UOp, str]) -> UOp:
    return UOp.buffer(node.dtype, node.shape, devices[node])


def _devices(order: Sequence[UOp], default: str) -> dict[UOp, str]:
    """The device of every node: that of its first source that has one, else of what reads it."""
    found: dict[UOp, str] = {}
    for node in order:
        if node.op is Ops.BUFFER:
            found[node] = node.arg[2]
        elif node.op is Ops.COPY:
            found[node] = node.arg
        else:
            found[node] = _first([found[s] for s in node.src])
    for node in reversed(order):
        for source in node.src:
            if not found[source]:
                found[source] = found[node]
    return {node: name or default for node, name in found.items()}


def _first(names: Sequence[str]) -> str:
    for name in names:
        if name:
            return name
    return ""


# ---- assignments


def _targets(fusion: Fusion) -> dict[UOp, UOp]:
    """The buffer that each assignment writes, through those before it; in the graph's order."""
    found: dict[UOp, UOp] = {}
    for node in fusion.order:
        if node.op is Ops.AFTER:
            old = node.src[0]
            found[node] = found.get(old, old)
    return {node: target for node, target in found.items() if node in fusion.home}


def _in_place(fusion: Fusion, roots: Sequence[UOp]) -> dict[UOp, UOp]:
    """Assignments that may write over the old value: leaf by AFTER node.

    Safe when each kernel reads the version before only at the element it writes, everybody else in
    the graph reads that before, and no version but the last is a result itself.
    """
    by_target: dict[UOp, list[UOp]] = {}
    for node, target in _targets(fusion).items():
        by_target.setdefault(target, []).append(node)
    chosen: dict[UOp, UOp] = {}
    for leaf, nodes in by_target.items():
        before = [leaf, *nodes[:-1]]
        if leaf.op is not Ops.BUFFER or not set(roots).isdisjoint(before):
            continue
        steps = zip(before, nodes, strict=True)
        if all(node.src[0] is old and _safe(fusion, old, node) for old, node in steps):
            chosen.update(dict.fromkeys(nodes, leaf))
    return chosen


def _safe(fusion: Fusion, old: UOp, node: UOp) -> bool:
    """Whether `node` may be written over what `old` holds."""
    kernel = fusion.home[node].kernel
    uses = fusion.uses[old]
    own = [u for u in uses if u.kernel is kernel]
    others = {u.kernel for u in uses if u.kernel is not kernel} | fusion.whole.get(old, set())
    if old in fusion.home:
        others.add(fusion.home[old].kernel)
    if kernel in others or not all(_same_element(u, old, kernel) for u in own):
        return False
    if any(other.needs(kernel) for other in others):
        return False
    for other in others:
        kernel.read(other)
    return True


def _scattered_in_place(
    fusion: Fusion, in_place: dict[UOp, UOp], roots: Sequence[UOp]
) -> dict[UOp, UOp]:
    """Scatters into what an assignment writes over anyway: leaf by SCATTER node. Nothing is left to
    do for the assignment then. Of several to one leaf none, as their readers are not kept apart."""
    writes = Counter(in_place.values())
    chosen: dict[UOp, UOp] = {}
    for node, leaf in in_place.items():
        value = node.src[1].src[1]
        if value.op is not Ops.SCATTER or value in roots or writes[leaf] > 1:
            continue
        kernel = fusion.home[value].kernel
        others = {u.kernel for u in fusion.uses[leaf]} | fusion.whole.get(leaf, set())
        others -= {kernel}
        free = value.src[0] is leaf and leaf not in value.src[1:]
        if free and not any(other.needs(kernel) for other in others):
            for other in others:
                kernel.read(other)
            chosen[value] = leaf
    return chosen


def _same_element(use: Use, leaf: UOp, kernel: Group) -> bool:
    if use.index == kernel.ranges and leaf.shape == kernel.shape:
        return True
    return flat(use.index, leaf.shape) is flat(kernel.ranges, kernel.shape)


# ---- order


def _ordered(groups: Sequence[Group]) -> list[Group]:
    """Kernels after those they read, later-made groups (nearer to the inputs) first."""
    done: set[Group] = set()
    out: list[Group] = []
    for first in reversed(groups):
        stack = [first]
        while stack:
            group = stack[-1]
            waiting = [g for g in sorted(group.reads, key=lambda g: -g.number) if g not in done]
            if group in done or not waiting:
                stack.pop()
                if group not in done:
                    done.add(group)
                    out.append(group)
            else:
                stack.append(waiting[0])
    return out


def _items(
    group: Group,
    builder: Builder,
    leaves: dict[UOp, UOp],
    devices: dict[UOp, str],
    known: dict[Stores, Boxes],
) -> list[Item]:
    first = group.stored[0]
    if first.op is Ops.COPY:
        source = first.src[0]
        return [CopyItem(leaves[first], leaves.get(source, source))]
    if first.op is Ops.KERNEL:
        return kernel_items(group.stored, leaves, devices[first])
    if size(first.shape) == 0:
        return []
    if first.op is Ops.SCATTER:
        kernels = scatter_kernels(first, leaves[first], leaves)
    else:
        kernels = _boxed(builder.kernels[group], known)
    items: list[Item] = []
    for kernel in kernels:
        sink, buffers = kernel.sink(), tuple(kernel.slots)
        items.append(KernelItem(sink, buffers, devices[first], sink_facts(sink).variables))
    return items


# What a kernel stores, and the dtypes of the memory of its parameters.
Stores = tuple[tuple[UOp, ...], tuple[DType, ...]]
# Of each of its kernels: what it stores, and which of the parameters it has.
Boxes = list[tuple[tuple[UOp, ...], tuple[int, ...]]]


def _boxed(kernel: KernelBuilder, known: dict[Stores, Boxes]) -> list[KernelBuilder]:
    """`kernel` in boxes, found once for equal layers."""
    leaves = list(kernel.slots)
    key = (tuple(kernel.stores), tuple([leaf.dtype for leaf in leaves]))
    if key not in known:
        known[key] = [
            (tuple(made.stores), tuple(map(leaves.index, made.slots))) for made in boxed(kernel)
        ]
    return [
        KernelBuilder({leaves[at]: i for i, at in enumerate(slots)}, stores)
        for stores, slots in known[key]
    ]


def kernel_items(nodes: Sequence[UOp], leaves: dict[UOp, UOp], device: str) -> list[Item]:
    """A kernel that somebody wrote, its outputs filled first where it does not overwrite them."""
    call, sources = nodes[0].arg, [leaves.get(s, s) for s in nodes[0].src]
    if all(size(o.shape) == 0 for o in call.outputs):
        return []
    kept = {n.arg.which: leaves[n] for n in nodes}
    by_slot = {
        o.slot: kept[i] if i in kept else UOp.buffer(o.dtype, o.shape, device)
        for i, o in enumerate(call.outputs)
    }
    items: list[Item] = []
    same: dict[UOp, int] = {}  # one leaf is one parameter
    merged: dict[int, int] = {}
    for slot, leaf in zip(call.slots, sources, strict=True):
        if slot in by_slot:
            items.append(CopyItem(by_slot[slot], leaf))
        else:
            merged[slot] = same.setdefault(leaf, slot)
            by_slot[slot] = leaf
    params = [n for n in call.sink.toposort() if n.op is Ops.PARAM]
    exchange = {
        p: UOp(p.op, p.dtype, (), (merged[p.arg[0]], p.arg[1]))
        for p in params
        if merged.get(p.arg[0], p.arg[0]) != p.arg[0]
    }
    sink = substitute(call.sink, exchange) if exchange else call.sink
    variables = sink_facts(sink).variables
    fixed = dict(call.values)
    values = tuple(fixed.get(v.arg[0]) for v in variables)
    anything = next(iter(by_slot.values()))
    buffers = tuple(by_slot.get(i, anything) for i in range(max(by_slot) + 1))
    items.append(KernelItem(sink, buffers, device, variables, values))
    return items
