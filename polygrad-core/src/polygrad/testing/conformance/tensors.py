"""The whole library on the device: what users write gives what it gives on the reference device.

Every kernel is checked against the contract and the Target on its way (POLY_SPEC). Elementwise
functions are plain arithmetic in one order, so they agree to the bit; sums may be taken in another
order, so they agree to a few units in the last place of their terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ... import nn, settings
from ..._create import create
from ...dtype import DType, dtypes
from ...errors import PolygradError
from ...target import Target
from ...tensor import Tensor
from ...uop.ops import Ops
from . import blame, values
from .check import Check, ConformanceError, Subject, expect

Function = Callable[..., Tensor]
REFERENCE = "interp"
NUMBERS = (
    dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32,
    dtypes.int64, dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
)  # fmt: skip

ONE: dict[str, Function] = {
    "exp": Tensor.exp, "exp2": Tensor.exp2, "log": Tensor.log, "log2": Tensor.log2,
    "sin": Tensor.sin, "cos": Tensor.cos, "tanh": Tensor.tanh, "erf": Tensor.erf,
    "sqrt": Tensor.sqrt, "reciprocal": Tensor.reciprocal, "floor": Tensor.floor,
    "ceil": Tensor.ceil, "trunc": Tensor.trunc, "round": Tensor.round, "neg": lambda x: -x,
    "abs": Tensor.abs, "isnan": Tensor.isnan,
}  # fmt: skip
TWO: dict[str, Function] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "less": lambda x, y: x < y,
    "equal": lambda x, y: x == y, "maximum": lambda x, y: x.maximum(y),
    "minimum": lambda x, y: x.minimum(y),
}  # fmt: skip
FLOATS: dict[str, Function] = {"div": lambda x, y: x / y, "pow": lambda x, y: x**y}
INTS: dict[str, Function] = {
    "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
    "shl": lambda x, y: x << (y & 7), "shr": lambda x, y: x >> (y & 7),
}  # fmt: skip


def on(device: str, make: Callable[[], Any]) -> Any:
    """What `make` gives with `device` for all that it makes, every kernel being checked."""
    with settings.Context(POLY_DEV=device, POLY_SPEC=1):
        return make()


def listed(made: Tensor) -> list[Any]:
    return list(made.reshape(-1).tolist())


def both(subject: Subject, make: Callable[[], Tensor]) -> tuple[list[Any], list[Any], DType]:
    """The numbers on the device and on the reference, and their dtype."""
    wanted, dtype = on(REFERENCE, lambda: (lambda t: (listed(t), t.dtype))(make()))
    return on(subject.name, lambda: listed(make())), wanted, dtype


# ---- elementwise


def elementwise(
    function: Function, kinds: Sequence[DType], exact: bool = True
) -> Callable[[Subject], None]:
    """A function of tensors, at all edges of their dtypes."""

    def run(subject: Subject) -> None:
        target = subject.target
        rows = [
            row
            for row in values.tuples(kinds)
            if not any(values.leaves_out(target, d, (x,)) for d, x in zip(kinds, row, strict=True))
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]

        def make() -> Tensor:
            given = [Tensor(c, dtype=d) for c, d in zip(columns, kinds, strict=True)]
            return function(*given)

        got, wanted, dtype = both(subject, make)
        allowed = 0.0 if exact else 8.0
        for i, (a, b, row) in enumerate(zip(got, wanted, rows, strict=True)):
            if dtype.is_float and values.leaves_out(target, dtype, (b,)):
                continue
            if not values.close(dtype, a, b, allowed):
                given = ", ".join(map(repr, row))
                raise ConformanceError(f"element {i}: of ({given}) got {a!r}, expected {b!r}")

    return run


def holds(target: Target, dtype: DType) -> bool:
    """Whether the device computes with a dtype: its own, a narrow float's, or in words."""
    if dtype.is_narrow:
        return True
    return dtype.is_int or target.supports(Ops.ADD, dtype)


# Functions whose bits depend on what a machine has: math of its own, or a sum and a product that
# round once.
_ROUGH: Final = {
    Ops.EXP2: ("exp", "exp2", "pow"),
    Ops.LOG2: ("log", "log2", "pow"),
    Ops.SIN: ("sin", "cos"),
    Ops.FMA: ("exp", "exp2", "tanh", "erf"),
}


