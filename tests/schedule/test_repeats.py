"""Equal layers are scheduled once, and the schedule is that of the whole graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from polygrad import Tensor, Variable, jit, nn
from polygrad.schedule import CopyItem, Schedule, repeats, schedule
from polygrad.schedule.rules import prepare
from polygrad.uop.ops import UOp, toposort

LAYERS, WIDTH = 9, 16


def data(*shape: int) -> Tensor:
    return Tensor.zeros(*shape).contiguous().realize()


class Norm:
    """A residual layer with a norm and a wide part, as of a decoder."""

    def __init__(self, width: int = WIDTH, wide: int = 2 * WIDTH) -> None:
        self.norm, self.up, self.down = (
            nn.LayerNorm(width), nn.Linear(width, wide), nn.Linear(wide, width),
        )  # fmt: skip
        for tensor in nn.state.get_parameters(self):
            tensor.realize()

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.down(self.up(self.norm(x)).gelu())


def norms() -> list[Tensor]:
    x = data(4, WIDTH)
    for layer in [Norm() for _ in range(LAYERS)]:
        x = layer(x)
    return [x.softmax(-1)]


def products() -> list[Tensor]:
    x = data(4, WIDTH)
    for _ in range(LAYERS):
        x = (x @ data(WIDTH, WIDTH) + data(WIDTH)).relu()
    return [x.sum()]


def convolutions() -> list[Tensor]:
    x = data(1, 4, 8, 8)
    for _ in range(LAYERS):
        x = x + x.conv2d(data(4, 4, 3, 3), data(4), padding=1).relu()
    return [x.mean((2, 3))]


def attentions() -> list[Tensor]:
    x = data(6, WIDTH)
    for _ in range(LAYERS):
        q, k, v = (x @ data(WIDTH, WIDTH) for _ in range(3))
        x = x + q.scaled_dot_product_attention(k, v, is_causal=True) @ data(WIDTH, WIDTH)
    return [x]


def caches() -> list[Tensor]:
    """Each layer writes into memory of its own and reads it back, at a place that varies."""
    x, place = data(1, WIDTH), Variable("place", 0, 7)
    written = []
    for _ in range(LAYERS):
        cache = data(8, WIDTH)
        cache[place] = (x @ data(WIDTH, WIDTH))[0]
        x = x + cache[: place + 1].sum(0)
        written.append(cache)
    return [x, *written]


def every_layer() -> list[Tensor]:
    """Each layer's value is a result."""
    x, found = data(4, WIDTH), []
    for _ in range(LAYERS):
        x = (x @ data(WIDTH, WIDTH)).tanh()
        found.append(x.sum(1))
    return [*found, x]


def shared() -> list[Tensor]:
    """One weight of all layers beside those of each, and one computed mask."""
    x, w = data(4, WIDTH), data(WIDTH, WIDTH)
    mask = (data(WIDTH) + 1).exp().contiguous()
    for _ in range(LAYERS):
        x = (x @ w + data(WIDTH)) * mask
    return [x]


def far() -> list[Tensor]:
    """A value from before the first layer that each reads."""
    first = data(4, WIDTH).exp() @ data(WIDTH, WIDTH)
    x = first
    for _ in range(LAYERS):
        x = (x @ data(WIDTH, WIDTH)).relu() + first
    return [x]


def towers() -> list[Tensor]:
    """Two chains, of which the shorter one is scheduled whole."""
    x, y = data(4, WIDTH), data(4, 2 * WIDTH)
    for _ in range(2 * LAYERS):
        x = (x @ data(WIDTH, WIDTH)).relu()
    for _ in range(LAYERS):
        y = (y @ data(2 * WIDTH, 2 * WIDTH)).exp()
    return [x.sum() + y.sum()]


REPEATING = (
    norms, products, convolutions, attentions, caches, every_layer, shared, far, towers,
)  # fmt: skip


def unequal() -> list[Tensor]:
    x = data(4, WIDTH)
    for n in range(LAYERS):
        x = (x @ data(WIDTH, WIDTH) + (n + 0.5)).relu()
    return [x]


