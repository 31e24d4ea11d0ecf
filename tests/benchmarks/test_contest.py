"""Contestants in processes of their own, and the loops that measure a machine. Nothing is timed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import limits, limits_text
from benchmarks.contest import Worker, contest
from benchmarks.errors import BenchmarkError
from benchmarks.frameworks import FRAMEWORKS
from benchmarks.workloads import transformer


def test_two_contestants_take_turns_and_say_what_they_needed() -> None:
    results, failed = contest("matmul256", ["ours", "numpy"], 1, 120.0, rounds=1)
    assert not failed
    assert set(results) == {"ours", "numpy"}
    for result in results.values():
        assert 0 < result.made_bytes <= result.peak_bytes
        assert result.first.wall > 0 and result.timing.best > 0


def test_a_contestant_that_fails_leaves_its_last_words() -> None:
    results, failed = contest("no_such_workload", ["numpy"], 1, 120.0, rounds=1)
    assert not results
    assert failed == {"numpy": "KeyError: 'no_such_workload'"}


def test_a_contestant_that_is_not_ready_in_time_is_ended() -> None:
    worker = Worker("matmul256", "ours", 1, patience=0.0)
    with pytest.raises(BenchmarkError, match="not made within 0 s"):
        worker.start()
    worker.close()


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_the_loops_read_and_copy_every_vector(lanes: int) -> None:
    loops = limits.compiled(lanes, 6)
    step = limits_text.UNROLL * lanes
    memory = np.zeros(3 * step + 16, np.float32)
    start = -memory.ctypes.data % (4 * 16) // 4
    given = memory[start : start + 3 * step]
    for name in ("copy", "copy_past"):
        given[:] = np.arange(3 * step)
        copied = np.zeros_like(memory)
        begin = -copied.ctypes.data % (4 * 16) // 4
        target = copied[begin : begin + 3 * step]
        getattr(loops, name)(given.ctypes.data, target.ctypes.data, 3, 2)
        assert (target == given).all()
        assert copied.sum() == given.sum()
    # The first lanes of all vectors, twice.
    assert loops.read(given.ctypes.data, 3, 2) == 2 * given[::lanes].sum()


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_the_loop_that_reads_at_several_places_reads_all_of_each_block(lanes: int) -> None:
    loops = limits.compiled(lanes, 6)
    memory = np.zeros(2 * limits.BLOCK // 4 + 16, np.float32)
    start = -memory.ctypes.data % (4 * 16) // 4
    given = memory[start : start + 2 * limits.BLOCK // 4]
    given[:] = np.arange(len(given)) % 7
    steps = 2 * limits.BLOCK // loops.step
    assert loops.read_apart(given.ctypes.data, steps, 1) == given[::lanes].sum()


def test_the_arithmetic_loop_multiplies_and_adds() -> None:
    """x / 2 + 1 / 4 tends to 1 / 2 in each accumulator."""
    loops = limits.compiled(8, 6)
    assert loops.flops == 6 * 8 * 2
    assert math.isclose(loops.fma(100), 6 * 0.5)
    assert math.isclose(loops.fma(1), sum(i / 2 + 0.25 for i in range(6)))


def test_a_decoder_with_a_cache_gives_what_all_peers_give() -> None:
    """Ours against numpy's forward pass, with the same weights."""
    shape = transformer.Shape(2, 32, 2, 11, context=70)
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal(s, np.float32) for n, s in transformer.weights(shape)}
    from polygrad import Tensor, Variable, jit

    net = transformer.Decoder(shape).realize()
    for name, tensor in transformer.named_tensors(net).items():
        tensor.assign(Tensor(weights[name])).realize()
    ops = transformer.PEER_OPS["numpy"](FRAMEWORKS["numpy"](1))
    for rows in (1, 5):
        x = rng.standard_normal((rows, 32), np.float32)
        caches = [[np.zeros((2, 70, 16), np.float32) for _ in "kv"] for _ in range(2)]
        wanted, _ = transformer.forward(ops, shape, weights, caches if rows == 1 else [], x)
        if rows == 1:
            decode = jit(lambda x, place: net(x, place))
            place = Variable("place", 0, 69).bind(transformer.POSITION)
            got = decode(Tensor(x), place).numpy()
            assert np.allclose(net.blocks[0].attention.keys.numpy(), caches[0][0], atol=1e-4)
        else:
            got = net(Tensor(x)).numpy()
        assert np.allclose(got, wanted, rtol=1e-3, atol=1e-3)
