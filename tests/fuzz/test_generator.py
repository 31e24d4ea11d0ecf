"""The generator of tensor programs, their text, and the reducer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from polygrad import Context
from polygrad.testing import fuzz_grammar as grammar
from polygrad.testing import fuzz_programs, fuzz_run, fuzz_sequences
from polygrad.testing.fuzz_builder import Builder
from polygrad.testing.fuzz_generate import generate
from polygrad.testing.fuzz_grammar import Node, Program, known, source_text
from polygrad.testing.fuzz_reduce import reduce

SAMPLE = [generate(seed) for seed in range(200)]


def test_a_seed_is_a_program() -> None:
    for seed in (0, 5, 77):
        assert generate(seed) == generate(seed)
    assert len({p.dumps() for p in SAMPLE}) == len(SAMPLE)


def test_programs_survive_json() -> None:
    for p in SAMPLE[:50]:
        back = Program.loads(p.dumps())
        assert back.dumps() == p.dumps()
        for a, b in zip(known(p), known(back), strict=True):
            np.testing.assert_array_equal(a.value, b.value)


def test_sizes_are_within_the_limits() -> None:
    for p in SAMPLE:
        assert 1 <= len(p.nodes) <= 150
        assert 1 <= len(p.outputs) <= 3
        assert all(k.value.size <= 2500 for k in known(p))


def test_every_kind_of_operation_comes_up() -> None:
    seen = Counter(n.op for seed in range(700) for n in generate(seed).nodes)
    assert set(grammar.OPS) <= set(seen)


def test_equal_layers_are_scheduled_once_and_layers_that_are_nearly_equal_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from polygrad.schedule import Schedule, repeats, schedule

    found = Counter[bool]()
    extended = repeats.Chain.extended

    def counting(chain: repeats.Chain, *args: Any) -> Schedule | None:
        made = extended(chain, *args)
        found[made is not None] += 1
        return made

    monkeypatch.setattr(repeats.Chain, "extended", counting)
    for seed in range(60):
        b = Builder(np.random.default_rng(seed))
        for op, src, args in fuzz_sequences.layers(b):
            if b.put(op, src, **args) is None:
                break
        program = Program(tuple(b.nodes), (len(b.nodes) - 1,))
        with Context(POLY_DEV="interp"):
            schedule([t.uop for t in fuzz_run.tensors(program)], "interp")
    assert found[True] >= 6
    assert 60 - found[True] >= 6


def test_programs_have_layers_now_and_then() -> None:
    long = [p for p in SAMPLE if len(p.nodes) > fuzz_programs.LONG]
    assert 4 <= len(long) <= 20


def test_few_elements_are_undecided() -> None:
    outputs = [known(p)[o] for p in SAMPLE for o in p.outputs]
    undecided = sum(int(np.isinf(k.error).sum()) for k in outputs)
    assert undecided < 0.01 * sum(k.error.size for k in outputs)


def test_text_names_each_node_once() -> None:
    p = Program(
        (
            Node("input", (), {"dtype": "int32", "shape": [3], "kind": "normal", "seed": 1}),
            Node("setitem", (0, 0), {"index": [[None, 2, None]]}),
            Node("slice", (1,), {"index": [[None, None, -1], None]}),
            Node("sum", (2,), {"axis": [0], "keepdim": True}),
        ),
        (3,),
    )
    assert source_text(p).splitlines() == [
        "v0[:2] = v0",
        "v1 = v0",
        "v2 = v1[::-1, None]",
        "v3 = v2.sum(axis=(0,), keepdim=True)",
    ]


def reshapes(p: Program) -> bool:
    """The planted fault: any reshape of a tensor with more than one element."""
    values = known(p)
    return any(n.op == "reshape" and values[i].value.size > 1 for i, n in enumerate(p.nodes))


@pytest.mark.parametrize("program", [p for p in SAMPLE if reshapes(p)][:4])
def test_the_reducer_keeps_what_fails_and_drops_the_rest(program) -> None:
    small = reduce(program, reshapes)
    assert reshapes(small)
    assert len(small.nodes) <= 2
    assert max(k.value.size for k in known(small)) <= 4
