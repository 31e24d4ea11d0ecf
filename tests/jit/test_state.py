"""State of a captured function: what it reads from outside, assigns to, and draws, at each call."""

from __future__ import annotations

import numpy as np
import pytest

from polygrad import Context, Tensor, jit


def test_a_tensor_that_is_assigned_to_is_state(device: str) -> None:
    total = Tensor.zeros(2)

    @jit
    def add(x: Tensor) -> Tensor:
        total.assign(total + x)
        return total * 1

    for n in range(1, 5):
        assert add(Tensor([1.0, 2.0])).tolist() == [n, 2.0 * n]
        assert total.tolist() == [n, 2.0 * n]


def test_lazy_zeros_are_not_folded_into_the_graph(device: str) -> None:
    bias, momentum = Tensor.zeros(2), Tensor.zeros(2)

    @jit
    def f(x: Tensor) -> Tensor:
        momentum.assign(momentum * 0.5 + x)
        return x + bias

    x = Tensor([1.0, 2.0])
    f(x)
    f(x)
    assert momentum.tolist() == [1.5, 3.0]
    bias.assign(Tensor([10.0, 20.0]))
    assert f(x).tolist() == [11.0, 22.0]


def test_a_tensor_made_inside_is_no_state(device: str) -> None:
    @jit
    def f(x: Tensor) -> Tensor:
        t = Tensor.zeros(2)
        t.assign(t + x)
        u = Tensor([5.0, 5.0])
        u.assign(u + t)
        return u

    for _ in range(3):
        assert f(Tensor([1.0, 2.0])).tolist() == [6.0, 7.0]


def test_an_argument_may_be_assigned_to(device: str) -> None:
    @jit
    def increment(x: Tensor) -> Tensor:
        x.assign(x + 1)
        return x * 10

    x = Tensor([1.0, 2.0])
    old = x * 1
    assert increment(x).tolist() == [20.0, 30.0]
    assert increment(x).tolist() == [30.0, 40.0]
    assert x.tolist() == [3.0, 4.0]
    assert old.tolist() == [1.0, 2.0]


def test_memory_of_the_state_as_argument_is_read_before_it_is_written(device: str) -> None:
    w = Tensor([1.0, 2.0])

    @jit
    def f(x: Tensor) -> Tensor:
        w.assign(w + 1)
        return x * 10

    for want in ([10.0, 20.0], [20.0, 30.0]):
        other = w.cast(w.dtype)  # another tensor, on the same memory
        assert f(other).tolist() == want


def test_readers_from_before_a_call_see_the_state_of_then(device: str) -> None:
    w = Tensor([1.0, 2.0])

    @jit
    def step() -> None:
        w.assign(w * 2)

    step()
    before = w * 10
    step()
    step()
    assert before.tolist() == [20.0, 40.0]
    assert w.tolist() == [8.0, 16.0]


def test_tensors_from_outside_are_read_at_each_call(device: str) -> None:
    w = Tensor([1.0, 2.0])
    f = jit(lambda x: x * w)
    x = Tensor([3.0, 3.0])
    assert f(x).tolist() == [3.0, 6.0]
    w.assign(w + 1)  # pending
    assert f(x).tolist() == [6.0, 9.0]
    w.assign(Tensor([7.0, 8.0]).realize())
    w.realize()
    assert f(x).tolist() == [21.0, 24.0]


def test_two_tensors_on_one_leaf_part(device: str) -> None:
    w = Tensor([1.0, 2.0])
    alias = Tensor(w)

    @jit
    def f() -> Tensor:
        w.assign(w + 1)
        return alias * 1

    assert f().tolist() == f().tolist() == [1.0, 2.0]
    assert w.tolist() == [3.0, 4.0]


def test_random_draws_go_on(device: str) -> None:
    """Draws in a replay are those that eager calls would have made."""
    f = jit(lambda: (Tensor.rand(3), Tensor.rand(2)))
    Tensor.manual_seed(7)
    got = [t.tolist() for _ in range(3) for t in f()]
    Tensor.manual_seed(7)
    want = [t.tolist() for _ in range(3) for t in (Tensor.rand(3), Tensor.rand(2))]
    assert got == want


def test_a_training_step(device: str) -> None:
    from polygrad import nn

    r = np.random.default_rng(3)
    x, y = r.random((8, 4), np.float32), r.random((8, 2), np.float32)

    def losses(wrap) -> list[float]:
        Tensor.manual_seed(1)
        net = nn.Linear(4, 2)
        optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.05)

        @wrap
        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.realize()

        with Context(TRAINING=1):
            return [step(Tensor(x), Tensor(y)).item() for _ in range(6)]

    np.testing.assert_allclose(losses(jit), losses(lambda f: f), rtol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_the_rate_of_an_optimizer_is_never_stale(device: str, name: str) -> None:
    """Schedules go on with each call, and another rate is taken at once."""
    from polygrad import nn

    def weights(wrap) -> list[list[float]]:
        w = Tensor([1.0, 2.0], requires_grad=True)
        optimizer = getattr(nn.optim, name)([w], lr=nn.lr.step(0.5, 2))

        @wrap
        def step(x: Tensor) -> None:
            optimizer.zero_grad()
            (w * w * x).sum().backward()
            optimizer.step()

        out = []
        with Tensor.train():
            for n in range(8):
                if n == 4:
                    optimizer.lr = 0.125
                if n == 6:
                    optimizer.set_schedule(nn.lr.linear_decay(0.5, 0.0, 10))
                step(Tensor([0.1, 0.2]))
                out.append(w.tolist())
        assert optimizer.steps == 8
        return out

    np.testing.assert_allclose(weights(jit), weights(lambda f: f), rtol=1e-5)


def test_the_training_flag_chooses_a_capture(device: str) -> None:
    from polygrad import settings

    f = jit(lambda x: x * (2 if settings.get("TRAINING") else 3))
    x = Tensor([1.0])
    with Context(TRAINING=1):
        assert f(x).item() == 2
    assert f(x).item() == 3


def test_an_expression_with_a_gradient_that_is_assigned_to_becomes_state(device: str) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    y = w * 2

    @jit
    def f() -> Tensor:
        y.assign(y + 1)
        return y * 1

    assert [f().tolist() for _ in range(3)] == [[3.0, 5.0], [4.0, 6.0], [5.0, 7.0]]


def test_an_expression_over_an_old_version_keeps_it(device: str) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    y = w * 2
    f = jit(lambda x: x + y)
    x = Tensor([0.0, 0.0])
    assert f(x).tolist() == [2.0, 4.0]
    w.assign(Tensor([5.0, 5.0]))
    w.realize()
    assert f(x).tolist() == [2.0, 4.0]


def test_gradients_of_a_capture_stay_inside(device: str) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    y = w * 2  # w itself is no operand inside

    @jit
    def f(x: Tensor) -> Tensor:
        (x * y).sum().backward()
        return x * 1

    f(Tensor([1.0, 1.0]))
    assert w.grad is None


def test_a_tensor_replaced_inside_takes_the_value_of_each_call(device: str) -> None:
    last = Tensor([0.0, 0.0])

    @jit
    def f(x: Tensor) -> None:
        last.replace(x * 2)

    f(Tensor([1.0, 2.0]))
    assert last.tolist() == [2.0, 4.0]
    f(Tensor([3.0, 4.0]))
    assert last.tolist() == [6.0, 8.0]
