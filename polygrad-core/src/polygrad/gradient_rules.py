"""The rules of gradients: for each op one function per source, in one table.

Floor: gradient. A rule takes a node and the gradient that flows into it, and gives the gradient of
a source; None stands where nothing flows.

An op that is not in the table gives nothing that its sources move: comparisons, random bits.
Rounding has a slope, which is 0 almost everywhere: zeros flow, as in torch, and it is no error.
Conventions where a derivative is a choice: equal extremes share evenly; sqrt has slope inf at 0;
`x ** y` has slope 0 in y where x is 0 and y >= 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from .dtype import dtypes
from .errors import GradientError
from .gradient_windows import shrunk, window
from .schedule.moving import reverse
from .uop.ops import Ops, Shape, UOp

Rule = Callable[[UOp, UOp], UOp]
# Of a call with several values, from a node of it and what flows into each value (None: nothing) to
# what flows into each source. It sees all of them at once, and is asked once.
Joint = Callable[[UOp, Sequence["UOp | None"]], Sequence["UOp | None"]]


CALLS: Final = frozenset({Ops.KERNEL, Ops.FUNCTION})  # nodes that are values of one call


def filled(like: UOp, value: int) -> UOp:
    """A constant of the shape and dtype of a node."""
    const = UOp.const(like.dtype, value)
    return const.broadcast_to(like.shape) if like.shape else const


# ---- movement: the gradient moves the other way


def _spread(x: UOp, shape: Shape, axes: Sequence[int]) -> UOp:
    """Axes that a reduction took away, put back."""
    return x.reshape([1 if a in axes else n for a, n in enumerate(shape)]).expand(shape)


def _reshape(node: UOp, g: UOp) -> UOp:
    return g.reshape(node.src[0].shape)


def _permute(node: UOp, g: UOp) -> UOp:
    return g.permute(sorted(range(len(node.arg)), key=node.arg.__getitem__))


def _expand(node: UOp, g: UOp) -> UOp:
    old = node.src[0].shape
    grown = [a for a, (m, n) in enumerate(zip(old, node.shape, strict=True)) if m != n]
    return g.reduce(Ops.ADD, grown).reshape(old)


def _shrink(node: UOp, g: UOp) -> UOp:
    pads = []
    for n, count, (start, _, step) in zip(node.src[0].shape, node.shape, node.arg, strict=True):
        extent = (count - 1) * step + 1 if count else 0
        pads.append((start, n - start - extent, step - 1) if count else (n, 0, 0))
    return g.pad(pads)


def _pad(node: UOp, g: UOp) -> UOp:
    bounds = []
    for n, (before, _, interior) in zip(node.src[0].shape, node.arg, strict=True):
        extent = n + max(n - 1, 0) * interior
        bounds.append((before, before + extent, interior + 1))
    return shrunk(g, bounds)


# ---- reductions


def _reduce(node: UOp, g: UOp) -> UOp:
    op, axes = node.arg
    return _REDUCTIONS[op](node, _spread(g, node.src[0].shape, axes), axes)


def _product(node: UOp, g: UOp, axes: Sequence[int]) -> UOp:
    """The product of all the others, by a tree: each of a pair gets what flows into the pair times
    its partner. No division, so zeros are right, in higher derivatives too."""
    x = node.src[0]
    kept = [a for a in range(len(x.shape)) if a not in axes]
    order = (*kept, *axes)
    lead = tuple(x.shape[a] for a in kept)
    n = math.prod(x.shape[a] for a in axes)
    level = x.permute(order).reshape((*lead, n))
    pairs = []
    while level.shape[-1] > 1:
        level = _paired(level)
        pairs.append(level)
        level = _half(level, 0) * _half(level, 1)
        level = level.contiguous() if n > _INLINED else level
    flow = g.permute(order).reshape((*lead, n)).shrink([*_all(lead), (0, min(n, 1), 1)])
    for pair in reversed(pairs):
        shape = pair.shape
        flow = flow.shrink([*_all(lead), (0, shape[-2], 1)]).reshape((*shape[:-1], 1)).expand(shape)
        flow = (flow * pair.flip((len(shape) - 1,))).reshape((*lead, shape[-2] * 2))
    out = flow.shrink([*_all(lead), (0, n, 1)]).reshape([x.shape[a] for a in order])
    return out.permute(sorted(range(len(order)), key=order.__getitem__))


_INLINED: Final = 64  # products up to this length repeat their few levels instead of storing them


def _all(shape: Shape) -> list[tuple[int, int, int]]:
    return [(0, n, 1) for n in shape]


def _paired(x: UOp) -> UOp:
    """The last axis in pairs, an odd one out with 1."""
    *lead, n = x.shape
    if n % 2:
        pads = [*((0, 0, 0) for _ in lead), (0, 1, 0)]
        inside = UOp.const(dtypes.bool, True).broadcast_to(x.shape).pad(pads)
        x = inside.where(x.pad(pads), 1.0)
    return x.reshape((*lead, (n + 1) // 2, 2))


def _half(x: UOp, side: int) -> UOp:
    return x.shrink([*_all(x.shape[:-1]), (side, side + 1, 1)]).reshape(x.shape[:-1])


def _share(node: UOp, g: UOp, axes: Sequence[int]) -> UOp:
    """Equal extremes share evenly; the count is float32, as 70 000 ties overflow a half."""
    x = node.src[0]
    best = _spread(node, x.shape, axes)
    chosen = x.eq(best) | x.ne(x)
    wide = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    ties = _spread(chosen.cast(wide).reduce(Ops.ADD, axes), x.shape, axes)
    return chosen.where((g.cast(wide) / ties).cast(g.dtype), 0.0)


_REDUCTIONS: Final[dict[Ops, Callable[[UOp, UOp, Sequence[int]], UOp]]] = {
    Ops.ADD: lambda node, g, axes: g,
    Ops.MUL: _product,
    Ops.MAXIMUM: _share,
    Ops.MINIMUM: _share,
}


# ---- elementwise


def _alu(op: Ops, x: UOp) -> UOp:
    return UOp.alu(op, x)


def _extreme(own: int) -> Rule:
    """Of two: the winner takes all, equal ones halve it."""

    def rule(node: UOp, g: UOp) -> UOp:
        mine, other = node.src[own], node.src[1 - own]
        loses = mine < other if node.op is Ops.MAXIMUM else other < mine
        return loses.where(g._with(0.0), mine.eq(other).where(g * 0.5, g))

    return rule


def _power_base(node: UOp, g: UOp) -> UOp:
    x, y = node.src
    flat = y.eq(0.0)
    slope = y * UOp.alu(Ops.POW, flat.where(x._with(1.0), x), y - 1.0)
    return g * flat.where(slope._with(0.0), slope)


def _power_exponent(node: UOp, g: UOp) -> UOp:
    x, y = node.src
    flat = x.eq(0.0) & (y >= 0.0)
    return g * flat.where(x._with(0.0), node * _alu(Ops.LOG, flat.where(x._with(1.0), x)))


def _flat(node: UOp, g: UOp) -> UOp:
    """Constant almost everywhere."""
    return filled(node.src[0], 0)


def _where(own: int) -> Rule:
    def rule(node: UOp, g: UOp) -> UOp:
        nothing = g._with(0.0)
        return node.src[0].where(*((g, nothing) if own == 1 else (nothing, g)))

    return rule


# ---- gather and scatter


def _gather(node: UOp, g: UOp) -> UOp:
    x, index = node.src
    moved = reverse(node, g)
    if moved is not None:
        return moved
    return filled(x, 0).scatter(index, g, node.arg, "add")


def _scatter_base(node: UOp, g: UOp) -> UOp:
    axis, mode = node.arg
    base, index, updates = node.src
    if mode == "add":
        return g
    if mode == "set":
        return g.scatter(index, filled(updates, 0), axis, "set")
    return g * _SHARES[mode](node)(base, lambda u: u)


def _scatter_updates(node: UOp, g: UOp) -> UOp:
    axis, mode = node.arg
    base, index, updates = node.src
    read = g.gather(index, axis)
    if mode == "add":
        return read
    if mode != "set":
        return read * _SHARES[mode](node)(updates, lambda u: u.gather(index, axis))
    # Of updates to one place the last wins: number them, write the numbers, see whose stayed.
    numbers = UOp.iota(_size(index.shape)).reshape(index.shape)
    stayed = UOp.const(numbers.dtype, -1).broadcast_to((base.shape[axis],))
    stayed = stayed.scatter(index, numbers, 0, "set").gather(index, 0)
    shape = (1,) * axis + index.shape + (1,) * (len(base.shape) - axis - 1)
    won = stayed.eq(numbers).reshape(shape).expand(updates.shape)
    return won.where(read, 0.0)


# What an element that meets others at a place adds to the slope: from the element and the way to
# bring a value of its place to it.
_Share = Callable[[UOp, Callable[[UOp], UOp]], UOp]


def _factor_share(node: UOp) -> _Share:
    """The product of the others: of all that are not zero, unless another one is zero."""
    axis, _ = node.arg
    base, index, updates = node.src

    def together(of: Callable[[UOp], UOp], mode: str) -> UOp:
        return of(base).scatter(index, of(updates), axis, mode)

    zeros = together(lambda u: u.eq(0.0).cast(u.dtype), "add")
    rest = together(lambda u: u.eq(0.0).where(u._with(1.0), u), "mul")

    def share(u: UOp, here: Callable[[UOp], UOp]) -> UOp:
        zero, others = u.eq(0.0), here(rest)
        alone = here(zeros).eq(zero.cast(u.dtype))
        return alone.where(others / zero.where(u._with(1.0), u), 0.0)

    return share


def _extreme_share(node: UOp) -> _Share:
    """Equal extremes share evenly."""
    axis, _ = node.arg
    base, index, updates = node.src
    best = base.eq(node), updates.eq(node.gather(index, axis))
    ties = best[0].cast(base.dtype).scatter(index, best[1].cast(base.dtype), axis, "add")

    def share(u: UOp, here: Callable[[UOp], UOp]) -> UOp:
        count = here(ties)
        chosen = u.eq(here(node)) & count.ne(0.0)
        return chosen.where(1.0 / chosen.where(count, 1.0), 0.0)

    return share


_SHARES: Final[dict[str, Callable[[UOp], _Share]]] = {
    "mul": _factor_share,
    "max": _extreme_share,
    "min": _extreme_share,
}


def _size(shape: Shape) -> int:
    return math.prod(shape)


def _kernel(node: UOp, g: UOp) -> UOp:
    raise GradientError("a custom kernel has no gradient of its own; give it grad_fxn.")


class Function(NamedTuple):
    """The argument of a FUNCTION node, which is value number `which` of `total`.

    Its sources are the values and then the inputs, for which `gradient`, or the rule of that name,
    says what flows into them.
    """

    name: str
    which: int
    total: int
    gradient: Joint | None = None


def _lost(node: UOp, g: UOp) -> Sequence[UOp | None]:
    raise GradientError(
        "the gradient of this function is Python code (its grad_fxn), which a bundle does not hold."
    )


FLAT: Final = "flat"  # constant almost everywhere in all of its inputs
THROUGH: Final = "through"  # differentiated as its values are
PYTHON: Final = "python"  # differentiated by its own rule
# Rules of FUNCTION nodes by name: from the node and what flows into it to what flows into each
# input. Floors above put theirs in.
FUNCTIONS: Final[dict[str, Callable[[UOp, UOp], Sequence[UOp | None]]]] = {
    FLAT: lambda node, g: [filled(s, 0) for s in node.src[node.arg.total :]],
    THROUGH: lambda node, g: [],
    PYTHON: _lost,
}


def by_slope(slope: Rule) -> Callable[[UOp, UOp], Sequence[UOp | None]]:
    """The rule of an elementwise FUNCTION of one input from its slope at (input, value)."""
    return lambda node, g: [g * slope(node.src[1], node)]


def _function(own: int) -> Rule:
    def rule(node: UOp, g: UOp) -> UOp:
        name, which, count, _ = node.arg
        if own < count:
            part = g if name == THROUGH and own == which else None
        else:
            part = FUNCTIONS[name](node, g)[own - count]
        return filled(node.src[own], 0) if part is None else part

    return rule


def _copied(node: UOp, g: UOp) -> UOp:
    home = node.src[0].device
    return g if home is None else g.copy_to(home)


def _cast(node: UOp, g: UOp) -> UOp:
    return g.cast(node.src[0].dtype)


def _scan(node: UOp, g: UOp) -> UOp:
    """Each element counts in every running sum from its own place on."""
    op, axis = node.arg
    if op is not Ops.ADD:
        raise GradientError(f"a running {op.name} has no gradient; a running sum has.")
    return g.flip((axis,)).scan(op, axis).flip((axis,))


# ---- the table: for each op one rule per source

RULES: Final[dict[Ops, tuple[Rule | None, ...]]] = {
    # movement
    Ops.RESHAPE: (_reshape,),
    Ops.PERMUTE: (_permute,),
    Ops.EXPAND: (_expand,),
    Ops.SHRINK: (_shrink,),
    Ops.PAD: (_pad,),
    Ops.FLIP: (lambda node, g: g.flip(node.arg),),
    Ops.WINDOW: (window,),
    # nodes that hand on
    Ops.CONTIGUOUS: (lambda node, g: g,),
    Ops.COPY: (_copied,),
    Ops.AFTER: (None, lambda node, g: g),
    Ops.STORE: (None, lambda node, g: g),
    Ops.CAST: (_cast,),
    # reductions
    Ops.REDUCE: (_reduce,),
    Ops.SCAN: (_scan,),
    # one source
    Ops.NEG: (lambda node, g: -g,),
    Ops.SQRT: (lambda node, g: g / (node * 2.0),),
    Ops.RECIP: (lambda node, g: -(g * node * node),),
    Ops.EXP: (lambda node, g: g * node,),
    Ops.EXP2: (lambda node, g: g * node * math.log(2.0),),
    Ops.LOG: (lambda node, g: g / node.src[0],),
    Ops.LOG2: (lambda node, g: g / (node.src[0] * math.log(2.0)),),
    Ops.SIN: (lambda node, g: g * _alu(Ops.COS, node.src[0]),),
    Ops.COS: (lambda node, g: -(g * _alu(Ops.SIN, node.src[0])),),
    Ops.TANH: (lambda node, g: g * (1.0 - node * node),),
    # not of the value alone, whose distance from 1 has few digits
    Ops.SIGMOID: (lambda node, g: g * (node * _alu(Ops.SIGMOID, -node.src[0])),),
    Ops.ERF: (
        lambda node, g: g * _alu(Ops.EXP, -(node.src[0] * node.src[0])) * (2 / math.sqrt(math.pi)),
    ),
    **dict.fromkeys((Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND), (_flat,)),
    # two sources
    Ops.ADD: (lambda node, g: g, lambda node, g: g),
    Ops.SUB: (lambda node, g: g, lambda node, g: -g),
    Ops.MUL: (lambda node, g: g * node.src[1], lambda node, g: g * node.src[0]),
    Ops.DIV: (lambda node, g: g / node.src[1], lambda node, g: -(g * node) / node.src[1]),
    Ops.MAXIMUM: (_extreme(0), _extreme(1)),
    Ops.MINIMUM: (_extreme(0), _extreme(1)),
    Ops.POW: (_power_base, _power_exponent),
    Ops.FMOD: (
        lambda node, g: g,
        lambda node, g: -(g * _alu(Ops.TRUNC, node.src[0] / node.src[1])),
    ),
    # three sources
    Ops.WHERE: (None, _where(1), _where(2)),
    # indices
    Ops.GATHER: (_gather, None),
    Ops.SCATTER: (_scatter_base, None, _scatter_updates),
    Ops.KERNEL: (_kernel,),
    Ops.FUNCTION: (_function(0),),
}


def rules_of(node: UOp) -> Sequence[Rule | None]:
    """The rule of each source, as many as have one."""
    if node.op in CALLS:
        return _call_rules(node.op, len(node.src))
    return RULES.get(node.op, ())


@lru_cache(maxsize=256)
def _call_rules(op: Ops, count: int) -> tuple[Rule, ...]:
    return (_kernel,) * count if op is Ops.KERNEL else tuple(map(_function, range(count)))
