"""Row 5 of the reliability regime: nothing is fused or reordered outside the sums of a reduction
and the inside of exponentials.

A fused multiply-add keeps digits that two roundings lose, so results would change with the machine;
reassociation would give `(a + b) - a` a digit it has not. Each expression here has another exact
answer under either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Tensor
from polygrad import device as devices
from polygrad.codegen import compile_kernel
from polygrad.schedule import schedule
from polygrad.uop.ops import Ops

N = 1000  # enough for vectors and a tail


def values(seed: int, dtype: Any) -> Any:
    return np.random.default_rng(seed).standard_normal(N).astype(dtype)


EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a * b + c": lambda a, b, c: a * b + c,
    "a * b - c": lambda a, b, c: a * b - c,
    "c - a * b": lambda a, b, c: c - a * b,
    "a * a - b * b": lambda a, b, c: a * a - b * b,
    "(a + b) - a": lambda a, b, c: (a + b) - a,
    "(a - b) + (b - c)": lambda a, b, c: (a - b) + (b - c),
    "(a * b) / b": lambda a, b, c: (a * b) / b,
    "a / b": lambda a, b, c: a / b,
    "a + a * 0.1 * 3": lambda a, b, c: a + a * 0.1 * 3,
    "Horner": lambda a, b, c: ((a * b + c) * b + a) * b + c,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_expressions_round_after_every_operation(device: str, dtype: Any) -> None:
    """Bit-equal to numpy, which runs one operation at a time."""
    arrays = [values(seed, dtype) for seed in (1, 2, 3)]
    tensors = [Tensor(a) for a in arrays]
    got = Tensor.numpy_many(*[f(*tensors) for f in EXPRESSIONS.values()])
    for (name, f), value in zip(EXPRESSIONS.items(), got, strict=True):
        np.testing.assert_array_equal(value, f(*arrays), err_msg=name)


def test_opposite_products_cancel(device: str) -> None:
    """a x + b x with a = -b is exactly 0: a fused product would leave its rounding error."""
    x = Tensor(values(4, np.float32))
    a, b = Tensor([1e20] * N), Tensor([-1e20] * N)
    assert not (a * x + b * x).numpy().any()


def test_an_absorbed_number_is_gone(device: str) -> None:
    big, small = Tensor([1e20] * N), Tensor(values(5, np.float32))
    assert not ((big + small) - big).numpy().any()


def test_halves_round_after_every_operation(device: str) -> None:
    """2048 + 1 is 2048 in float16, also when the next operation follows at once."""
    one = Tensor([1.0] * N, dtype="float16")
    assert not ((one * 2048 + one) - 2048).numpy().any()


def test_an_exponential_is_fused_with_nothing_around_it(device: str) -> None:
    """Its argument and its result round as if they were stored."""
    a, b, c = (Tensor(values(seed, np.float32)) for seed in (6, 7, 8))
    for f in (Tensor.exp, Tensor.tanh, Tensor.erf, Tensor.exp2):
        inside = Tensor((a * b + c).numpy())
        value = Tensor(f(inside).numpy())
        np.testing.assert_array_equal((f(a * b + c) * b + c).numpy(), (value * b + c).numpy())


def test_the_printed_text_allows_no_fusion() -> None:
    """The cpu renderer's text of an elementwise kernel: no fma, and no flag that permits one."""
    pytest.importorskip("polygrad_backend_cpu")
    target = devices.get("cpu")
    a, b, c = (Tensor(values(seed, np.float32)) for seed in (6, 7, 8))
    root = ((a * b + c).log() * b + (c * a - b).sin()).uop
    programs = [
        compile_kernel(item.sink, target.target, f"k{i}")
        for i, item in enumerate(schedule((root,), "cpu").items)
    ]
    assert all(instr.op is not Ops.FMA for program in programs for instr in program.ops)
    text = str(target.renderer.render(programs).code)
    for word in ("fma", "fmuladd", " fast ", "contract", "reassoc"):
        assert word not in text
