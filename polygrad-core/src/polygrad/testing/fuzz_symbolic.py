"""`python -m polygrad.testing.fuzz symbolic`: the integer algebra against brute force.

A case is a random expression over up to three loop counters of at most nine values each, negative
ones included: sums, products, `//`, `%`, min, max, where, comparisons, chains of reshapes, and
arithmetic of small wrapping integers. In some the first counter is a variable and the second runs
to a multiple of it. It is built through the smart constructors and evaluated at
every point, and so is the plain expression by numpy, which knows nothing of our rules. Checked of
each case:

* the values are equal, and those of every node inside lie in its `[lo, hi]`;
* `coefficient` is the difference between neighbours, `gcd_factor` divides every value, and only
  `ranges_of` matter;
* building it again gives the same node.

A failing case is reduced (up to 400 smaller ones tried) and printed with its seed.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..dtype import DType, dtypes
from ..uop.ops import COMPARISONS, Ops, UOp
from ..uop.symbolic import coefficient, gcd_factor, ranges_of
from .fuzz_cases import BOOL, INDEX, Bounds, Case, Expr, dtype_of, smaller_cases, text

Values = npt.NDArray[np.int64]
NARROW: Final = (dtypes.int8, dtypes.uint8, dtypes.int32)
# larger values than this are not interesting, and int64 must hold the squares
MOST: Final = 1 << 40
TRIES: Final = 400


# ---- what each op means, by numpy


def _floordiv(a: Values, b: Values) -> Values:
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _floormod(a: Values, b: Values) -> Values:
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b))


def _shl(a: Values, count: Values, bits: int) -> Values:
    inside = (count >= 0) & (count < bits)
    return np.where(inside, a << np.where(inside, count, 0), 0)


def _shr(a: Values, count: Values, bits: int) -> Values:
    inside = (count >= 0) & (count < bits)
    return np.where(inside, a >> np.where(inside, count, 0), -(a < 0).astype(np.int64))


MEANING: Final[Mapping[Ops, Callable[..., Any]]] = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.NEG: np.negative,
    Ops.FLOORDIV: _floordiv,
    Ops.FLOORMOD: _floormod,
    Ops.MAXIMUM: np.maximum,
    Ops.MINIMUM: np.minimum,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.NOT: np.invert,
    Ops.CMPLT: np.less,
    Ops.CMPLE: np.less_equal,
    Ops.CMPEQ: np.equal,
    Ops.CMPNE: np.not_equal,
    Ops.WHERE: lambda c, a, b: np.where(c != 0, a, b),
}


def _apply(op: Ops, dtype: DType, source: DType, args: Sequence[Values]) -> Values:
    if op is Ops.CAST:
        return (args[0] != 0).astype(np.int64) if dtype is BOOL else _wrap(args[0], dtype)
    if op in (Ops.SHL, Ops.SHR):
        return _wrap((_shl if op is Ops.SHL else _shr)(args[0], args[1], dtype.bits), dtype)
    if op is Ops.NOT and dtype is BOOL:
        return 1 - args[0]
    return _wrap(np.asarray(MEANING[op](*args)).astype(np.int64), dtype)


def _wrap(values: Values, dtype: DType) -> Values:
    if dtype is INDEX or dtype is BOOL:
        return values
    cut = values & ((1 << dtype.bits) - 1)
    return cut if dtype.is_unsigned else cut - ((cut >> (dtype.bits - 1)) << dtype.bits)


def points(bounds: Bounds) -> list[Values]:
    """Each counter's value at every point of the box."""
    return list(np.meshgrid(*[np.arange(lo, hi) for lo, hi in bounds], indexing="ij"))


def expected(expr: Expr, box: Sequence[Values]) -> Values | None:
    """The values of an expression, None where they get too large."""
    if expr[0] == "range":
        return box[expr[1]]
    if expr[0] == "const":
        return np.full(box[0].shape, expr[2], np.int64)
    args = [expected(e, box) for e in expr[2:]]
    if any(a is None for a in args):
        return None
    out = _apply(expr[0], expr[1], dtype_of(expr[2]), args)  # type: ignore[arg-type]
    return out if np.abs(out).max() < MOST else None


# ---- through our constructors


def counters(case: Case) -> list[UOp]:
    out = [UOp.range(lo, hi, i) for i, (lo, hi) in enumerate(case.bounds)]
    if case.below:
        lo, hi = case.bounds[0]
        out[0] = UOp.variable("n", lo, hi - 1)
        out[1] = UOp.range(UOp.index(0), out[0] * case.below, 1)
    return out


def reached(case: Case, box: Sequence[Values]) -> npt.NDArray[np.bool_]:
    """The points that loops come to."""
    return box[1] < case.below * box[0] if case.below else np.ones(box[0].shape, bool)


