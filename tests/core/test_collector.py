"""Python's collector of cycles while modules are imported, devices opened and graphs compiled."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from polygrad import _collector


@pytest.fixture(autouse=True)
def collecting():
    assert gc.isenabled()
    yield
    gc.enable()


def generation(thing: object) -> int:
    return next(g for g in range(3) if any(o is thing for o in gc.get_objects(g)))


def test_nothing_is_collected_inside() -> None:
    with _collector.paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_lasts_is_old_at_once() -> None:
    with _collector.lasting():
        made = [[i] for i in range(5)]
    assert {generation(thing) for thing in (made, *made)} == {2}
    assert gc.isenabled()


def test_cycles_among_what_lasts_are_collected_all_the_same() -> None:
    with _collector.lasting():
        ring: list = []
        ring.append(ring)
        del ring
    assert gc.collect() >= 1


def test_what_somebody_froze_stays_frozen() -> None:
    kept = [[1]]  # not the count of them all: some are let go of meanwhile
    gc.freeze()
    try:
        with _collector.lasting():
            made = [[0]]
        assert not any(o is kept for o in gc.get_objects())
        assert not any(o is made for o in gc.get_objects(2))
    finally:
        gc.unfreeze()


def test_the_first_tensor_walks_few_objects() -> None:
    """In a fresh process: importing all that a Tensor needs leaves no young objects behind."""

    text = (
        "import gc\nlargest = 0\n"
        "def see(phase, info):\n"
        "    global largest\n"
        "    if phase == 'start' and info['generation'] == 0:\n"
        "        largest = max(largest, len(gc.get_objects(0)))\n"
        "gc.callbacks.append(see)\nfrom polygrad import Tensor\n"
        "many = [[] for _ in range(2000)]\nprint(largest)"
    )
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 5000


def test_nothing_is_collected_while_a_routine_for_other_numbers_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from polygrad import Context, Tensor
    from polygrad.engine import run

    seen = []
    assemble = run.assemble

    def looking(*args):
        seen.append(gc.isenabled())
        return assemble(*args)

    monkeypatch.setattr(run, "assemble", looking)
    with Context(POLY_DEV="interp"):
        for number in (0.375, 0.625):
            (Tensor([1.0, 2.0, 3.0]) * number).realize()
    assert seen == [False, False]
