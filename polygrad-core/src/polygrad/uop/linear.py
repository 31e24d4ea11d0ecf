"""Linear forms: every expression of dtype `index` is `const + sum of coefficient * atom`.

Floor: uop. Atoms are loop counters, variables, `//` and `%` of such forms, products of atoms,
`min`, `max`, `where`, and whatever data is cast to index. A form is `(const, ((atom, coefficient),
...))`, coefficients not zero, sorted by structure (`order`), so equal sums are one node in every
process. The node of a form is a left-leaning chain `((a * 4) + b) + const`; its form is kept in
`UOp.cache`.

What code generation asks (how far does an address move when this loop advances?) is answered from
the form: `linear`, `coefficient`, `depends_on`, `divides`, `gcd_factor`, `ranges_of`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from ..dtype import dtypes
from .ops import Ops, UOp, toposort

Terms = tuple[tuple[UOp, int], ...]
Linear = tuple[int, Terms]

INDEX: Final = dtypes.index
ATOM: Final = "atom"  # in `cache`: a product that is an atom itself. A form there would be a cycle
# Local names, as looking up a member of an enum takes 0.1 us before Python 3.12.
CONST: Final = Ops.CONST
ADD: Final = Ops.ADD
MUL: Final = Ops.MUL
RANGE: Final = Ops.RANGE
_SUMS: Final = frozenset({ADD, MUL, Ops.SUB, Ops.NEG})
_MOST_PRODUCTS: Final = 16  # terms of a product that is still multiplied out
_MOST_EXTREMES: Final = 3  # that are replaced by one of their sides at once
_put: Final = object.__setattr__
_NO_RANGES: Final[frozenset[UOp]] = frozenset()


# ---- an order that is the same in every process


def order(u: UOp) -> tuple[int, Any]:
    """A sort key from structure alone: variables by name, ranges by number, others by digest."""
    key = u.order
    if key is None:
        if u.op is RANGE:
            key = (1, u.arg[0])
        elif u.op is Ops.VARIABLE:
            key = (0, u.arg[0])
        else:
            key = _digest(u)
        _put(u, "order", key)
    result: tuple[int, Any] = key
    return result


def _digest(root: UOp) -> tuple[int, bytes]:
    """(2, hash of op, dtype, argument and sources), filled bottom-up: any depth will do."""
    for u in toposort((root,), lambda n: n.order is None):
        if u is not root:
            order_of_leaf = u.order if u.order is not None else _node_digest(u)
            _put(u, "order", order_of_leaf)
    return _node_digest(root)


def _node_digest(u: UOp) -> tuple[int, Any]:
    if u.op is RANGE or u.op is Ops.VARIABLE:
        return (int(u.op is RANGE), u.arg[0])
    parts = [s.order for s in u.src]
    text = f"{u.op.name} {u.dtype.name} {u.arg!r} {parts!r}"
    return (2, blake2b(text.encode(), digest_size=12).digest())


def _term_order(term: tuple[UOp, int]) -> tuple[int, Any]:
    atom = term[0]
    return atom.order or order(atom)


# ---- forms


def linear(u: UOp) -> Linear:
    """The form of `u`: a constant and (atom, coefficient) pairs. What is not linear is an atom."""
    found = u.cache
    if found is not None and found is not ATOM:
        form: Linear = found
        return form
    if u.op is CONST and u.dtype is INDEX:
        return u.arg, ()
    if found is None and u.op in _SUMS and u.dtype is INDEX:
        return _linear_of_chain(u)
    return (u.lo, ()) if u.lo is not None and u.lo == u.hi and u.dtype is INDEX else (0, ((u, 1),))


def _linear_of_chain(root: UOp) -> Linear:
    """The form of nodes that were made without the smart constructor, of any depth."""
    for u in toposort((root,), lambda n: n.cache is None and n.op in _SUMS and n.dtype is INDEX):
        if u.cache is None and u.op in _SUMS and u.dtype is INDEX:
            form = _combine(u)
            single = form[0] == 0 and len(form[1]) == 1 and form[1][0] == (u, 1)
            _put(u, "cache", ATOM if single else form)
    return linear(root)


def _combine(u: UOp) -> Linear:
    forms = [linear(s) for s in u.src]
    if u.op is ADD:
        return plus(forms[0], forms[1])
    if u.op is Ops.SUB:
        return plus(forms[0], forms[1], -1)
    if u.op is Ops.NEG:
        return times(forms[0], -1)
    return product(forms[0], forms[1])


def ordered(const: int, coefficients: Mapping[UOp, int]) -> Linear:
    """The form of a table atom -> coefficient."""
    items = [item for item in coefficients.items() if item[1]]
    if len(items) > 1:
        items.sort(key=_term_order)
    return const, tuple(items)


def plus(a: Linear, b: Linear, scale: int = 1) -> Linear:
    """a + scale * b"""
    const = a[0] + scale * b[0]
    if not b[1]:
        return const, a[1]
    if not a[1] and scale == 1:
        return const, b[1]
    table = dict(a[1])
    for atom, c in b[1]:
        table[atom] = table.get(atom, 0) + scale * c
    return ordered(const, table)


def times(a: Linear, k: int) -> Linear:
    """k * a"""
    return (k * a[0], tuple([(atom, c * k) for atom, c in a[1]])) if k else (0, ())


def product(a: Linear, b: Linear) -> Linear:
    """a * b, multiplied out unless that has too many terms."""
    if not b[1]:
        return times(a, b[0])
    if not a[1]:
        return times(b, a[0])
    if len(a[1]) * len(b[1]) > _MOST_PRODUCTS:
        return 0, ((_atom(sorted((node(a), node(b)), key=order)), 1),)
    table: dict[UOp, int] = {}
    for x, c in a[1]:
        for y, d in b[1]:
            xy = _atom(sorted((*factors(x), *factors(y)), key=order))
            table[xy] = table.get(xy, 0) + c * d
    crossed = plus(times((0, a[1]), b[0]), times((0, b[1]), a[0]))
    return plus(ordered(a[0] * b[0], table), crossed)


def factors(atom: UOp) -> list[UOp]:
    """The atoms a product atom multiplies; itself for any other."""
    out = []
    while atom.op is MUL and atom.cache is ATOM:
        out.append(atom.src[1])
        atom = atom.src[0]
    return [atom, *reversed(out)]


def _atom(parts: Sequence[UOp]) -> UOp:
    made = parts[0]
    for part in parts[1:]:
        made = UOp(MUL, INDEX, (made, part))
        if made.cache is None:
            _put(made, "cache", ATOM)
    return made


def node(form: Linear) -> UOp:
    """The node of a form, as it stands."""
    const, terms = form
    if not terms:
        return UOp(CONST, INDEX, (), const)
    made: UOp | None = None
    for atom, c in terms:
        part = atom if c == 1 else UOp(MUL, INDEX, (atom, UOp(CONST, INDEX, (), c)))
        made = part if made is None else UOp(ADD, INDEX, (made, part))
    assert made is not None
    if const:
        made = UOp(ADD, INDEX, (made, UOp(CONST, INDEX, (), const)))
    if made.cache is None and (const or made is not terms[0][0]):
        _put(made, "cache", form)
    return made


def bounds(const: int, terms: Iterable[tuple[UOp, int]]) -> tuple[int, int]:
    """The interval of `const` plus some terms."""
    lo = hi = const
    for atom, c in terms:
        a, b = (atom.lo, atom.hi) if c > 0 else (atom.hi, atom.lo)
        lo += c * a  # type: ignore[operator]  # an atom of dtype index has an interval
        hi += c * b  # type: ignore[operator]
    return lo, hi


# ---- bounds that are expressions: a counter below n, min(n, 4)


def below_zero(form: Linear, budget: int = _MOST_EXTREMES) -> bool:
    """Whether form < 0 for certain, by intervals and by what bounds its counters and extremes."""
    form = _without_counters(form)
    if bounds(*form)[1] < 0:
        return True
    return budget > 0 and any(_below_by(form, term, budget - 1) for term in form[1])


def _without_counters(form: Linear) -> Linear:
    """The most that form can be for any step of its loops; nothing runs in an empty one."""
    for atom, k in form[1]:
        if atom.op is RANGE and any(s.op is not CONST for s in atom.src):
            lo, hi = map(linear, atom.src)
            most = (hi[0] - 1, hi[1]) if k > 0 else lo
            return _without_counters(plus(plus(form, (0, ((atom, k),)), -1), most, k))
    return form


def _below_by(form: Linear, term: tuple[UOp, int], budget: int) -> bool:
    """Whether form < 0 with an extreme of it replaced by what it is never beyond."""
    atom, k = term
    if atom.op is not Ops.MINIMUM and atom.op is not Ops.MAXIMUM:
        return False
    rest = plus(form, (0, (term,)), -1)
    enough = any if (atom.op is Ops.MINIMUM) == (k > 0) else all
    return enough(below_zero(plus(rest, linear(s), k), budget) for s in atom.src)


# ---- questions


def coefficient(u: UOp, atom: UOp) -> int | None:
    """How much `u` grows when `atom` grows by one; None where that is not constant."""
    found = 0
    for part, c in linear(u)[1]:
        if part is atom:
            found = c
        elif depends_on(part, atom):
            return None
    return found


def moves_along(store: UOp, value: UOp, fixed: Iterable[UOp] = ()) -> bool:
    """Does a value change from one element that a store writes to its neighbour in memory, while
    the `fixed` ranges stand still?"""
    offset = store.src[0].src[1]
    moving = (ranges_of(value) & ranges_of(offset)).difference(fixed)
    return any(coefficient(offset, r) == 1 for r in moving)


def depends_on(u: UOp, atom: UOp) -> bool:
    """Whether `atom` occurs in `u` (a loop counter: freely, not bound by a reduction inside)."""
    if u is atom:
        return True
    if atom.op is RANGE:
        return atom in ranges_of(u)
    return atom in toposort((u,))


def gcd_factor(u: UOp) -> int:
    """The largest number that divides `u` for certain; 0 for the constant 0."""
    const, terms = linear(u)
    return math.gcd(const, *(c for _, c in terms))


def divides(u: UOp, n: int) -> bool:
    """Whether `u` is a multiple of `n` for certain."""
    g = gcd_factor(u)
    return g % n == 0 if n else g == 0


def ranges_of(u: UOp) -> frozenset[UOp]:
    """The loop counters `u` depends on, also by bounds of loops; REDUCE and END bind theirs."""
    found = u.ranges
    if found is None:
        for n in toposort((u,), lambda n: n.ranges is None):
            if n.ranges is None:
                _put(n, "ranges", _below(n))
        found = u.ranges
    result: frozenset[UOp] = found
    return result if u.op is not RANGE else result | {u}


def _below(u: UOp) -> frozenset[UOp]:
    """`ranges_of` less `u` itself: a node held by its own slot would never be freed."""
    out = _NO_RANGES
    for s in u.src:
        inside = ranges_of(s)
        if inside and not inside <= out:
            out = inside if out <= inside else out | inside
    if u.op is Ops.REDUCE or u.op is Ops.END:
        out = out.difference(u.src[1:])
    return out


def mixed(
    roots: Sequence[UOp], among: Collection[UOp], uneven: bool = False
) -> tuple[UOp, int] | None:
    """One of these ranges that starts at 0 and is seen through // or % of a divisor of its length,
    or of what is none if `uneven`, with that number; None if there is none."""
    for node in toposort(tuple(roots)):
        if node.op in (Ops.FLOORDIV, Ops.FLOORMOD) and node.dtype is dtypes.index:
            x, d = node.src
            if x in among and d.op is Ops.CONST and all(s.op is Ops.CONST for s in x.src):
                n = x.src[1].arg
                if x.src[0].arg == 0 and 1 < d.arg < n and (n % d.arg != 0) == uneven:
                    return x, int(d.arg)
    return None
