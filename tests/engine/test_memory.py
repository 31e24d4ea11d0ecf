"""The memory planner: places never overlap in time and space, and every conflict has an edge."""

from __future__ import annotations

import random

import pytest

from polygrad.engine.memory import Access, Lifetime, dependencies, place


def random_lifetimes(seed: int, count: int) -> list[Lifetime]:
    r = random.Random(seed)
    out = []
    for _ in range(count):
        first = r.randrange(40)
        out.append(
            Lifetime(r.choice([1, 63, 64, 65, 1000, 4096, 10_000]), first, first + r.randrange(9))
        )
    return out


@pytest.mark.parametrize("seed", range(30))
def test_buffers_that_live_together_share_no_byte(seed: int) -> None:
    lives = random_lifetimes(seed, 60)
    offsets, total = place(lives, 64)
    for i, a in enumerate(lives):
        assert offsets[i] % 64 == 0
        assert offsets[i] + a.nbytes <= total
        for j in range(i):
            b = lives[j]
            together = a.first <= b.last and b.first <= a.last
            apart = offsets[i] + a.nbytes <= offsets[j] or offsets[j] + b.nbytes <= offsets[i]
            assert apart or not together


def test_memory_is_shared_by_buffers_that_never_meet() -> None:
    chain = [Lifetime(1024, step, step + 1) for step in range(100)]
    _, total = place(chain, 64)
    assert total == 2 * 1024


def test_a_gap_takes_the_buffer_that_fits_best() -> None:
    lives = [
        Lifetime(512, 0, 0),
        Lifetime(256, 0, 9),  # keeps the two gaps apart
        Lifetime(128, 0, 0),
        Lifetime(128, 1, 2),
    ]
    offsets, _ = place(lives, 64)
    assert offsets[3] == offsets[2]


def test_freed_neighbours_become_one_gap() -> None:
    lives = [Lifetime(64, 0, 0), Lifetime(64, 0, 0), Lifetime(64, 0, 0), Lifetime(192, 1, 1)]
    _, total = place(lives, 64)
    assert total == 192


def test_no_intermediates_need_no_arena() -> None:
    assert place([], 64) == ([], 0)


# ---- edges


def brute_force(steps: list[list[Access]]) -> set[tuple[int, int]]:
    """Every pair of steps of which one writes a byte that the other touches."""

    def meet(a: Access, b: Access) -> bool:
        return a.memory == b.memory and a.lo < b.hi and b.lo < a.hi and (a.writes or b.writes)

    return {
        (i, j)
        for j in range(len(steps))
        for i in range(j)
        if any(meet(a, b) for a in steps[i] for b in steps[j])
    }


def closure(edges: set[tuple[int, int]], count: int) -> set[tuple[int, int]]:
    reach = [{i} for i in range(count)]
    for i, j in sorted(edges, key=lambda e: e[1]):
        reach[j] |= reach[i]
    return {(i, j) for j in range(count) for i in reach[j] if i != j}


@pytest.mark.parametrize("seed", range(30))
def test_every_conflict_is_ordered_and_nothing_else(seed: int) -> None:
    r = random.Random(seed)
    steps = []
    for _ in range(25):
        accesses = []
        for _ in range(r.randrange(1, 4)):
            lo = r.randrange(12)
            accesses.append(Access(r.randrange(2), lo, lo + r.randrange(1, 6), r.random() < 0.4))
        steps.append(accesses)
    found = set(dependencies(steps))
    wanted = brute_force(steps)
    assert found <= wanted
    assert closure(found, 25) == closure(wanted, 25)


def test_a_step_in_place_reads_the_step_that_wrote_before() -> None:
    write, both = Access(1, 0, 8, True), [Access(1, 0, 8, False), Access(1, 0, 8, True)]
    assert dependencies([[write], both, both]) == ((0, 1), (1, 2))


def test_shared_bytes_of_the_arena_are_ordered() -> None:
    old, new = Access(0, 0, 100, True), Access(0, 64, 200, True)
    reader = Access(0, 0, 100, False)
    assert dependencies([[old], [reader], [new]]) == ((0, 1), (1, 2))
