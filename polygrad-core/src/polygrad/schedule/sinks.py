"""What a kernel's SINK says of it, found once: equal layers give the same SINK, over other buffers.

Parameters are slots here; whose memory they are, the KernelItem says.
"""

from __future__ import annotations

from typing import NamedTuple

from ..uop.ops import Ops, UOp

_OTHER = frozenset({Ops.AFTER, Ops.LOCAL, Ops.END, Ops.SCAN})
_put = object.__setattr__
Accesses = tuple[tuple[int, UOp], ...]  # (slot, LOAD or STORE), in the order of the nodes


class Sink(NamedTuple):
    """Facts of one SINK. `direct`: it reaches all its memory by parameters, not through effects.
    `plain`: loops from 0 to a constant, in any order, and values without effects between."""

    variables: tuple[UOp, ...]
    loads: Accesses
    stores: Accesses
    outer: frozenset[UOp]  # ranges that no reduction is over
    reduced: frozenset[UOp]
    direct: bool
    plain: bool
    product: bool  # a sum of products is among its reductions


def sink_facts(sink: UOp) -> Sink:
    """The facts of `sink`, kept with it."""
    found: Sink | None = sink.cache
    if found is None:
        found = _found(sink)
        _put(sink, "cache", found)
    return found


def _found(sink: UOp) -> Sink:
    nodes = sink.toposort()
    variables = tuple([n for n in nodes if n.op is Ops.VARIABLE])
    ranges = [n for n in nodes if n.op is Ops.RANGE]
    reductions = [n for n in nodes if n.op is Ops.REDUCE]
    accesses = [n for n in nodes if n.op is Ops.LOAD or n.op is Ops.STORE]
    slots = [(_slot(n), n) for n in accesses]
    reduced = frozenset(r for n in reductions for r in n.src[1:])
    return Sink(
        variables,
        tuple([(slot, n) for slot, n in slots if n.op is Ops.LOAD and slot is not None]),
        tuple([(slot, n) for slot, n in slots if n.op is Ops.STORE and slot is not None]),
        frozenset(ranges) - reduced,
        reduced,
        all(n.src[0].src[0].op is Ops.PARAM for n in accesses),
        all(map(_from_zero, ranges)) and not any(n.op in _OTHER for n in nodes),
        any(map(_is_product, reductions)),
    )


def _slot(access: UOp) -> int | None:
    """The parameter whose memory an access is to, seen through effects; None for other memory."""
    base = access.src[0].src[0]
    while base.op is Ops.AFTER:
        base = base.src[0]
    return base.arg[0] if base.op is Ops.PARAM else None


def _from_zero(loop: UOp) -> bool:
    """Does this loop run from 0 to a constant, in any order?"""
    fixed = all(s.op is Ops.CONST for s in loop.src)
    return fixed and loop.src[0].arg == 0 and loop.arg[1] != "seq"


def _is_product(reduction: UOp) -> bool:
    body = reduction.src[0]
    while body.op is Ops.CAST:
        body = body.src[0]
    return reduction.arg is Ops.ADD and body.op is Ops.MUL