def build(expr: Expr, ranges: Sequence[UOp]) -> UOp:
    """The node of an expression."""
    if expr[0] == "range":
        return ranges[expr[1]]
    if expr[0] == "const":
        return UOp.const(expr[1], expr[2])
    src = [build(e, ranges) for e in expr[2:]]
    return src[0].cast(expr[1]) if expr[0] is Ops.CAST else UOp.alu(expr[0], *src)


def evaluate(root: UOp, ranges: Sequence[UOp], box: Sequence[Values]) -> dict[UOp, Values]:
    """The values of every node below `root`."""
    done: dict[UOp, Values] = {}
    for u in root.toposort():
        if u in ranges:
            done[u] = box[ranges.index(u)]
        elif u.op is Ops.CONST:
            done[u] = np.full(box[0].shape, int(u.arg), np.int64)
        else:
            done[u] = _apply(u.op, u.dtype, u.src[0].dtype, [done[s] for s in u.src])
    return done


def fault(case: Case) -> str | None:
    """What is wrong with our node of this case, None where nothing is or it is no use."""
    box = points(case.bounds)
    want = expected(case.expr, box)
    if want is None:
        return None
    ranges, inside = counters(case), reached(case, box)
    if not inside.any():
        return None
    root = build(case.expr, ranges)
    values = evaluate(root, ranges, box)
    got = values[root]
    if root.dtype is not dtype_of(case.expr):
        return f"{root!r} has dtype {root.dtype}"
    if not np.array_equal(got[inside], want[inside]):
        at = tuple(int(i) for i in np.argwhere((got != want) & inside)[0])
        place = [int(b[at]) for b in box]
        return f"{root!r} is {got[at]} at {place}, should be {want[at]}"
    for u, v in values.items():
        lo, hi = int(v[inside].min()), int(v[inside].max())
        if u.lo is None or u.hi is None or u.lo > lo or u.hi < hi:
            return f"{u!r} says [{u.lo}, {u.hi}] and takes values in [{lo}, {hi}]"
    if build(case.expr, ranges) is not root:
        return f"{root!r} and then {build(case.expr, ranges)!r} from the same expression"
    return _wrong_answer(root, got, ranges, inside)


def _wrong_answer(
    root: UOp, got: Values, ranges: Sequence[UOp], inside: npt.NDArray[np.bool_]
) -> str | None:
    """A question about `root` that is answered wrongly."""
    free = ranges_of(root)
    for axis, r in enumerate(ranges):
        both = np.diff(inside.astype(np.int64), axis=axis) == 0
        both &= np.take(inside, range(1, inside.shape[axis]), axis)
        steps = np.diff(got, axis=axis)[both]
        if r.op is Ops.RANGE and r not in free and steps.any():
            return f"{root!r} depends on {r!r}, which ranges_of does not say"
        k = coefficient(root, r) if root.dtype is INDEX else None
        if k is not None and not (steps == k).all():
            return f"coefficient of {r!r} in {root!r} is said to be {k}"
    g = gcd_factor(root) if root.dtype is INDEX else 1
    got = got[inside]
    if (g == 0 and got.any()) or (g and (got % g).any()):
        return f"{g} does not divide {root!r}"
    return None


# ---- the generator


