"""Random programs over bounded axes: what is drawn, and that devices agree with the judge."""

from __future__ import annotations

import numpy as np
import pytest

from polygrad.testing import fuzz_sizes
from polygrad.testing.fuzz_generate import generate
from polygrad.testing.fuzz_grammar import Node, Program
from polygrad.testing.fuzz_run import Setup, _made, check

SUM = Program(
    (
        Node("input", (), {"dtype": "float32", "shape": [9, 4], "kind": "integers", "seed": 3}),
        Node("sum", (0,), {"axis": [0], "keepdim": False}),
        Node("reshape", (1,), {"shape": [4, 1]}),
    ),
    (2,),
)


def test_sizes_stand_for_the_axes_of_inputs() -> None:
    bounds = {4: fuzz_sizes.Bounds(1, 6)}
    assert fuzz_sizes.source_text(SUM, bounds).splitlines()[-1] == "v2 = v1.reshape((d4, 1))"
    small = fuzz_sizes.resized(SUM, {4: 2})
    assert [n.args.get("shape") for n in small.nodes] == [[9, 2], None, [2, 1]]


def test_each_run_has_its_own_values_and_answer() -> None:
    seen = [values for values, _ in fuzz_sizes.runs(SUM, 1)]
    assert len(seen) == 1 + fuzz_sizes.VALUES and len({tuple(v.items()) for v in seen}) > 1
    for values, known in fuzz_sizes.runs(SUM, 1):
        assert known[2].shape == (values.get(4, 4), 1)


def test_the_rest_of_a_longer_input_is_poison(device: str) -> None:
    (values, _), *_ = fuzz_sizes.runs(SUM, 1)
    made: list[np.ndarray] = []

    def make(array: np.ndarray, dtype: str) -> object:
        made.append(array)
        return _made(array, dtype)

    assert fuzz_sizes.tensors(SUM, 1, values, make) is not None
    assert made[0].size > 36 and np.isnan(made[0]).sum() == made[0].size - 36


@pytest.mark.parametrize("first", [0, 12, 24])
def test_random_programs_are_right_for_every_size(first: int, device: str) -> None:
    """F096: what takes bounded axes is right and compiled once, what does not refuses."""
    ran = 0
    for seed in range(first, first + 12):
        program = generate(seed)
        failure = check(program, Setup(device, sizes=1 + seed % 3))
        assert failure is None, failure
        ran += bool(fuzz_sizes.chosen(program, 1 + seed % 3))
    assert ran > 4
