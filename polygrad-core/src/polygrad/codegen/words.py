"""64-bit integers as pairs of 32-bit words, for machines that have none.

Floor: codegen. In: the kernel-floor SINK of a kernel, or the stores of a decomposed one, with int64
and uint64 in them. Out: the same with uint32 alone. In memory an integer lies as its low word and
its high word, so a buffer of n is one of 2 n words; a register value is two values; a sum is made
of sums of short pieces of the words, which cannot carry. Counters and offsets (`index`) are no part
of this: on such a machine they have 32 bits.

Products over loops, running ones and running extremes are no reductions of single words, so they
are accumulators before they come here (`accumulators.py`). What stays undone (stores that combine)
raises UnsupportedOp by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..dtype import DType, dtypes
from ..errors import UnsupportedOp
from ..target import Target
from ..uop.ops import Ops, UOp, size, toposort
from ..uop.rewrite import rebuild
from .integers import threefry_words
from .kernel import extent, substitute
from .words_arithmetic import (
    BINARY,
    Words,
    casts,
    divided,
    extended,
    from_word,
    less,
    number,
    select,
    shifted,
)

_MEMORY: Final = frozenset({Ops.PARAM, Ops.LOCAL})
_ORDERS: Final = {Ops.CMPLT: (False, False), Ops.CMPLE: (True, True)}
_EXTREMES: Final = frozenset({Ops.MAXIMUM, Ops.MINIMUM, Ops.MAX, Ops.MIN})


def is_wide(dtype: DType) -> bool:
    return dtype in (dtypes.int64, dtypes.uint64)


def lacks(target: Target) -> bool:
    """Whether 64-bit integers must be taken apart for this machine."""
    return not target.supports(Ops.ADD, dtypes.int64)


def needs_both(node: UOp) -> bool:
    """Whether this runs over loops and each step needs both words of the one before."""
    whole = node.op is Ops.REDUCE and node.arg is Ops.MUL
    running = node.op is Ops.SCAN and node.arg is not Ops.ADD
    return (whole or running) and is_wide(node.dtype)


def in_words(roots: Iterable[UOp], target: Target) -> list[UOp]:
    """`roots` without 64-bit integers; a store of one becomes two."""
    roots = list(roots)
    if not lacks(target):
        return roots
    nodes = toposort(roots)
    if not any(is_wide(n.dtype) for n in nodes):
        return roots
    split = _Split(target, nodes)
    for node in nodes:
        split.visit(node)
    return [part for root in roots for part in split.parts(root)]


class _Split:
    """What each node became: one node, several effects, or a pair of words."""

    def __init__(self, target: Target, nodes: Iterable[UOp]) -> None:
        self.target = target
        self.words: dict[UOp, Words] = {}  # values, and addresses of values
        self.one: dict[UOp, UOp] = {}
        self.effects: dict[UOp, tuple[UOp, UOp]] = {}
        self.next = max((n.arg[0] for n in nodes if n.op is Ops.RANGE), default=0) + 1

    def parts(self, node: UOp) -> tuple[UOp, ...]:
        return self.effects.get(node) or (self.one[node],)

    def visit(self, node: UOp) -> None:
        if node.op is Ops.STORE and node.src[0] in self.words:
            self.effects[node] = self._store(node)
        elif node.op is Ops.INDEX and is_wide(node.dtype):
            self.words[node] = self._index(node)
        elif is_wide(node.dtype) and (node.op in _MEMORY or self._is_place(node)):
            self.one[node] = self._memory(node)
        elif is_wide(node.dtype):
            self.words[node] = self._value(node)
        elif node.op not in (Ops.STORE, Ops.INDEX, Ops.LOAD) and any(
            s in self.words for s in node.src
        ):
            self.one[node] = self._from_words(node)
        else:
            src = tuple(part for s in node.src for part in self.parts(s))
            self.one[node] = rebuild(node, src)

    # ---- memory

    def _is_place(self, node: UOp) -> bool:
        return node.op is Ops.AFTER and node.src[0] in self.one

    def _memory(self, node: UOp) -> UOp:
        if node.op is Ops.PARAM:
            slot, count = node.arg
            return UOp(node.op, dtypes.uint32, (), (slot, 2 * count))
        if node.op is Ops.LOCAL:
            count, *rest = node.arg
            return UOp(node.op, dtypes.uint32, (), (2 * count, *rest))
        src = tuple(part for s in node.src for part in self.parts(s))
        return UOp(node.op, dtypes.uint32, src, node.arg)

    def _index(self, node: UOp) -> Words:
        base, offset = (self.one[s] for s in node.src)
        low = offset * 2
        return Words(*(UOp(Ops.INDEX, dtypes.uint32, (base, at)) for at in (low, low + 1)))

    def _store(self, node: UOp) -> tuple[UOp, UOp]:
        address, value, *gate = node.src
        if node.arg is not None:
            raise self._refusal(f"a store that combines ({node.arg})")
        rest = tuple(self.one[g] for g in gate)
        pairs = zip(self.words[address], self.words[value], strict=True)
        low, high = (UOp(Ops.STORE, node.dtype, (at, word, *rest)) for at, word in pairs)
        return low, high

    # ---- 64-bit values

    def _value(self, node: UOp) -> Words:
        op, dtype = node.op, node.dtype
        if op is Ops.CONST:
            return number(node.arg)
        if op is Ops.LOAD:
            gate = tuple(self.one[g] for g in node.src[1:])
            low, high = self.words[node.src[0]]
            return Words(*(UOp(op, dtypes.uint32, (at, *gate)) for at in (low, high)))
        if op is Ops.VARIABLE:
            return _variable(node)
        if op in (Ops.REDUCE, Ops.SCAN):
            return self._sum(node) if node.arg is Ops.ADD else self._extreme(node)
        if op is Ops.AFTER:
            low, high = self.words[node.src[0]]
            order = tuple(part for s in node.src[1:] for part in self.parts(s))
            return Words(*(UOp(op, dtypes.uint32, (w, *order)) for w in (low, high)))
        if op is Ops.CAST:
            source = node.src[0]
            known = self.words.get(source)
            return known if known is not None else extended(self.one[source], dtype)
        if op is Ops.BITCAST and node.src[0] in self.words:
            return self.words[node.src[0]]
        return self._computed(node)

    def _computed(self, node: UOp) -> Words:
        """A value made of others of its dtype."""
        op, signed = node.op, node.dtype is dtypes.int64
        if op is Ops.WHERE:
            a, b = (self.words[s] for s in node.src[1:])
            return select(self.one[node.src[0]], a, b)
        if op in (Ops.SHL, Ops.SHR):
            value, count = (self.words[s] for s in node.src)
            return shifted(op, value, count, signed=signed)
        if op in (Ops.FLOORDIV, Ops.FLOORMOD):
            return self._divided(node)
        if op in _EXTREMES:
            a, b = (self.words[s] for s in node.src)
            smaller = op in (Ops.MINIMUM, Ops.MIN)
            return select(less(a, b, signed=signed), *((a, b) if smaller else (b, a)))
        make = BINARY.get(op)
        if make is None:
            raise self._refusal(f"{op.name} of {node.dtype.name}")
        return make(*(self.words[s] for s in node.src))

    def _divided(self, node: UOp) -> Words:
        """By a power of two with shifts, in 32 bits what these hold, else in full."""
        a, b = node.src
        signed = node.dtype is dtypes.int64
        divides = node.op is Ops.FLOORDIV
        c = int(b.arg) if b.op is Ops.CONST else 0
        if c > 0 and c & (c - 1) == 0:
            if not divides:
                return BINARY[Ops.AND](self.words[a], number(c - 1))
            count = number(c.bit_length() - 1)
            return shifted(Ops.SHR, self.words[a], count, signed=signed)
        if all(_within(x, dtypes.int32) for x in (a, b)) and (b.lo or 0) > 0:
            short = tuple(self.words[x].low.bitcast(dtypes.int32) for x in (a, b))
            return extended(UOp(node.op, dtypes.int32, short), node.dtype)
        quotient, rest = divided(self.words[a], self.words[b], signed=signed)
        return quotient if divides else rest

    def _sum(self, node: UOp) -> Words:
        """The words in pieces so short that the sum of each stays below 2^32."""
        value, *loops = node.src
        count = max(size([extent(r) for r in loops]), 1)
        low, high = self.words[value]

        def total(word: UOp) -> UOp:
            return UOp(node.op, dtypes.uint32, (word, *loops), Ops.ADD)

        if value.lo is not None and value.lo >= 0 and (value.hi or 0) * count <= dtypes.uint32.max:
            return from_word(total(low))
        width = max(32 - (count - 1).bit_length(), 1)
        result = Words(UOp.const(dtypes.uint32, 0), total(high))
        for at in range(0, 32, width):
            piece = total((low >> at) & ((1 << width) - 1))
            moved = shifted(Ops.SHL, from_word(piece), number(at), signed=False)
            result = BINARY[Ops.ADD](result, moved)
        return result

    def _extreme(self, node: UOp) -> Words:
        """The extreme high word, then the extreme low word among those that have it."""
        value, *loops = node.src
        low, high = self.words[value]
        kind = dtypes.int32 if node.dtype is dtypes.int64 else dtypes.uint32
        high = high.bitcast(kind)
        best = UOp(Ops.REDUCE, kind, (high, *loops), node.arg)
        again = {r: UOp.range(r.src[0], r.src[1], self.next + i) for i, r in enumerate(loops)}
        self.next += len(loops)
        low, high = substitute((low, high), again)
        worst = UOp.const(dtypes.uint32, 0 if node.arg is Ops.MAXIMUM else dtypes.uint32.max)
        among = high.eq(best).where(low, worst)
        lowest = UOp(Ops.REDUCE, dtypes.uint32, (among, *again.values()), node.arg)
        return Words(lowest, best.bitcast(dtypes.uint32))

    # ---- what is made of 64-bit values

    def _from_words(self, node: UOp) -> UOp:
        op = node.op
        if op is Ops.THREEFRY:
            return self._threefry(node)
        if op is Ops.CAST:
            return casts(self.words[node.src[0]], node.src[0].dtype, node.dtype)
        if op in (Ops.CMPEQ, Ops.CMPNE):
            a, b = (self.words[s] for s in node.src)
            same = a.low.eq(b.low) & a.high.eq(b.high)
            return same if op is Ops.CMPEQ else ~same
        if op in _ORDERS:
            swap, negate = _ORDERS[op]
            a, b = (self.words[s] for s in node.src)
            pair = (b, a) if swap else (a, b)
            found = less(*pair, signed=node.src[0].dtype is dtypes.int64)
            return ~found if negate else found
        raise self._refusal(f"{op.name} of {node.src[0].dtype.name}")

    def _threefry(self, node: UOp) -> UOp:
        element, keys = self.words[node.src[0]], [self.one[s] for s in node.src[1:]]
        counter = shifted(Ops.SHR, element, number(1), signed=False)
        x0, x1 = threefry_words(*counter, *keys)
        return (element.low & 1).ne(0).where(x1, x0)

    def _refusal(self, what: str) -> UnsupportedOp:
        return UnsupportedOp(
            f"device {self.target.name!r} has no 64-bit integers, and {what} is not composed of"
            " 32-bit ones. Cast to int32, or compute on another device."
        )


def _variable(node: UOp) -> Words:
    """A launch's number as two: the engine computes `name.low` and `name.high` from it."""
    name = node.arg[0]
    top = int(dtypes.uint32.max)
    return Words(
        *(
            UOp(Ops.VARIABLE, dtypes.uint32, (), (f"{name}.{part}", 0, top))
            for part in ("low", "high")
        )
    )


def _within(u: UOp, dtype: DType) -> bool:
    return u.lo is not None and u.hi is not None and dtype.min <= u.lo and u.hi <= dtype.max