def one_in_the_middle() -> list[Tensor]:
    """Of one layer alone the value is a result."""
    x, found = data(4, WIDTH), []
    for n in range(LAYERS):
        x = (x @ data(WIDTH, WIDTH)).tanh()
        if n == LAYERS // 2:
            found.append(x.sum(1))
    return [*found, x]


def all_before() -> list[Tensor]:
    """Each layer reads the values of all before it."""
    xs = [data(4, WIDTH)]
    for _ in range(LAYERS):
        xs.append((sum(xs[-2::-1], xs[-1]) @ data(WIDTH, WIDTH)).relu())
    return xs[-1:]


def gradients() -> list[Tensor]:
    weights = [data(WIDTH, WIDTH).requires_grad_() for _ in range(LAYERS)]
    x = data(4, WIDTH)
    for w in weights:
        x = (x @ w).tanh()
    x.sum().backward()
    return [w.grad for w in weights if w.grad is not None]


def signed_zeros() -> list[Tensor]:
    """Constants that Python calls equal."""
    x = data(4, WIDTH)
    for n in range(LAYERS):
        x = (x @ data(WIDTH, WIDTH)) / Tensor.full((WIDTH,), -0.0 if n % 2 else 0.0)
    return [x]


def skipped() -> list[Tensor]:
    """A sum over all layers, computed in one kernel, beside the value of the last layer."""
    total, x = data(4, WIDTH), data(4, WIDTH)
    for _ in range(LAYERS):
        x = x @ data(WIDTH, WIDTH)
        total = total + x.tanh()
    return [total, x]


OTHER = (unequal, one_in_the_middle, all_before, gradients, signed_zeros, skipped)
Network = Callable[[], list[Tensor]]


def described(planned: Schedule, roots: Iterable[UOp]) -> list[object]:
    """A schedule with the leaves that it made numbered by first sight."""
    made: dict[UOp, int] = {}
    given = set(toposort(list(roots)))

    def name(leaf: UOp) -> object:
        return leaf if leaf in given else made.setdefault(leaf, len(made))

    items = [
        ("copy", name(i.dst), name(i.src))
        if isinstance(i, CopyItem)
        else (i.sink, [name(b) for b in i.buffers], i.device, i.variables, i.values)
        for i in planned.items
    ]
    writes = {old: name(new) for old, new in planned.writes}
    shapes = {n: (leaf.dtype, leaf.shape, leaf.arg[2]) for leaf, n in made.items()}
    return [items, [name(r) for r in planned.results], writes, shapes]


