"""A number given to a compiled function is, to everything in Python, the number that it is (F067).

What the function makes of it is compared with the plain number for several values, twice each, so
that a value kept from another call would show.
"""

from __future__ import annotations

import copy
import decimal
import fractions
import functools
import json
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor, function, jit

INTS = (3, 1, 0, -2, 6, 3)
FLOATS = (2.5, 1.0, 0.0, -0.0, -2.5, 1e6, float("inf"), float("nan"), 2.5)
HOW_MADE = {  # how an object is made, not what the number is
    "__init__", "__new__", "__init_subclass__", "__subclasshook__", "__getattribute__",
    "__setattr__", "__delattr__", "__sizeof__", "__doc__", "__reduce__", "__getstate__",
    "__getformat__", "__setformat__", "__getnewargs__", "__class__", "__dir__",
}  # fmt: skip


def inside(use: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`use` of an argument inside of a compiled function, and what comes out of it."""
    compiled = jit(lambda x, n: (x * 1, use(n)))
    x = Tensor([2.0], device="interp")
    return lambda value: compiled(x, value)[1]


def outcome(use: Callable[[Any], Any], value: Any) -> Any:
    try:
        return use(value)
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        return error


def check(use: Callable[[Any], Any], values: Any) -> None:
    """One compiled function gives what `use` gives for each of the values, or the same error."""
    compiled = inside(use)
    for value in values:
        want, got = outcome(use, value), outcome(compiled, value)
        assert type(got) is type(want), (value, want, got)
        if type(want).__module__ == "numpy":
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6)
        elif isinstance(want, TypeError):
            assert str(got) == str(want)
        elif not isinstance(want, Exception):
            assert repr(got) == repr(want), value


def names(kind: type) -> list[str]:
    return sorted(set(dir(kind)) - HOW_MADE)


def arguments(name: str, other: Any) -> list[tuple[Any, ...]]:
    """What a method may be given."""
    plain = [(), (other,)]
    special: dict[str, list[tuple[Any, ...]]] = {
        "__round__": [(), (-1,), (1,)],
        "__format__": [("",), (".2f",), (">8",)],
        "to_bytes": [(2, "big")],
        "from_bytes": [(b"ab", "big")],
        "fromhex": [("0x1.8p0",)],
        "__reduce_ex__": [],
        "__pow__": [(2,), (other,)],
        "__rpow__": [(2,), (other,)],
    }
    return special.get(name, plain)


@pytest.mark.parametrize("kind", [int, float])
def test_every_method_of_a_number(kind: type) -> None:
    """By its name, as an attribute or called: dir(int) and dir(float)."""
    values = INTS if kind is int else FLOATS
    for name in names(kind):
        for given in arguments(name, kind(2)):

            def use(n: Any, name: str = name, given: Any = given) -> Any:
                found = getattr(n, name)
                got = found(*given) if callable(found) else found
                if got is NotImplemented:
                    raise TypeError("not for this kind")
                return got

            compiled = inside(use)
            for value in values:
                want, got = outcome(use, value), outcome(compiled, value)
                if isinstance(want, Exception):
                    assert isinstance(got, Exception), (name, given, value, got)
                else:
                    assert repr(got) == repr(want), (name, given, value, got)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift",
        "rshift", "lt", "le", "eq", "ne", "gt", "ge",
    )
}  # fmt: skip
OPERATORS["divmod"] = divmod
OPERATORS["pow3"] = lambda a, b: pow(a, b, 7)
OTHERS: tuple[Any, ...] = (
    2, -1, 0, 0.5, -0.0, True, 1 + 2j, "ab", [1, 2], None, fractions.Fraction(1, 3),
    decimal.Decimal(2), np.float32(1.5), np.int64(3), np.array([1.0, 2.0], np.float32),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_with_everything(name: str) -> None:
    op = OPERATORS[name]
    for other in OTHERS:
        for values in (INTS[:5], FLOATS):
            check(lambda n, o=other: op(n, o), values)
            check(lambda n, o=other: op(o, n), values)
    for values in (INTS[:5], FLOATS):
        check(lambda n: op(n, n), values)
        check(lambda n: op(n + 1, n), values)


MATH = sorted(
    name for name in dir(math) if not name.startswith("_") and callable(getattr(math, name))
)


@pytest.mark.parametrize("name", MATH)
def test_math(name: str) -> None:
    f = getattr(math, name)
    for values in (INTS, FLOATS):
        check(lambda n: f(n), values)
        check(lambda n: f(n, 2), values)
        check(lambda n: f([n, 1]), values)


CACHED = functools.lru_cache(maxsize=None)(lambda n: n * 2)


def matched(n: Any) -> str:
    match n:
        case 3:
            return "three"
        case int():
            return "int"
        case float():
            return "float"
    return "other"


USES: dict[str, Callable[[Any], Any]] = {
    "isinstance": lambda n: (isinstance(n, int), isinstance(n, float), isinstance(n, bool)),
    "__class__": lambda n: n.__class__.__name__,
    "match": matched,
    "key": lambda n: {3: 10, 2.5: 11}.get(n, 12),
    "set": lambda n: len({n, 3, 1}),
    "hash": hash,
    "lru_cache": lambda n: CACHED(n),
    "in": lambda n: n in (1, 3.0, 2.5),
    "chain": lambda n: -1 < n <= 3 < n + 3,
    "if": lambda n: "some" if n else "none",
    "round": round,
    "round to": lambda n: round(n, 1),
    "~": lambda n: ~n,
    "- and abs": lambda n: (-n, abs(n), +n),
    "int": int,
    "float": float,
    "complex": complex,
    "bool": bool,
    "str": str,
    "repr": repr,
    "f-string": lambda n: f"{n} {n!r:>6} {n:.1f} {n:5}",
    "%": lambda n: operator.mod("%d %.2f %s", (n, n, n)),
    "hex": lambda n: hex(n),
    "range": lambda n: list(range(n)),
    "index": lambda n: [5, 6, 7, 8][n],
    "slice": lambda n: "abcdef"[n:],
    "repeat": lambda n: ("ab" * n, n * [1]),
    "bytes": lambda n: bytes(n),
    "sum": lambda n: sum([n, n, 1]),
    "max": lambda n: (max(n, 2), min(2, n)),
    "sorted": lambda n: sorted([n, 2, -1]),
    "pickle": lambda n: pickle.loads(pickle.dumps([n])),
    "copy": lambda n: (copy.copy(n), copy.deepcopy({"n": n})),
    "json": lambda n: json.dumps([n]),
    "Fraction": lambda n: fractions.Fraction(n),
    "Decimal": lambda n: decimal.Decimal(n),
    "np.sqrt": lambda n: np.sqrt(n),
    "np.float32": lambda n: np.float32(n),
    "np.array": lambda n: np.array([n, 1]),
    "np.asarray": lambda n: np.asarray(n),
    "np.zeros": lambda n: np.zeros(n),
    "np.full": lambda n: np.full(2, n),
    "np.add": lambda n: np.add(np.float32(1), n),
    "np.float32 * n": lambda n: np.float32(2) * n,
    "type is": lambda n: type(n + 0).__name__ if n.bit_count() else 0,
    "sqrt of a sign": lambda n: math.copysign(1.0, n),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", USES)
def test_uses(name: str) -> None:
    for values in (INTS, FLOATS):
        check(USES[name], values)


def test_a_cache_of_the_users_keeps_no_stand_in(device: str) -> None:
    """What functools keeps from a capture is as good as a number afterwards."""
    same = functools.lru_cache(maxsize=None)(lambda n: n)
    double = functools.lru_cache(maxsize=None)(lambda n: n * 2)
    f = jit(lambda x, n: x * same(n) + double(n))
    x = Tensor([1.0, 2.0])
    for n in (3, 5, 3):
        assert f(x, n).tolist() == [n * 3, n * 4]
        assert (x * same(n) + double(n)).tolist() == [n * 3, n * 4]
        assert x[same(n) - n].item() == 1.0 and x[same(n) - n : 1].tolist() == [1.0]
        assert type(double(n)) is int


def test_a_number_of_another_capture_is_refused_or_fixed(device: str) -> None:
    kept: list[Any] = []
    f = jit(lambda x, n: (kept.append(n), x * n)[1])
    f(Tensor([1.0]), 2)
    g = jit(lambda x, n: x * (n + kept[0]))
    with pytest.raises(Exception, match="a number argument was kept after"):
        g(Tensor([1.0]), 4)


def test_arithmetic_stays_one_capture(device: str) -> None:
    """Numbers in arithmetic are variables, whatever the value; so are powers of fixed kind."""
    f = jit(lambda x, n, rate: x * (n // 3 - divmod(n, 4)[1]) + rate * 0.5**n + n**2 + abs(-n))
    for n, rate in ((3, 0.5), (7, 1.5), (0, 2.0)):
        want = 2.0 * (n // 3 - n % 4) + rate * 0.5**n + n**2 + n
        np.testing.assert_allclose(f(Tensor([2.0]), n, rate).numpy(), [want], rtol=1e-6)
    assert f.stats()["captures"] == 1


def test_an_expression_may_grow_without_end(device: str) -> None:
    def doubled(x: Tensor, n: Any) -> Tensor:
        for _ in range(60):
            n = n + n
        return x * n

    f = jit(doubled)
    for n in (1, 3, 1):
        assert f(Tensor([1.0]), n).item() == n * 2.0**60


def test_zeros_of_both_signs(device: str) -> None:
    f = jit(lambda x, n: x * math.copysign(1.0, n))
    g = jit(lambda x, n: Tensor([1.0]) / (n * 0.0) - Tensor([1.0]) / (n * -0.0))
    for n in (0.0, -0.0, 0.0):
        assert f(Tensor([2.0]), n).item() == math.copysign(2.0, n)
    for n in (1.0, -1.0):
        assert g(Tensor([2.0]), n).item() == math.copysign(math.inf, n)


def test_inside_of_function(device: str) -> None:
    """F072: precompile, alone and inside of another capture."""
    f = function(lambda x, n: x * {1: 10, 2: 20}[n] + json.loads(json.dumps(n)), precompile=True)
    outer = jit(lambda x, n: f(x, n) + n)
    for n in (1, 2, 1):
        assert f(Tensor([1.0]), n).item() == 11 * n
        assert outer(Tensor([1.0]), n).item() == 12 * n