def elementwise_checks(target: Target) -> Iterator[Check]:
    inexact = {name for op, names in _ROUGH.items() if op in target.ops for name in names}
    if "no_contract" not in target.exact:
        inexact |= {*ONE, *TWO, *FLOATS}
    for dtype in NUMBERS:
        if not holds(target, dtype):
            continue
        functions = TWO | (FLOATS if dtype.is_float else INTS)
        if dtype.is_float and not target.supports(Ops.ADD, dtypes.float64):
            functions = {n: f for n, f in functions.items() if n not in ("mod", "floordiv")}
        for name, function in functions.items():
            check = elementwise(function, (dtype, dtype), name not in inexact)
            yield Check(f"functions/{name}-{dtype.name}", check)
        if dtype.is_float:
            for name, function in ONE.items():
                check = elementwise(function, (dtype,), name not in inexact)
                yield Check(f"functions/{name}-{dtype.name}", check)


# ---- sums, products, layouts


def ramp(*shape: int, dtype: DType = dtypes.float32) -> Tensor:
    n = math.prod(shape)
    numbers = [((i * 37) % 101 - 50) / 8 for i in range(n)]
    return Tensor([x if dtype.is_float else int(x) for x in numbers], dtype=dtype).reshape(*shape)


def wide(*shape: int) -> Tensor:
    """Numbers of all sizes up to 2^63, of both signs."""
    n = math.prod(shape)
    numbers = [(i * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> (i * 7) % 60 for i in range(n)]
    return Tensor([x - ((x >> 63) << 64) for x in numbers], dtype="int64").reshape(*shape)


def mixed(rows: int, columns: int) -> Tensor:
    """Strided, broadcast, flipped and padded views meet in one expression."""
    x = ramp(rows, columns)
    return (x.T[::-1].pad(((1, 0), (0, 1))) + ramp(columns + 1, 1)).relu()[:, 1:]


def long_chain() -> Tensor:
    """More inputs than a kernel may have buffers."""
    tensors = [ramp(33) * (i + 1) for i in range(1, 20)]
    total = tensors[0].contiguous()
    for t in tensors[1:]:
        total = total + t.contiguous()
    return total


def several_results() -> Tensor:
    x = ramp(40)
    return Tensor.cat(x.exp(), x * 2, x.sum().reshape(1), x.cumsum(0), x.sort()[0])


WHOLE: dict[str, Callable[[], Tensor]] = {
    "sum-rows": lambda: ramp(7, 33).sum(axis=1),
    "sum-columns": lambda: ramp(33, 7).sum(axis=0),
    "sum-all": lambda: ramp(4099).sum(),
    "sum-int32": lambda: ramp(9, 50, dtype=dtypes.int32).sum(axis=1),
    "sum-bool": lambda: (ramp(300) > 0).sum(),
    "mean-var": lambda: Tensor.stack(ramp(60).mean(), ramp(60).var()),
    "sum-int64": lambda: wide(9, 50).sum(axis=1),
    "sum-many": lambda: (wide(3, 70001) >> 2).sum(axis=1),
    "max-int64": lambda: Tensor.cat(wide(6, 30).max(axis=1), wide(6, 30).min(axis=1)),
    "cumsum-int32": lambda: ramp(300, dtype=dtypes.int32).cumsum(0),
    "index-int64": lambda: ramp(10, 6)[Tensor([3, 0, 9, 3], dtype="int64")],
    "int64-float32": lambda: wide(400).float(),
    "uint64-float32": lambda: wide(400).cast("uint64").float(),
    "float32-int64": lambda: (ramp(200) * 3e15).cast("int64"),
    "int64-int16": lambda: wide(100).cast("int16"),
    "max-argmax": lambda: Tensor.cat(ramp(5, 40).max(axis=1), ramp(5, 40).argmax(axis=1).float()),
    "softmax": lambda: ramp(6, 19).softmax(axis=-1),
    "matmul": lambda: ramp(17, 23) @ ramp(23, 9),
    "matmul-square": lambda: ramp(32, 32) @ ramp(32, 32),
    "matmul-batch": lambda: ramp(3, 5, 7) @ ramp(3, 7, 6),
    "conv2d": lambda: ramp(2, 3, 9, 8).conv2d(ramp(4, 3, 3, 3), padding=1),
    "views": lambda: mixed(5, 9),
    "many-inputs": long_chain,
    "several-results": several_results,
    "gather": lambda: ramp(10, 6)[Tensor([3, 0, 9, 3])],
    "iota": lambda: Tensor.arange(1000).reshape(10, 100).sum(axis=0),
    "where": lambda: (ramp(50) > 1).where(ramp(50), -1.0),
    "empty": lambda: Tensor.cat(ramp(4), Tensor.zeros(0)),
    "scalar": lambda: Tensor(3.5) * 2,
    "random": lambda: seeded(),
}


def seeded() -> Tensor:
    Tensor.manual_seed(7)
    return Tensor.rand(100)


def whole(name: str) -> Callable[[Subject], None]:
    def run(subject: Subject) -> None:
        got, wanted, dtype = both(subject, WHOLE[name])
        expect(len(got) == len(wanted), f"{len(got)} numbers, expected {len(wanted)}")
        scale = max((abs(x) for x in wanted if dtype.is_float and math.isfinite(x)), default=0.0)
        for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
            same = a == b or (dtype.is_float and abs(a - b) <= 4e-6 * max(scale, abs(b)))
            expect(same, f"element {i}: got {a!r}, expected {b!r}")

    return run


# ---- networks


def training() -> list[float]:
    """The losses of a small network that learns the exclusive or."""
    Tensor.manual_seed(3)
    first, second = nn.Linear(2, 16), nn.Linear(16, 1)
    optimizer = nn.optim.Adam(nn.state.get_parameters([first, second]), lr=0.05)
    x = Tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = Tensor([[0.0], [1.0], [1.0], [0.0]])
    losses = []
    with settings.Context(TRAINING=1):
        for _ in range(40):
            optimizer.zero_grad()
            loss = ((second(first(x).tanh()) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.item()))
    return losses


def a_network_trains(subject: Subject) -> None:
    got, wanted = on(subject.name, training), on(REFERENCE, training)
    expect(got[-1] < 0.25 * got[0], f"the loss went from {got[0]} to {got[-1]}")
    near = all(abs(a - b) <= 1e-3 * max(abs(b), 0.1) for a, b in zip(got, wanted, strict=True))
    expect(near, f"losses {got} differ from the reference's {wanted}")


def attention() -> Tensor:
    """One head of causal attention and the network behind it."""
    x = ramp(2, 6, 8) / 4
    q, k, v = (x @ (ramp(8, 8) / 9 + i) for i in range(3))
    mask = Tensor.ones(6, 6).tril() == 0
    scores = ((q @ k.transpose(1, 2)) / math.sqrt(8)).masked_fill(mask, -math.inf)
    y = x + scores.softmax(axis=-1) @ v
    return y.gelu() @ (ramp(8, 5) / 9)


WHOLE["attention"] = attention


# ---- what the device lacks


def lacks_float64(subject: Subject) -> None:
    """A tensor that the machine cannot compute with is refused by name, and nothing is broken."""
    try:
        on(subject.name, lambda: listed(Tensor([1.0, 2.0], dtype="float64") * 3))
    except PolygradError as error:
        expect("float64" in str(error), f"the message does not name the dtype: {error}")
    else:
        raise ConformanceError("float64 arithmetic ran, which the Target does not list")
    got = on(subject.name, lambda: listed(Tensor([1.0, 2.0]) * 3))
    expect(got == [3.0, 6.0], f"after the error the device gives {got}")


def own_runtime(subject: Subject) -> None:
    """A runtime of its own on the device, disposed at the end."""
    with settings.Context(POLY_DEV=subject.name):
        runtime = create()
        try:
            with runtime:
                got = listed(Tensor([1.0, 2.0]) + 1)
        finally:
            runtime.dispose()
    expect(got == [2.0, 3.0], f"got {got}")


def checks(target: Target) -> Iterator[Check]:
    for check in _all(target):
        yield check._replace(run=blame.explained(check.run))


def _all(target: Target) -> Iterator[Check]:
    yield from elementwise_checks(target)
    yield from (Check(f"tensors/{name}", whole(name)) for name in WHOLE)
    yield Check("tensors/training", a_network_trains)
    yield Check("tensors/own_runtime", own_runtime)
    if not target.supports(Ops.ADD, dtypes.float64):
        yield Check("limits/float64", lacks_float64)
