"""Versions: a lazy tensor keeps the value that it had when it was built.

Whatever is assigned, aliased, dropped, realised or replayed. Random programs against numpy, which
copies at once.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from polygrad import Tensor, jit
from polygrad.engine.versions import passing, unshared, with_readers
from polygrad.tensor import store
from polygrad.uop.ops import Ops, UOp


class Program:
    """Pairs of a tensor and the array that it must equal. int32 arithmetic is exact and wraps."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pairs: list[tuple[Tensor, np.ndarray]] = []
        self.steps = [self.data, self.derive, self.derive, self.alias, self.assign, self.assign]
        self.steps += [
            self.write_item,
            self.realize,
            self.read,
            self.drop,
            self.replay,
            self.replay,
        ]
        for _ in range(3):
            self.data()
        self.state = self.pairs[0][0]
        self.other = self.pairs[1][0]
        self.function = jit(self._function)

    def _function(self, x: Tensor, n: int) -> Tensor:
        self.state.assign(self.state * 3 + x)
        self.other.assign(self.other - self.state * n)
        return self.state + x

    # ---- the steps

    def pick(self) -> int:
        return self.random.randrange(len(self.pairs))

    def data(self) -> None:
        value = np.array([self.random.randrange(-9, 9) for _ in range(4)], np.int32)
        self.pairs.append((Tensor(value), value.copy()))

    def expression(self) -> tuple[Tensor, np.ndarray]:
        (a, x), (b, y) = self.pairs[self.pick()], self.pairs[self.pick()]
        n = self.random.randrange(2, 6)
        return self.random.choice(
            [
                lambda: (a + b, x + y),
                lambda: (a * n - b, x * np.int32(n) - y),
                lambda: (a.flip(0) + n, x[::-1] + np.int32(n)),
                lambda: (a * b.sum().cast("int32"), x * y.sum(dtype=np.int32)),
                lambda: (a.contiguous() + 1, x + np.int32(1)),
            ]
        )()

    def derive(self) -> None:
        self.pairs.append(self.expression())

    def alias(self) -> None:
        tensor, value = self.pairs[self.pick()]
        self.pairs.append((Tensor(tensor), value.copy()))

    def assign(self) -> None:
        i = self.pick()
        tensor, value = self.expression()
        self.pairs[i][0].assign(tensor)
        self.pairs[i] = (self.pairs[i][0], value)

    def write_item(self) -> None:
        i, at, n = self.pick(), self.random.randrange(4), self.random.randrange(9)
        self.pairs[i][0][at] = n
        value = self.pairs[i][1].copy()
        value[at] = n
        self.pairs[i] = (self.pairs[i][0], value)

    def realize(self) -> None:
        some = [self.pairs[self.pick()][0] for _ in range(self.random.randrange(1, 4))]
        Tensor.realize(*some)

    def read(self) -> None:
        tensor, value = self.pairs[self.pick()]
        assert tensor.tolist() == value.tolist()

    def drop(self) -> None:
        if len(self.pairs) > 5:
            del self.pairs[self.random.randrange(2, len(self.pairs))]

    def replay(self) -> None:
        """A compiled function writes the first two tensors, and one of them may be its argument."""
        x, value = self.pairs[self.pick()]
        n = self.random.randrange(-5, 5)
        result = self.function(x, n)
        state = self.pairs[0][1] * np.int32(3) + value
        other = self.pairs[1][1] - state * np.int32(n)
        self.pairs[0], self.pairs[1] = (self.state, state), (self.other, other)
        after = {id(self.state): state, id(self.other): other}.get(id(x), value)
        self.pairs.append((result, state + after))

    def run(self, steps: int) -> None:
        with np.errstate(over="ignore"):
            for _ in range(steps):
                self.random.choice(self.steps)()
            for tensor, value in self.pairs:
                assert tensor.tolist() == value.tolist()


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_of_assignments(device: str, seed: int) -> None:
    Program(seed).run(40)