@pytest.mark.parametrize("network", [*REPEATING, *OTHER])
def test_the_schedule_is_that_of_the_whole_graph(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [t.uop for t in network()]
    short = schedule(roots, "cpu")
    monkeypatch.setattr(repeats, "FEWEST", 1 << 30)
    assert described(short, roots) == described(schedule(roots, "cpu"), roots)


def nodes_planned(network: Network, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many nodes are planned, and how many the graph has."""
    roots = prepare([t.uop for t in network()], "cpu")
    planned: list[int] = []
    from polygrad import schedule as rooms

    plan = rooms._planned

    def counted(wanted: list[UOp], **more: object) -> object:
        planned.append(len(toposort(wanted)))
        return plan(wanted, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(rooms, "_planned", counted)
    rooms.schedule(roots, "cpu")
    return sum(planned), len(toposort(roots))


@pytest.mark.parametrize("network", REPEATING)
def test_few_of_many_equal_layers_are_looked_at(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, all_ = nodes_planned(network, monkeypatch)
    assert planned < 0.8 * all_


@pytest.mark.parametrize("network", OTHER)
def test_layers_that_do_not_repeat_are_all_looked_at(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, all_ = nodes_planned(network, monkeypatch)
    assert planned >= all_


STEPS: dict[str, Callable[[Tensor, Callable[..., Tensor]], Tensor]] = {
    "product": lambda x, new: x @ new(WIDTH, WIDTH),
    "bias": lambda x, new: x + new(WIDTH),
    "scale": lambda x, new: x * new(4, WIDTH),
    "exp": lambda x, new: (x * 0.1).exp(),
    "norm": lambda x, new: x.layernorm(),
    "softmax": lambda x, new: x.softmax(-1),
    "centre": lambda x, new: x - x.mean(1, keepdim=True),
    "columns": lambda x, new: x * x.sum(0, keepdim=True),
    "stored": lambda x, new: x.contiguous(),
    "moved": lambda x, new: x.pad(((1, 0), (0, 0)))[:4],
    "scan": lambda x, new: x.cumsum(1),
    "turned": lambda x, new: x[:, Tensor([*range(WIDTH)][::-1])],
    "twice": lambda x, new: x + x.relu(),
}


@pytest.mark.parametrize("seed", range(24))
def test_random_layers_have_the_values_of_the_whole_graph(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, whichever kernels they are in."""

    def values() -> list[np.ndarray]:
        rng = np.random.default_rng(seed)

        def new(*shape: int) -> Tensor:
            return Tensor(0.3 * rng.standard_normal(shape, np.float32)).realize()

        steps = [*rng.choice([*STEPS], rng.integers(1, 7)), "product"]
        x, found = new(4, WIDTH), []
        for _ in range(LAYERS):
            before = x
            for step in steps:
                x = STEPS[step](x, new)
            x = x + before if seed % 3 else x
            found += [x.sum(1)] if seed % 4 == 0 else []
        Tensor.realize(x, *found)
        return [t.numpy() for t in (x, *found)]

    short = values()
    monkeypatch.setattr(repeats, "FEWEST", 1 << 30)
    for one, whole in zip(short, values(), strict=True):
        np.testing.assert_array_equal(one, whole)


def test_a_deep_network_computes_what_numpy_does() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((WIDTH, WIDTH)) / WIDTH for _ in range(LAYERS)]
    x = rng.standard_normal((4, WIDTH))
    tensors = [Tensor(w.astype(np.float32)).realize() for w in weights]
    sums: list[Tensor] = []

    def network(x: Tensor) -> list[Tensor]:
        found = []
        for w in tensors:
            x = x + (x @ w).tanh()
            found.append(x.sum(1))
        return [x, *found]

    sums = jit(network)(Tensor(x.astype(np.float32)))
    expected = []
    for w in weights:
        x = x + np.tanh(x @ w)
        expected.append(x.sum(1))
    for found, wanted in zip(sums, [x, *expected], strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_a_sum_over_all_layers_computes_what_numpy_does() -> None:
    rng = np.random.default_rng(0)
    total, x, *weights = rng.standard_normal((LAYERS + 2, WIDTH, WIDTH)) / WIDTH**0.5
    sums, images = (Tensor(a.astype(np.float32)).realize() for a in (total, x))
    for w in weights:
        images, x = images @ Tensor(w.astype(np.float32)).realize(), x @ w
        sums, total = sums + images, total + x
    Tensor.realize(sums, images)
    np.testing.assert_allclose(sums.numpy(), total, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(images.numpy(), x, rtol=1e-4, atol=1e-4)


def test_each_layer_keeps_its_own_state() -> None:
    caches = [data(8, WIDTH) for _ in range(LAYERS)]

    def step(x: Tensor, place: int) -> Tensor:
        for cache in caches:
            cache[place] = x[0] + 1
            x = x + cache.sum(0) * (1 / 8)
        return x

    compiled, place = jit(step), Variable("place", 0, 7)
    expected = np.zeros((LAYERS, 8, WIDTH))
    for at in (2, 5, 2):
        x = np.ones((1, WIDTH))
        for cache in expected:
            cache[at] = x[0] + 1
            x = x + cache.sum(0) / 8
        found = compiled(Tensor.ones(1, WIDTH), place.bind(at))
        np.testing.assert_allclose(found.numpy(), x, rtol=1e-5)
        for cache, wanted in zip(caches, expected, strict=True):
            np.testing.assert_allclose(cache.numpy(), wanted, rtol=1e-5)
