"""What the program fuzzer can write: each operation as Tensor text and as the judge's function.

A `Program` is plain data: nodes (operation, sources, arguments) and the outputs. `source_text`
prints it as Python that calls the public API, and that text is what runs, so a reproducer is never
another program than the one that failed. `known` evaluates it with the judge. Adding an operation
is one row in `OPS` and, where its arguments need thought, a proposer in `fuzz_generate`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from . import fuzz_formulas as of
from . import fuzz_judge as judge
from . import fuzz_judge_axes as axes
from .fuzz_judge import Known

Judge = Callable[..., Known]


class Node(NamedTuple):
    op: str
    src: tuple[int, ...] = ()
    args: dict[str, Any] = {}  # noqa: RUF012


class Program(NamedTuple):
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    def dumps(self) -> str:
        return json.dumps({"nodes": [list(n) for n in self.nodes], "outputs": self.outputs})

    @staticmethod
    def loads(text: str) -> Program:
        data = json.loads(text)
        nodes = tuple(Node(op, tuple(src), args) for op, src, args in data["nodes"])
        return Program(nodes, tuple(data["outputs"]))


class Op(NamedTuple):
    text: str  # Python with {0}, {1}, … for sources and {name} for arguments
    judge: Judge
    statement: bool = False  # it changes source 0, which the result then names


# ---- inputs: data from a seed, so that a program is a few lines


def data(dtype: str, shape: Sequence[int], kind: str, seed: int) -> np.ndarray:
    """An input's values; halves come as float32 (or float64) numbers that fit them."""
    rng = np.random.default_rng(seed)
    shape = tuple(shape)
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if dtype not in judge.FLOATS:
        return _integers(rng, dtype, shape, kind)
    value = judge.narrow(np.asarray(_FLOAT_KINDS[kind](rng, shape)), dtype)
    return np.asarray(value, "float64" if dtype == "float64" else "float32")


def _integers(rng: Any, dtype: str, shape: tuple[int, ...], kind: str) -> np.ndarray:
    info = np.iinfo(dtype)
    if kind == "special":
        edges = np.array([info.min, info.min + 1, 0, 1, 2, info.max - 1, info.max], dtype)
        return np.asarray(rng.choice(edges, shape), dtype)
    low = 0 if info.min == 0 else -9
    made: np.ndarray = np.asarray(rng.integers(low, 10, shape), dtype)
    return made


def _special(rng: Any, shape: tuple[int, ...]) -> np.ndarray:
    value = rng.normal(size=shape)
    odd = rng.choice([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan], shape)
    return np.asarray(np.where(rng.random(shape) < 0.15, odd, value))