@pytest.mark.parametrize("seed", range(12, 20))
def test_random_programs_whose_writes_are_carried_out_early(
    device: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_WAITING", 1)
    Program(seed).run(60)


# ---- the count itself


def leaf() -> UOp:
    return UOp.buffer(Tensor([1.0]).dtype, (3,), "interp")


def negated(x: UOp) -> UOp:
    return UOp(Ops.NEG, x.dtype, (x,))


def test_a_graph_held_by_nobody_else_has_no_reader() -> None:
    x = leaf()
    nodes = [x, negated(x)]
    written, root = [x], nodes[1]
    del x
    assert with_readers(written, nodes, {}, {root}) == set()


def test_whoever_holds_the_leaf_is_a_reader() -> None:
    x = leaf()
    nodes = [x, negated(x)]
    assert with_readers([x], nodes, {}, {nodes[1]}) == {x}


def test_whoever_shares_a_tuple_of_sources_is_a_reader() -> None:
    nodes = [leaf()]
    nodes.append(negated(nodes[0]))
    outside = UOp(Ops.SQRT, nodes[0].dtype, nodes[1].src)
    assert with_readers(nodes[:1], nodes, {}, {nodes[1]}) == {nodes[0]}
    assert outside.src is nodes[1].src


def test_whoever_holds_a_result_that_stays_is_a_reader() -> None:
    nodes = [leaf()]
    nodes.append(negated(nodes[0]))
    nodes.append(negated(nodes[1]))
    held = nodes[1]
    assert with_readers(nodes[:1], nodes, {}, {nodes[2]}) == {nodes[0]}
    assert with_readers(nodes[:1], nodes, {}, {held, nodes[2]}) == set()


# ---- versions that pass


def chain(length: int) -> list[UOp]:
    """A leaf and assignments to it, sources first: leaf, then value, store and version of each."""
    nodes = [leaf()]
    for _ in range(length):
        old = nodes[-1]
        nodes.append(negated(old))
        nodes.append(old.store(nodes[-1]))
        nodes.append(old.after(nodes[-1]))
        del old
    return nodes


def test_versions_that_nobody_holds_pass() -> None:
    nodes = chain(4)
    assert passing(nodes, {}, {nodes[-1]}) == (3, 6, 9)


def test_a_version_that_is_held_or_read_does_not_pass() -> None:
    nodes = chain(4)
    held = nodes[3]
    assert passing(nodes, {}, {nodes[-1]}) == (6, 9)
    del held
    reader = UOp(Ops.SQRT, nodes[6].dtype, (nodes[6],))
    assert passing(nodes, {}, {nodes[-1]}) == (3, 9)
    del reader
    inside = nodes[10]
    assert passing(nodes, {}, {nodes[-1]}) == (3, 6)
    assert passing(nodes, {}, {nodes[-1], inside}) == (3, 6, 9)


def test_a_version_of_constants_does_not_pass() -> None:
    nodes = [leaf()]
    nodes.append(UOp.const(nodes[0].dtype, 3.0).broadcast_to((3,)))
    nodes.append(nodes[0].store(nodes[1]))
    nodes.append(nodes[0].after(nodes[2]))
    nodes.append(negated(nodes[3]))
    nodes.append(nodes[3].store(nodes[4]))
    nodes.append(nodes[3].after(nodes[5]))
    assert passing(nodes, {}, {nodes[-1]}) == ()


class Holding:
    def __init__(self, uop: UOp) -> None:
        self.uop = uop

    def _replace(self, uop: UOp) -> None:
        self.uop = uop


def test_a_graph_is_unshared_until_somebody_holds_a_part() -> None:
    nodes = chain(3)
    holder = Holding(nodes[-1])
    assert unshared(nodes, [holder])
    held = nodes[4]
    assert not unshared(nodes, [holder])
    del held
    other = Holding(nodes[-1])
    assert not unshared(nodes, [holder])
    assert unshared(nodes, [holder, other])
