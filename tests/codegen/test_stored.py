"""A target whose memory lacks a narrow float keeps it in unsigned words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polygrad.codegen.decompose import decompose, missing
from polygrad.dtype import TENSOR_DTYPES, DType, dtypes
from polygrad.target import Target
from polygrad.testing.narrow_floats import LACKING, from_words, nearest, to_words
from polygrad.uop.ops import Ops, UOp

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflow, signalling NaNs

NARROW = ("float16", *LACKING)


def word(name: str) -> DType:
    return dtypes.uint8 if TENSOR_DTYPES[name].itemsize == 1 else dtypes.uint16


@pytest.fixture(scope="module")
def wordy(scalars: Any) -> Target:
    """The bare target, whose memory holds no narrow float."""
    rows = scalars.target.ops.items()
    kept = {op: frozenset(d for d in row if not d.is_narrow) for op, row in rows}
    return replace(scalars.target, name="wordy", ops=kept)


def reduced(u: UOp, target: Target) -> UOp:
    """`u` decomposed: no narrow float is left, and nothing that the target lacks."""
    made = decompose(u, target)
    assert not list(missing(made, target))
    assert not any(n.dtype.is_narrow for n in made.toposort())
    return made


@pytest.mark.parametrize("name", NARROW)
def test_every_word_decodes(scalars: Any, wordy: Target, name: str) -> None:
    made = reduced(scalars.leaf(TENSOR_DTYPES[name]).cast(dtypes.float32), wordy)
    words = np.arange(1 << word(name).bits, dtype=word(name).name)
    if name == "float16":
        expected = words.view("float16").astype("float32")
    else:
        expected = from_words(words, name)
    got = scalars.evaluate(made, {scalars.leaf(word(name)): words})
    np.testing.assert_array_equal(got, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(expected)[there])


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("source", [dtypes.float32, dtypes.float64])
def test_words_are_the_nearest(
    scalars: Any, wordy: Target, name: str, source: DType, rng: np.random.Generator
) -> None:
    dtype = TENSOR_DTYPES[name]
    made = reduced(scalars.leaf(source).cast(dtype).bitcast(word(name)), wordy)
    x = np.arange(1 << 16, dtype="uint16").view("float16").astype("float64")
    x = x[~np.isnan(x)]
    spread = rng.normal(size=1000) * 2.0 ** rng.integers(-140, 130, 1000)
    x = np.concatenate([x, x * (1 + 2.0**-40), spread]).astype(source.name)
    if name == "float16":
        expected = x.astype("float16").view("uint16")
    else:
        expected = to_words(nearest(x, name), name)
    got = scalars.evaluate(made, {scalars.leaf(source): x})
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", NARROW)
def test_what_only_moves_stays_a_word(scalars: Any, wordy: Target, name: str) -> None:
    """A select and a copy compute nothing: two loads, one store, a NaN keeps its payload."""
    dtype = TENSOR_DTYPES[name]
    value = scalars.leaf(dtypes.bool, 2).where(scalars.leaf(dtype), scalars.leaf(dtype, 1))
    place = UOp(Ops.INDEX, dtype, (UOp(Ops.PARAM, dtype, (), (3, 1)), UOp.index(0)))
    made = reduced(place.store(value), wordy)
    assert {n.op for n in made.toposort()} == {
        Ops.STORE, Ops.INDEX, Ops.PARAM, Ops.CONST, Ops.LOAD, Ops.WHERE,
    }  # fmt: skip
    assert made.src[1].dtype is word(name)


@pytest.mark.parametrize("name", NARROW)
def test_constants_are_words(wordy: Target, name: str) -> None:
    for value in (1.0, -0.0, float("nan"), float("inf")):
        made = reduced(UOp.const(TENSOR_DTYPES[name], value).bitcast(word(name)), wordy)
        assert made.op is Ops.CONST
        layout = TENSOR_DTYPES[name].layout
        assert layout is not None
        assert made.arg == layout.encode(value)