_FLOAT_KINDS: dict[str, Callable[[Any, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "positive": lambda rng, shape: rng.uniform(0.25, 2.0, shape),
    "integers": lambda rng, shape: rng.integers(-4, 5, shape).astype("float64"),
    "quarters": lambda rng, shape: rng.integers(-12, 13, shape) / 4,
    "special": _special,
}


def _input(dtype: str, shape: Sequence[int], kind: str, seed: int) -> Known:
    value = data(dtype, shape, kind, seed)
    return judge.exact(np.asarray(value, "float64") if dtype in judge.FLOATS else value, dtype)


# ---- the table

_U, _B, _C = judge.unary, judge.binary, judge.compare
_moved = judge.moved

UNARY = {
    "neg": Op("-{0}", of.negative),
    "abs": Op("{0}.abs()", of.absolute),
    "square": Op("{0} * {0}", of.square),
    "exp": Op("{0}.exp()", _U(np.exp, 4)),
    "exp2": Op("{0}.exp2()", _U(np.exp2, 4)),
    "log": Op("{0}.log()", _U(np.log, 4)),
    "log2": Op("{0}.log2()", _U(np.log2, 4)),
    "sqrt": Op("{0}.sqrt()", of.root),
    "rsqrt": Op("{0}.rsqrt()", of.inverse_root),
    "reciprocal": Op("{0}.reciprocal()", of.reciprocal),
    "sin": Op("{0}.sin()", judge.lipschitz(np.sin, 1, 4)),
    "cos": Op("{0}.cos()", judge.lipschitz(np.cos, 1, 4)),
    "tanh": Op("{0}.tanh()", _U(np.tanh, 4)),
    "erf": Op("{0}.erf()", _U(of.erf, 4)),
    "sigmoid": Op("{0}.sigmoid()", _U(of.sigmoid, 6)),
    "silu": Op("{0}.silu()", of.turning(lambda x: x * of.sigmoid(x), 1.1)),
    "gelu": Op(
        "{0}.gelu(approximate='none')",
        of.turning(lambda x: x * 0.5 * (1 + of.erf(x / math.sqrt(2))), 1.13),
    ),
    "relu": Op("{0}.relu()", lambda x: judge.maximum(x, of.constant(0, x))),
    "floor": Op("{0}.floor()", judge.integral(np.floor)),
    "ceil": Op("{0}.ceil()", judge.integral(np.ceil)),
    "trunc": Op("{0}.trunc()", judge.integral(np.trunc)),
    "round": Op("{0}.round()", judge.integral(np.rint)),
    "logical_not": Op("{0}.logical_not()", of.logical_not),
    "contiguous": Op("{0}.contiguous()", lambda x: x),
    "detach": Op("{0}.detach()", lambda x: x),
}
BITS_UNARY = {"invert": Op("~{0}", of.bits(np.invert))}
BINARY = {
    "add": Op("{0} + {1}", judge.add),
    "sub": Op("{0} - {1}", judge.subtract),
    "mul": Op("{0} * {1}", judge.multiply),
    "div": Op("{0} / {1}", judge.divide),
    "maximum": Op("{0}.maximum({1})", judge.maximum),
    "minimum": Op("{0}.minimum({1})", judge.minimum),
    "lt": Op("{0} < {1}", _C(np.less)),
    "le": Op("{0} <= {1}", _C(np.less_equal)),
    "gt": Op("{0} > {1}", _C(np.greater)),
    "ge": Op("{0} >= {1}", _C(np.greater_equal)),
    "eq": Op("{0} == {1}", _C(np.equal)),
    "ne": Op("{0} != {1}", _C(np.not_equal)),
}
WHOLE_BINARY = {
    "floordiv": Op("{0} // {1}", judge.floor_divide),
    "mod": Op("{0} % {1}", judge.modulo),
}
BITS_BINARY = {
    "and": Op("{0} & {1}", of.bits(np.bitwise_and)),
    "or": Op("{0} | {1}", of.bits(np.bitwise_or)),
    "xor": Op("{0} ^ {1}", of.bits(np.bitwise_xor)),
}
CONSTANT = {
    "add_c": Op("{0} + {c}", of.with_constant(judge.add)),
    "sub_c": Op("{0} - {c}", of.with_constant(judge.subtract)),
    "c_sub": Op("{c} - {0}", of.with_constant(judge.subtract, True)),
    "mul_c": Op("{0} * {c}", of.with_constant(judge.multiply)),
    "div_c": Op("{0} / {c}", of.with_constant(judge.divide)),
    "c_div": Op("{c} / {0}", of.with_constant(judge.divide, True)),
    "max_c": Op("{0}.maximum({c})", of.with_constant(judge.maximum)),
    "lt_c": Op("{0} < {c}", of.with_constant(_C(np.less))),
    "eq_c": Op("{0} == {c}", of.with_constant(_C(np.equal))),
}
WHOLE_CONSTANT = {
    "floordiv_c": Op("{0} // {c}", of.with_constant(judge.floor_divide)),
    "mod_c": Op("{0} % {c}", of.with_constant(judge.modulo)),
    "shl_c": Op("{0} << {c}", of.shift(np.left_shift)),
    "shr_c": Op("{0} >> {c}", of.shift(np.right_shift)),
}
REDUCE = {
    "sum": Op("{0}.sum(axis={axis}, keepdim={keepdim})", axes.total),
    "mean": Op("{0}.mean(axis={axis}, keepdim={keepdim})", axes.mean),
    "max": Op("{0}.max(axis={axis}, keepdim={keepdim})", axes.largest),
    "min": Op("{0}.min(axis={axis}, keepdim={keepdim})", axes.smallest),
    "prod": Op("{0}.prod(axis={axis}, keepdim={keepdim})", axes.product),
    "any": Op("{0}.any(axis={axis}, keepdim={keepdim})", of.truth(np.any)),
    "all": Op("{0}.all(axis={axis}, keepdim={keepdim})", of.truth(np.all)),
    "var": Op("{0}.var(axis={axis}, keepdim={keepdim}, correction={correction})", axes.variance),
    "std": Op("{0}.std(axis={axis}, keepdim={keepdim}, correction={correction})", of.deviation),
}
ALONG = {
    "argmax": Op(
        "{0}.argmax(axis={axis}, keepdim={keepdim})", axes.argument(np.argmax, np.max, 1.0)
    ),
    "argmin": Op(
        "{0}.argmin(axis={axis}, keepdim={keepdim})", axes.argument(np.argmin, np.min, -1.0)
    ),
    "softmax": Op("{0}.softmax({axis})", axes.softmax),
    "log_softmax": Op("{0}.log_softmax({axis})", axes.log_softmax),
    "logsumexp": Op("{0}.logsumexp({axis})", axes.logsumexp),
    "cumsum": Op("{0}.cumsum({axis})", axes.running_total),
    "cummax": Op("{0}.cummax({axis})[0]", of.largest_so_far),
    "sort": Op("{0}.sort({axis})[0]", of.in_order),
    "layer_norm": Op(
        "({0} - {0}.mean({axis}, keepdim=True)) * "
        "((({0} - {0}.mean({axis}, keepdim=True)) * ({0} - {0}.mean({axis}, keepdim=True)))"
        ".mean({axis}, keepdim=True) + 1e-3).rsqrt()",
        of.layer_norm,
    ),
}
MOVEMENT = {
    "reshape": Op("{0}.reshape({shape})", _moved(lambda v, shape: v.reshape(shape))),
    "permute": Op("{0}.permute({axes})", _moved(lambda v, axes: v.transpose(axes))),
    "flip": Op("{0}.flip({axes})", _moved(lambda v, axes: np.flip(v, axes))),
    "slice": Op("{0}[{index}]", _moved(lambda v, index: v[of.slices(index)])),
    "expand": Op("{0}.expand({shape})", _moved(lambda v, shape: np.broadcast_to(v, shape))),
    "pad": Op("{0}.pad({pads}, value={value})", of.pad),
    "cat": Op("Tensor.cat({0}, {1}, dim={axis})", of.joined(np.concatenate)),
    "stack": Op("Tensor.stack({0}, {1}, dim={axis})", of.joined(np.stack)),
    "roll": Op("{0}.roll({by}, {axis})", _moved(lambda v, by, axis: np.roll(v, by, axis))),
    "repeat": Op("{0}.repeat({times})", _moved(lambda v, times: np.tile(v, times))),
    "tril": Op("{0}.tril({k})", _moved(lambda v, k: np.tril(v, k))),
    "triu": Op("{0}.triu({k})", _moved(lambda v, k: np.triu(v, k))),
    "unfold": Op("{0}.unfold({axis}, {size}, {step})", _moved(of.unfolded)),
    "cat3": Op("Tensor.cat({0}, {1}, {2}, dim={axis})", of.joined(np.concatenate)),
}
SPECIAL = {
    "input": Op("", _input),
    "arange": Op(
        "Tensor.arange({n}, dtype={dtype})",
        lambda n, dtype: judge.exact(
            np.arange(n).astype("float64" if dtype in judge.FLOATS else dtype), dtype
        ),
    ),
    "full": Op(
        "Tensor.full({shape}, {c}, dtype={dtype})",
        lambda shape, c, dtype: judge.exact(
            judge.narrow(np.full(shape, float(c)), dtype)
            if dtype in judge.FLOATS
            else np.full(shape, c, dtype),
            dtype,
        ),
    ),
    "where": Op("{0}.where({1}, {2})", judge.where),
    "cast": Op("{0}.cast({dtype})", judge.cast),
    "through": Op("{0}.cast({via}).cast({dtype})", judge.through),
    "clip": Op("{0}.clip({low}, {high})", of.clip),
    "matmul": Op("{0} @ {1}", axes.matmul),
    "take": Op("{0}[{colons}{1}]", lambda x, i, axis, colons: judge.take(x, i, axis)),
    "gather": Op("{0}.gather({axis}, {1})", judge.take_along),
    "topk": Op("{0}.topk({k}, {axis})[0]", of.topmost),
    "index_add": Op(
        "{0}.index_add({axis}, {1}, {2})", lambda x, i, u, axis: of.index_add(x, i, u, axis)
    ),
    "max_pool": Op("{0}.max_pool2d({size}, {stride})", of.pool(axes.largest)),
    "avg_pool": Op("{0}.avg_pool2d({size}, {stride})", of.pool(axes.mean)),
    "conv": Op("{0}.conv2d({1}, stride={stride})", of.convolution),
    "assign": Op("{0}.assign({1})", lambda x, v: v, statement=True),
    "setitem": Op("{0}[{index}] = {1}", of.put, statement=True),
}
OPS: dict[str, Op] = {}
for _table in (
    UNARY, BITS_UNARY, BINARY, WHOLE_BINARY, BITS_BINARY, CONSTANT, WHOLE_CONSTANT, REDUCE, ALONG,
    MOVEMENT, SPECIAL,
):  # fmt: skip
    OPS |= _table


# ---- a program as Python, and as the judge sees it

_BARE = ("index", "colons")  # arguments that are not printed with repr


def _index_text(index: Sequence[Any]) -> str:
    def part(i: Any) -> str:
        if not isinstance(i, list | tuple):
            return repr(i)
        start, stop, step = ("" if n is None else str(n) for n in i)
        return f"{start}:{stop}" + (f":{step}" if step else "")

    return ", ".join(map(part, index))


def _tuples(args: dict[str, Any]) -> dict[str, Any]:
    """Axes and shapes come back from JSON as lists."""
    return {
        k: tuple(v) if isinstance(v, list) and k not in ("index", "pads") else v
        for k, v in args.items()
    }


def _line(i: int, node: Node) -> list[str]:
    op = OPS[node.op]
    shown = {k: v if k in _BARE else repr(v) for k, v in _tuples(node.args).items()}
    if "index" in node.args:
        shown["index"] = _index_text(node.args["index"])
    text = op.text.format(*[f"v{s}" for s in node.src], **shown)
    return [text, f"v{i} = v{node.src[0]}"] if op.statement else [f"v{i} = {text}"]


def source_text(program: Program) -> str:
    """The body of the program: it reads `v0`, `v3`, … for inputs and sets one name per node."""
    lines: list[str] = []
    for i, node in enumerate(program.nodes):
        if node.op != "input":
            lines += _line(i, node)
    return "\n".join(lines) + "\n"


@lru_cache(256)  # the programs of a batch run in many setups
def code(text: str) -> CodeType:
    """What `source_text` wrote, to be executed."""
    return compile(text, "<program>", "exec")


def step(node: Node, values: Sequence[Known]) -> Known:
    """What the judge knows of one node, given its sources."""
    with np.errstate(all="ignore"):
        return OPS[node.op].judge(*[values[s] for s in node.src], **_tuples(node.args))


def known(program: Program) -> list[Known]:
    """Every node of `program` as the judge sees it. Raises where the program is not valid."""
    values: list[Known] = []
    for node in program.nodes:
        values.append(step(node, values))
    return values
