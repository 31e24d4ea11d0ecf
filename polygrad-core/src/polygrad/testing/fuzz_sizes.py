"""The program fuzzer's bounded axes: one program for several sizes, compiled once.

Some sizes of a program's inputs become Variables: every axis of 17 elements is `d17`, bound to 17,
a slice of a longer input whose rest is poison. The program runs so, and again with the Variables
bound to other values, for which the judge sees the same program with inputs of those sizes. What
refuses a size that varies is no finding; a difference, a second compilation, or an error while
running is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import IndexError_, ShapeError
from . import fuzz_grammar as grammar
from .fuzz_grammar import Program, known
from .fuzz_judge import Known

VALUES = 3  # further values of each variable
_NAMED = ("shape", "n")  # arguments in which a size stands for the axes of inputs


class Bounds(NamedTuple):
    lo: int
    hi: int


class _Name(str):
    """A name that prints without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def chosen(program: Program, number: int) -> dict[int, Bounds]:
    """Which sizes vary, and between which bounds; `number` is of the draw."""
    rng = np.random.default_rng(number)
    sizes = {n for node in program.nodes if node.op == "input" for n in node.args["shape"]}
    found = {}
    for n in sorted(n for n in sizes if n > 1):
        if rng.random() < 0.7:
            lo = int(rng.choice([0, 1, 1, max(1, n - 3), n]))
            found[n] = Bounds(lo, n + int(rng.choice([1, 2, 5, 16])))
    return found


def resized(program: Program, values: Mapping[int, int]) -> Program:
    """The program with other sizes of its inputs."""
    return _exchanged(program, lambda n: values.get(n, n))


def _exchanged(program: Program, new: Any) -> Program:
    nodes = []
    for node in program.nodes:
        args = dict(node.args)
        for key in _NAMED:
            if isinstance(args.get(key), list):
                args[key] = [new(n) for n in args[key]]
            elif key in args:
                args[key] = new(args[key])
        nodes.append(node._replace(args=args))
    return program._replace(nodes=tuple(nodes))


def source_text(program: Program, bounds: Mapping[int, Bounds]) -> str:
    """The program over `d17` in place of 17."""
    return grammar.source_text(_exchanged(program, lambda n: _Name(f"d{n}") if n in bounds else n))


Run = tuple[dict[int, int], Sequence[Known]]


def runs(program: Program, number: int, own: Sequence[Known] | None = None) -> Iterator[Run]:
    """Values of the variables, and what the judge knows of the program then; `own`: with the sizes
    that it has, if somebody asked before."""
    bounds, rng = chosen(program, number), np.random.default_rng(number + 1)
    if not bounds:
        return
    yield {n: n for n in bounds}, known(program) if own is None else own
    for _ in range(VALUES):
        values = {n: int(rng.integers(max(b.lo, 1), b.hi + 1)) for n, b in bounds.items()}
        try:
            yield values, known(resized(program, values))
        except (ValueError, IndexError, OverflowError):
            continue  # an argument of the program fits its own sizes alone


def tensors(
    program: Program, number: int, values: Mapping[int, int], make: Any
) -> list[Any] | None:
    """The outputs as lazy Tensors, None where a size that varies is refused. `make(array, dtype)`
    gives an input."""
    from polygrad import Tensor, Variable

    bounds, rng = chosen(program, number), np.random.default_rng(number + 2)
    bound = {n: Variable(f"d{n}", *bounds[n]).bind(v) for n, v in values.items()}
    names: dict[str, Any] = {"Tensor": Tensor, **{f"d{n}": v for n, v in bound.items()}}
    try:
        for i, node in enumerate(program.nodes):
            if node.op == "input":
                stored = bool(rng.random() < 0.5)
                names[f"v{i}"] = _input(node.args, bounds, values, bound, stored, make)
        exec(grammar.code(source_text(program, bounds)), names)
    except (ShapeError, IndexError_):
        return None
    return [names[f"v{o}"] for o in program.outputs]


def _input(
    args: Mapping[str, Any],
    bounds: Mapping[int, Bounds],
    values: Mapping[int, int],
    bound: Mapping[int, Any],
    stored: bool,
    make: Any,
) -> Any:
    """An input inside a longer one, whose rest must never be read; perhaps stored by itself."""
    shape = args["shape"]
    data = grammar.data(**{**args, "shape": [values.get(n, n) for n in shape]})
    whole = np.full([bounds[n].hi if n in bounds else n for n in shape], _poison(data), data.dtype)
    whole[tuple(slice(0, n) for n in data.shape)] = data
    part = make(whole, args["dtype"])
    if any(n in bounds for n in shape):
        part = part[tuple(slice(None, bound[n]) if n in bounds else slice(None) for n in shape)]
    return part.contiguous().realize() if stored else part


def _poison(data: np.ndarray) -> Any:
    if data.dtype.kind == "f":
        return np.nan
    return True if data.dtype.kind == "b" else np.iinfo(data.dtype).max