class Generator:
    """Random cases from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bounds: Bounds = ()
        self.below = 0

    def case(self) -> Case:
        r = self.random
        count = r.choice((1, 2, 2, 3, 3))
        self.bounds = tuple(self._bounds() for _ in range(count))
        self.below = r.randint(1, 3) if count > 1 and r.random() < 0.35 else 0
        if self.below:
            lo = r.choice((0, 1, 1, 2, 5))
            most = lo + r.randint(1, 4)
            self.bounds = ((lo, most + 1), (0, self.below * most), *self.bounds[2:])
        make = r.choices((self.index, self.chain, self.condition, self.narrow), (6, 3, 3, 2))[0]
        return Case(self.bounds, make(r.randint(1, 5)), self.below)

    def _bounds(self) -> tuple[int, int]:
        lo = self.random.choice((0, 0, 0, self.random.randint(-6, 6)))
        return lo, lo + self.random.randint(1, 9)

    def index(self, depth: int) -> Expr:
        """An index expression."""
        r = self.random
        if depth <= 0:
            counter = ("range", r.randrange(len(self.bounds)))
            return counter if r.random() < 0.75 else self.constant(INDEX)
        if self.below and r.random() < 0.3:
            return self.by_size(depth)
        kinds = (self.affine, self.divided, self.paired, self.binary, self.chosen, self.narrowed)
        return r.choices(kinds, (5, 6, 2, 4, 1, 1))[0](depth)

    def constant(self, dtype: DType) -> Expr:
        if dtype is INDEX:
            return "const", dtype, self.random.choice((0, 1, -1, 2, 3, 4, 8, self.small()))
        lo, hi = int(dtype.min), int(dtype.max)
        edges = (0, 1, 2, hi, hi - 1, lo, lo + 1, max(lo, -1), self.random.randint(0, 9))
        return "const", dtype, self.random.choice(edges)

    def small(self) -> int:
        return self.random.randint(-20, 20)

    def affine(self, depth: int) -> Expr:
        """A sum of multiples, the usual shape of an offset."""
        out = self.constant(INDEX)
        for _ in range(self.random.randint(1, 3)):
            part = self.index(depth - 2)
            k: Expr = ("const", INDEX, self.random.choice((1, 2, 3, 4, 6, 8, 12, -1, -4, 5)))
            out = (Ops.ADD, INDEX, out, (Ops.MUL, INDEX, part, k))
        return out

    def divided(self, depth: int) -> Expr:
        c = self.random.choice((2, 3, 4, 4, 6, 8, 12, 5, 7, 1, 0, -1, -3, -4, 24))
        op = self.random.choice((Ops.FLOORDIV, Ops.FLOORMOD))
        return op, INDEX, self.index(depth - 1), ("const", INDEX, c)

    def paired(self, depth: int) -> Expr:
        """a*y + b*(y // c) + d*(y % c), coefficients often such that they belong together."""
        r = self.random
        y, c = self.index(depth - 1), r.choice((2, 3, 4, 6, 8))
        divisor: Expr = ("const", INDEX, c)
        parts = (y, (Ops.FLOORDIV, INDEX, y, divisor), (Ops.FLOORMOD, INDEX, y, divisor))
        out = self.index(depth - 2)
        for part, unit in zip(parts, (1, c, 1), strict=True):
            k: Expr = ("const", INDEX, r.choice((0, 1, 1, -1, 2)) * unit)
            out = (Ops.ADD, INDEX, out, (Ops.MUL, INDEX, part, k))
        return out

    def by_size(self, depth: int) -> Expr:
        """A flat index over an axis that varies, split by its size, or clipped to it."""
        r = self.random
        unit: Expr = ("const", INDEX, r.choice((1, 2, self.below, 2 * self.below)))
        size: Expr = (Ops.MUL, INDEX, ("range", 0), unit)
        row = (Ops.MUL, INDEX, self.index(depth - 2), size)
        column: Expr = (Ops.MUL, INDEX, ("range", 1), ("const", INDEX, r.choice((1, 1, 2))))
        flat: Expr = (Ops.ADD, INDEX, row, (Ops.ADD, INDEX, column, self.constant(INDEX)))
        if r.random() < 0.3:
            return r.choice((Ops.MINIMUM, Ops.MAXIMUM)), INDEX, flat, size
        return r.choice((Ops.FLOORDIV, Ops.FLOORMOD)), INDEX, flat, size

    def binary(self, depth: int) -> Expr:
        ops = (Ops.ADD, Ops.SUB, Ops.MAXIMUM, Ops.MINIMUM, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD)
        op = self.random.choices(ops, (5, 5, 3, 3, 1, 1, 1))[0]
        return op, INDEX, self.index(depth - 1), self.index(depth - 1)

    def chosen(self, depth: int) -> Expr:
        then, other = self.index(depth - 1), self.index(depth - 1)
        return Ops.WHERE, INDEX, self.condition(depth - 2), then, other

    def narrowed(self, depth: int) -> Expr:
        return Ops.CAST, INDEX, self.narrow(depth - 1)

    def chain(self, depth: int) -> Expr:
        """A flat index split by other shapes and put together again, as reshapes do."""
        r = self.random
        flat: Expr = ("const", INDEX, r.choice((0, 0, 0, self.small())))
        stride = 1
        for i, (lo, hi) in reversed(list(enumerate(self.bounds))):
            part: Expr = ("range", i)
            if r.random() < 0.8:
                part = (Ops.SUB, INDEX, part, ("const", INDEX, lo))
            term = (Ops.MUL, INDEX, part, ("const", INDEX, stride))
            flat = (Ops.ADD, INDEX, term, flat)
            stride *= hi - lo
        for _ in range(r.randint(1, 3)):
            flat = self._through_shape(flat, stride)
        return flat

    def _through_shape(self, flat: Expr, size: int) -> Expr:
        r = self.random
        divisors = [d for d in range(2, size) if size % d == 0] if r.random() < 0.8 else []
        inner = r.choice(divisors or [2, 3, 4, 5, 6])
        row: Expr = (Ops.FLOORDIV, INDEX, flat, ("const", INDEX, inner))
        column: Expr = (Ops.FLOORMOD, INDEX, flat, ("const", INDEX, inner))
        if r.random() < 0.5:
            return r.choice((row, column))
        rows = max(size // inner, 1)
        if r.random() < 0.3:  # transposed, or flipped
            row, column, inner = column, row, rows
        elif r.random() < 0.3:
            row = (Ops.SUB, INDEX, ("const", INDEX, rows - 1), row)
        return Ops.ADD, INDEX, (Ops.MUL, INDEX, row, ("const", INDEX, inner)), column

    def condition(self, depth: int) -> Expr:
        r = self.random
        if depth > 1 and r.random() < 0.35:
            op = r.choice((Ops.AND, Ops.OR, Ops.XOR, Ops.NOT, Ops.CMPEQ, Ops.CMPNE))
            count = 1 if op is Ops.NOT else 2
            return (op, BOOL, *(self.condition(depth - 1) for _ in range(count)))
        make = self.narrow if r.random() < 0.15 else self.index
        left = make(depth - 1)
        dtype = dtype_of(left)
        right = self._like(dtype, depth - 1 if r.random() < 0.5 else 0)
        return r.choice(sorted(COMPARISONS)), BOOL, left, right

    def _like(self, dtype: DType, depth: int) -> Expr:
        if dtype is not INDEX:
            return self._narrow(dtype, depth)
        return self.index(depth) if depth else self.constant(dtype)

    def narrow(self, depth: int) -> Expr:
        """Arithmetic of a small integer type, which wraps."""
        return self._narrow(self.random.choice(NARROW), depth)

    def _narrow(self, dtype: DType, depth: int) -> Expr:
        r = self.random
        if depth <= 0 or r.random() < 0.2:
            return self._cast_from_above(dtype, depth)
        if r.random() < 0.3:
            return Ops.CAST, dtype, self._narrow(r.choice(NARROW), depth - 1)
        op = r.choice(_NARROW_OPS)
        count = 1 if op in (Ops.NEG, Ops.NOT) else 2
        sources = [self._narrow(dtype, depth - 1) for _ in range(count)]
        if op is Ops.WHERE:
            return (op, dtype, self.condition(depth - 1), *sources)
        return (op, dtype, *sources)

    def _cast_from_above(self, dtype: DType, depth: int) -> Expr:
        r = self.random
        if r.random() < 0.25:
            return self.constant(dtype)
        if r.random() < 0.3:
            return Ops.CAST, dtype, self.condition(min(depth, 2))
        k: Expr = ("const", INDEX, r.choice((1, 1, -1, 3, 40, 300)))
        return Ops.CAST, dtype, (Ops.MUL, INDEX, self.index(min(depth, 2)), k)


_NARROW_OPS: Final = (
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.FLOORDIV, Ops.FLOORMOD, Ops.MAXIMUM, Ops.MINIMUM,
    Ops.AND, Ops.OR, Ops.XOR, Ops.NOT, Ops.SHL, Ops.SHR, Ops.WHERE,
)  # fmt: skip


# ---- making a failing case small


def reduce(case: Case) -> Case:
    """A smaller case that still fails."""
    tries = 0
    progress = True
    while progress and tries < TRIES:
        progress = False
        for candidate in smaller_cases(case):
            tries += 1
            if broken(candidate) is not None:
                case, progress = candidate, True
                break
            if tries >= TRIES:
                break
    return case


def broken(case: Case) -> str | None:
    """`fault`, with an exception of ours as a fault too."""
    try:
        return fault(case)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as e:
        return f"{type(e).__name__}: {e}"


def report(case: Case) -> str:
    lines = [f"r{i} = UOp.range({lo}, {hi}, {i})" for i, (lo, hi) in enumerate(case.bounds)]
    if case.below:
        lo, hi = case.bounds[0]
        lines[0] = f"r0 = UOp.variable('n', {lo}, {hi - 1})"
        lines[1] = f"r1 = UOp.range(UOp.index(0), r0 * {case.below}, 1)"
    return "\n".join([*lines, f"u = {text(case.expr)}", f"# {broken(case)}"])


# ---- the command


def main(arguments: Sequence[str]) -> int:
    """Entry point of the dispatcher `polygrad.testing.fuzz`; the exit status."""
    parser = argparse.ArgumentParser("python -m polygrad.testing.fuzz symbolic")
    parser.add_argument("-n", type=int, default=2000, help="cases")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the first case; default: a new one"
    )
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"fuzz symbolic: {options.n} cases, seed {seed}")
    started, points_seen = time.perf_counter(), 0
    for i in range(options.n):
        case = Generator(seed + i).case()
        points_seen += math.prod(hi - lo for lo, hi in case.bounds)
        if broken(case) is not None:
            print(f"case {i} (seed {seed + i} -n 1) differs. Reduced:\n{report(reduce(case))}")
            return 1
    seconds = time.perf_counter() - started
    print(f"{options.n} cases, {points_seen} points, 0 differences, {seconds:.1f} s")
    return 0
