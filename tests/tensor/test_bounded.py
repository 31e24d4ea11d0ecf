"""F096: axes whose size is a Variable. One compilation runs every size, and numpy is the oracle."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import BoundVariable, Tensor, UOp, Variable
from polygrad.engine.counters import counters
from polygrad.errors import ArgumentError, IndexError_, ShapeError, StateError, VaryingSize
from polygrad.testing.evaluate import judged

Array = Any
SIZES = (5, 17, 1, 32, 2)
n, m, at = Variable("n", 1, 32), Variable("m", 1, 16), Variable("at", 0, 28)

_rng = np.random.default_rng(7)
A = _rng.standard_normal((32, 8)).astype(np.float32)
B = _rng.standard_normal((2, 3, 32, 8)).astype(np.float32)
W = _rng.standard_normal((8, 6)).astype(np.float32)
IDS = _rng.integers(0, 32, 16).astype(np.int32)


class Data:
    """The same arrays on the device of the test, realised once, so that graphs are alike."""

    def __init__(self) -> None:
        self.a, self.b = Tensor(A).realize(), Tensor(B).realize()
        self.w, self.ids = Tensor(W).realize(), Tensor(IDS).realize()


def softmax(a: Array, axis: int = -1) -> Array:
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attention(q: Array) -> Array:
    k = q.shape[-2]
    scores = np.where(np.tri(k, dtype=bool), q @ q.swapaxes(-1, -2) / np.sqrt(8), -np.inf)
    return softmax(scores) @ q


def masked(q: Array, mask: Array) -> Array:
    scores = np.where(mask, q @ q.swapaxes(-1, -2) / np.sqrt(8), -np.inf)
    return softmax(scores) @ q


def half(k: int) -> int:
    return (k + 1) // 2


Case = tuple[Callable[[Data, int], Tensor], Callable[[int], Array]]


def rows(f: Callable[[Tensor], Tensor], g: Callable[[Array], Array]) -> Case:
    """A case over the first k rows of `a`."""
    return (lambda d, k: f(d.a[: n.bind(k)])), (lambda k: g(A[:k]))


CASES: dict[str, Case] = {
    "elementwise": rows(lambda x: (x * 2).exp() - x, lambda a: np.exp(a * 2) - a),
    "where": rows(lambda x: (x > 0).where(x, -1), lambda a: np.where(a > 0, a, -1)),
    "cast": rows(lambda x: x.cast("int32"), lambda a: a.astype(np.int32)),
    "softmax over it": rows(lambda x: x.softmax(0), lambda a: softmax(a, 0)),
    "softmax beside it": rows(lambda x: (x * 2).softmax(-1), lambda a: softmax(a * 2)),
    "log_softmax": rows(lambda x: x.log_softmax(0), lambda a: np.log(softmax(a, 0))),
    "sum": rows(lambda x: x.sum(0), lambda a: a.sum(0)),
    "sum of all": rows(lambda x: x.sum(), lambda a: a.sum()),
    "sum beside": rows(lambda x: x.sum(1), lambda a: a.sum(1)),
    "prod": rows(lambda x: x.prod(0), lambda a: a.prod(0)),
    "mean": rows(lambda x: x.mean(0), lambda a: a.mean(0)),
    "mean of all": rows(lambda x: x.mean(), lambda a: a.mean()),
    "max": rows(lambda x: x.max(0), lambda a: a.max(0)),
    "min": rows(lambda x: x.min(0), lambda a: a.min(0)),
    "argmax": rows(lambda x: x.argmax(0), lambda a: a.argmax(0)),
    "argmin of all": rows(lambda x: x.argmin(), lambda a: a.argmin()),
    "logsumexp": rows(lambda x: x.logsumexp(0), lambda a: np.log(np.exp(a).sum(0))),
    "var": rows(lambda x: x.var(0, correction=0), lambda a: a.var(0)),
    "std": rows(lambda x: x.std(0, correction=0), lambda a: a.std(0)),
    "norm": rows(lambda x: x.norm(axis=0), lambda a: np.linalg.norm(a, axis=0)),
    "any": rows(lambda x: (x > 1).any(0), lambda a: (a > 1).any(0)),
    "divided by its size": rows(lambda x: x.sum(0) / x.shape[0], lambda a: a.mean(0)),
    "matmul, M": (lambda d, k: d.a[: n.bind(k)] @ d.w, lambda k: A[:k] @ W),
    "matmul, N": (
        lambda d, k: d.w.T @ d.a[: n.bind(k)].T,
        lambda k: W.T @ A[:k].T,
    ),
    "matmul, K": rows(lambda x: x.T @ x, lambda a: a.T @ a),
    "matmul, M and N": rows(lambda x: x @ x.T, lambda a: a @ a.T),
    "einsum": (
        lambda d, k: Tensor.einsum("ij,jk->k", d.a[: n.bind(k)], d.w),
        lambda k: (A[:k] @ W).sum(0),
    ),
    "attention": (
        lambda d, k: d.b[:, :, : n.bind(k)].scaled_dot_product_attention(
            d.b[:, :, : n.bind(k)], d.b[:, :, : n.bind(k)], is_causal=True
        ),
        lambda k: attention(B[:, :, :k]),
    ),
    "attention with a mask": (
        lambda d, k: d.b[:, :, : n.bind(k)].scaled_dot_product_attention(
            d.b[:, :, : n.bind(k)],
            d.b[:, :, : n.bind(k)],
            attn_mask=d.a[: n.bind(k), :1] <= d.a[: n.bind(k), :1].T,
        ),
        lambda k: masked(B[:, :, :k], A[:k, :1] <= A[:k, :1].T),
    ),
    "transposed and flat": rows(lambda x: x.T.flatten() + 1, lambda a: a.T.flatten() + 1),
    "flattened, split": rows(lambda x: x.T.reshape(4, -1) * 1, lambda a: a.T.reshape(4, -1)),
    "flattened with others": (
        lambda d, k: d.b[:, :, : n.bind(k)].transpose(1, 2).reshape(-1, 24).sum(1),
        lambda k: B[:, :, :k].transpose(0, 2, 1, 3).reshape(-1, 24).sum(1),
    ),
    "expanded": rows(
        lambda x: x.unsqueeze(1).expand(-1, 3, -1).reshape(-1, 8), lambda a: np.repeat(a, 3, 0)
    ),
    "two of them": (
        lambda d, k: (d.a[: n.bind(k), None] - d.a[None, : m.bind(half(k))]).square().sum(-1),
        lambda k: np.square(A[:k, None] - A[None, : half(k)]).sum(-1),
    ),
    "two of them, flat": (
        lambda d, k: (
            (d.a[: n.bind(k), None] - d.a[None, : m.bind(half(k))])
            .transpose(0, 1)
            .contiguous()
            .flatten()
            + 1
        ),
        lambda k: (A[:k, None] - A[None, : half(k)]).swapaxes(0, 1).flatten() + 1,
    ),
    "cat": (
        lambda d, k: d.a[: n.bind(k)].cat(d.a[:3], d.a[: n.bind(k)]),
        lambda k: np.concatenate([A[:k], A[:3], A[:k]]),
    ),
    "stack": rows(lambda x: Tensor.stack(x, x * 2, axis=1), lambda a: np.stack([a, a * 2], 1)),
    "pad": rows(
        lambda x: x.pad(((1, 2), (0, 0)), value=3),
        lambda a: np.pad(a, ((1, 2), (0, 0)), constant_values=3),
    ),
    "pad_to": rows(lambda x: x.pad_to(32, None), lambda a: np.pad(a, ((0, 32 - len(a)), (0, 0)))),
    "shrink": rows(lambda x: x.shrink([(0, x.shape[0]), (2, 5)]), lambda a: a[:, 2:5]),
    "reversed": rows(lambda x: x[::-1], lambda a: a[::-1]),
    "first rows": rows(lambda x: x[:4], lambda a: a[:4]),
    "last rows": rows(lambda x: x[-3:], lambda a: a[-3:]),
    "last row": rows(lambda x: x[-1], lambda a: a[-1]),
    "every other": rows(lambda x: x[1::2], lambda a: a[1::2]),
    "perhaps empty": rows(lambda x: x[1:] - x[:-1], lambda a: a[1:] - a[:-1]),
    "sum of perhaps nothing": rows(lambda x: x[1:].sum(0), lambda a: a[1:].sum(0)),
    "triangle": rows(lambda x: (x @ x.T).tril(), lambda a: np.tril(a @ a.T)),
    "running sum": rows(lambda x: x.cumsum(0), lambda a: a.cumsum(0)),
    "running sum beside": rows(lambda x: x.cumsum(1), lambda a: a.cumsum(1)),
    "list index": rows(lambda x: x[[0, 0, -1]], lambda a: a[[0, 0, -1]]),
    "embedding": (lambda d, k: d.a[d.ids[: m.bind(half(k))]], lambda k: A[IDS[: half(k)]]),
    "gather in it": (
        lambda d, k: d.a[: n.bind(k)][d.ids[: m.bind(half(k))] % 1],
        lambda k: A[:k][IDS[: half(k)] % 1],
    ),
    "one_hot": (
        lambda d, k: d.ids[: m.bind(half(k))].one_hot(32),
        lambda k: np.eye(32)[IDS[: half(k)]],
    ),
    "arange": (lambda d, k: Tensor.arange(n.bind(k)), lambda k: np.arange(k)),
    "arange from it": (
        lambda d, k: Tensor.arange(n.bind(k), 40, 3),
        lambda k: np.arange(k, 40, 3),
    ),
    "ones": (lambda d, k: Tensor.ones(n.bind(k), 3) * 2, lambda k: np.full((k, 3), 2)),
    "index": (
        lambda d, k: d.a[at.bind(k - 1 if k < 30 else 3)],
        lambda k: A[k - 1 if k < 30 else 3],
    ),
    "start": (
        lambda d, k: d.a[at.bind(min(k, 28)) : at + 4],
        lambda k: A[min(k, 28) : min(k, 28) + 4],
    ),
    "from it on": (lambda d, k: d.a[n.bind(k) :] * 1, lambda k: A[k:]),
}


def close(got: Tensor, wanted: Array) -> None:
    found = got.numpy()
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_every_size_is_right_and_compiled_once(name: str, device: str) -> None:
    """F096"""
    make, wanted = CASES[name]
    data = Data()
    made = []
    for k in SIZES:
        close(make(data, k), wanted(k))
        made.append(counters.plans_made)
    assert made[0] == made[-1]


def test_shape_names_the_variable_bounds_and_value(device: str) -> None:
    """F096"""
    y = (Tensor(A)[: n.bind(5)] * 2).softmax(-1)
    assert str(y.shape) == "(n[1..32]=5, 8)"
    assert "n[1..32]=5" in repr(y)
    assert y.numpy().shape == (5, 8) and len(y) == 5
    assert str(Tensor(A)[: n + 0].shape[0]) == "n[1..32]"


def test_max_shape_and_max_numel(device: str) -> None:
    """F078"""
    y = Tensor(A)[: n.bind(5)]
    assert y.max_shape == (32, 8) and y.max_numel() == 256
    assert Tensor(A).max_shape == (32, 8) and Tensor(A).max_numel() == Tensor(A).numel()


def test_sizes_compute_like_integers() -> None:
    b = n.bind(5)
    assert b - b == 0 and (8 * b) // b == 8 and (8 * b) % 4 == 0
    assert isinstance(b, BoundVariable) and int(2 * b + 1) == 11
    assert b == n.bind(5) and b != n.bind(6) and b != n and b.variable == n and b.value == 5
    assert max(b, 0) == b and min(b, 40) == b
    assert (b.min, b.max) == (1, 32) and b.unbind() == (n, 5)


def test_arithmetic_over_bounds_of_the_value_alone(device: str) -> None:
    """A Variable over one value is that number."""
    assert Tensor(A)[: Variable("k", 4, 4)].shape == (4, 8)


def gradients(k: int) -> tuple[Array, Array]:
    """d of sum(tanh(a[:k] @ w)^2) in a and w."""
    z = np.tanh(A[:k].astype(float) @ W)
    g = 2 * z * (1 - z * z)
    full = np.zeros((32, 8))
    full[:k] = g @ W.T
    return full, A[:k].T @ g


def test_gradients_pass_through_a_bounded_axis(device: str) -> None:
    """F096"""
    made = []
    for k in SIZES:
        x, w = Tensor(A, requires_grad=True), Tensor(W, requires_grad=True)
        (x[: n.bind(k)] @ w).tanh().square().sum().backward()
        assert x.grad is not None and w.grad is not None
        first, second = gradients(k)
        close(x.grad, first)
        close(w.grad, second)
        made.append(counters.plans_made)
    assert made[0] == made[-1]


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: x.softmax(0).square().mean(),
        lambda x: x.var(0).sum(),
        lambda x: x.max(0).sum(),
        lambda x: x.cat(x * 2).pad(((1, 0), (0, 0))).square().sum(),
        lambda x: x.logsumexp(0).sum() + x[::2].sum() + x[-1].sum(),
        lambda x: x.layernorm().exp().sum(),
        lambda x: (x @ x.T).softmax(-1).square().sum(),
        lambda x: x[Tensor([0, 0, 1])].square().sum(),
        lambda x: x.flatten().reshape(-1, 4).sum(0).square().sum(),
        lambda x: x.cumsum(0).square().mean(),
    ],
)
def test_gradients_are_those_of_the_fixed_size(
    loss: Callable[[Tensor], Tensor], device: str
) -> None:
    """F096: an axis of k by a Variable and an axis of k have one gradient."""
    for k in (2, 9, 32):
        x, y = Tensor(A, requires_grad=True), Tensor(A, requires_grad=True)
        loss(x[: n.bind(k)]).backward()
        loss(y[:k]).backward()
        assert x.grad is not None and y.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_writing_into_a_bounded_part(device: str) -> None:
    """F096: a cache filled at a position that varies."""
    made = []
    for k in (3, 9, 28):
        kept, wanted = Tensor(A.copy()).realize(), A.copy()
        kept[: n.bind(k)] = kept[: n.bind(k)] + 1
        kept[at.bind(k)] = 7
        kept[at.bind(k) : at + 2, 1:3] = 3
        wanted[:k] += 1
        wanted[k] = 7
        wanted[k : k + 2, 1:3] = 3
        close(kept, wanted)
        made.append(counters.plans_made)
    assert made[0] == made[-1]


def test_a_realized_tensor_keeps_its_size(device: str) -> None:
    x = Tensor(A)[: n.bind(5)].contiguous().realize()
    y = (x + 1).realize()
    close(y.sum(0), (A[:5] + 1).sum(0))
    close(x.T.contiguous().realize() * 2, A[:5].T * 2)


def test_random_draws_do_not_depend_on_the_size(device: str) -> None:
    found = []
    for k in (5, 17):
        Tensor.manual_seed(3)
        first = Tensor.rand(n.bind(k), 8).numpy()
        found.append((first, Tensor.rand(4).numpy()))
    np.testing.assert_array_equal(found[0][0], found[1][0][:5])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_assigning_to_a_bounded_tensor_keeps_old_readers(device: str) -> None:
    made = []
    for k in SIZES:
        x = Tensor(A)[: n.bind(k)].contiguous().realize()
        reader = x * 2
        x.assign(x + 1)
        x[0] = 5
        wanted = A[:k] + 1
        wanted[0] = 5
        close(x, wanted)
        close(reader, A[:k] * 2)
        made.append(counters.plans_made)
    assert made[0] == made[-1]


def test_copies_pickles_and_devices(device: str) -> None:
    x = Tensor(A)[: n.bind(5)]
    for same in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.clone(), x.to("interp")):
        assert same.shape == x.shape
        close(same, A[:5])


# ---- refusals


def test_only_equal_expressions_fit(device: str) -> None:
    x = Tensor(A)
    with pytest.raises(ShapeError, match=r"n\[1..32\]=3 and m\[1..16\]=3"):
        x[: n.bind(3)] + x[: m.bind(3)]
    with pytest.raises(ShapeError, match=r"n\[1..32\]=3 and n\[1..32\]=4"):
        x[: n.bind(3)] + x[: n.bind(4)]
    with pytest.raises(ShapeError, match=r"n\[1..32\]=3 and 3"):
        x[: n.bind(3)] + x[:3]


def test_a_variable_has_one_value_in_a_run(device: str) -> None:
    x = Tensor(A).realize()
    with pytest.raises(ArgumentError, match="'n' is bound to 3 and to 4"):
        Tensor.realize(x[: n.bind(3)] + 0, x[: n.bind(4)] + 0)
    with pytest.raises(ArgumentError, match="'n' is bound to 3 and to 4"):
        (x[: n.bind(3)].sum(0) + x[: n.bind(4)].sum(0)).numpy()
    close(x[: n.bind(3)].sum(0).realize() + x[: n.bind(4)].sum(0), A[:3].sum(0) + A[:4].sum(0))


def test_two_variables_of_one_name_are_refused(device: str) -> None:
    x, other = Tensor(A), Variable("n", 1, 16)
    with pytest.raises(ArgumentError, match="two variables of one graph are named 'n'"):
        (x[: n.bind(3)].sum(0) + x[: other.bind(3)].sum(0)).numpy()


def test_an_unbound_variable_cannot_be_read(device: str) -> None:
    for read in (lambda t: t.numpy(), lambda t: t.tolist(), lambda t: t.sum(0).numpy()):
        with pytest.raises(StateError, match=r"'n' has no value: bind one, as n.bind\(5\)"):
            read(Tensor(A)[:n])


def test_values_stay_within_the_bounds() -> None:
    for value in (0, 33, -1):
        with pytest.raises(ValueError, match=f"'n' is between 1 and 32, not {value}"):
            n.bind(value)
    with pytest.raises(ArgumentError, match="a value is an integer"):
        n.bind(1.5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="0 <= min <= max"):
        Variable("k", 3, 2)


def test_an_index_that_may_lie_outside_is_refused(device: str) -> None:
    x = Tensor(A)
    for read in (
        lambda: x[Variable("q", 0, 40).bind(2)],
        lambda: x[: n.bind(9)][at.bind(2)],
        lambda: x[: n.bind(9)][3],
        lambda: x[: n.bind(9)][[0, 3]],
    ):
        with pytest.raises(IndexError_, match="may lie outside axis 0"):
            read()


def test_an_extreme_of_perhaps_nothing_is_refused(device: str) -> None:
    with pytest.raises(ShapeError, match="which may be none"):
        Tensor(A)[: n.bind(4)][1:].max(0)


REFUSING: dict[str, Callable[[Tensor], Any]] = {
    "sort": lambda x: x.sort(0),
    "topk": lambda x: x.topk(1, 0),
    "median": lambda x: x.median(0),
    "unique": lambda x: x.unique(),
    "nonzero": lambda x: x.nonzero(),
    "__iter__": lambda x: list(x),
    "split": lambda x: x.split(2),
    "qr": lambda x: x.qr(),
    "svd": lambda x: x.svd(),
    "det": lambda x: (x @ x.T).det(),
    "cholesky": lambda x: (x @ x.T).cholesky(),
    "conv1d": lambda x: x.T.unsqueeze(0).conv1d(x.T.unsqueeze(0)),
}


@pytest.mark.parametrize("name", REFUSING)
def test_what_needs_a_constant_size_says_so(name: str, device: str) -> None:
    """Never a wrong number: the error names the operation, the axis and a way out."""
    with pytest.raises(VaryingSize, match=rf"^{name.strip('_')}: ax.*pad_to"):
        REFUSING[name](Tensor(A)[: n.bind(5)])


def test_a_kernel_of_ones_own_needs_constant_sizes(device: str) -> None:
    def double(out: Any, x: Any) -> UOp:
        i = UOp.range(out.numel(), 0)
        return out.flatten()[i].store(x.flatten()[i] * 2).end(i).sink()

    x = Tensor(A)[: n.bind(5)]
    with pytest.raises(VaryingSize, match="^custom_kernel: axis 0"):
        Tensor.empty(5, 8).custom_kernel(x, fxn=double)


@pytest.mark.parametrize("name", ["softmax over it", "attention", "cat", "mean", "two of them"])
def test_the_judge_takes_sizes_at_their_values(name: str, device: str) -> None:
    made = CASES[name][0](Data(), 7)
    np.testing.assert_allclose(made.numpy(), judged(made), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("bounds", [(17, 18), (16, 17), (1, 15), (0, 40), (64, 65), (31, 33)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_vectors_of_every_width_and_what_is_left_over(
    bounds: tuple[int, int], dtype: str, device: str
) -> None:
    size, data = Variable("size", *bounds), np.arange(1.0, 81).astype(dtype)
    x = Tensor(np.stack([data, data[::-1]])).realize()
    for k in sorted({max(bounds[0], 1), (sum(bounds) + 1) // 2, bounds[1]}):
        y, a = x[:, : size.bind(k)], np.stack([data[:k], data[::-1][:k]])
        np.testing.assert_array_equal((y + 1).contiguous().numpy(), a + 1)
        np.testing.assert_array_equal(y.T.contiguous().numpy(), a.T)
        np.testing.assert_array_equal(y.sum(1).numpy(), a.astype("int64").sum(1))
        np.testing.assert_array_equal(y.max(0).numpy(), a.max(0))
        np.testing.assert_array_equal((y @ y.T).numpy(), a.astype("int64") @ a.astype("int64").T)


def test_numbers_and_places_vary_beside_sizes(device: str) -> None:
    """Holes of a graph (a factor, the start of a slice, where a part is put) and its sizes."""
    whole = np.stack([A, A + 1, A * 2, A - 3])
    x, made = Tensor(whole).realize(), []
    for i, k in ((0, 5), (1, 9), (2, 3), (3, 17), (0, 32), (2, 1)):
        part = x[i, : n.bind(k), 2 + i : 4 + i] * (i + 0.5)
        close(part, whole[i, :k, 2 + i : 4 + i] * (i + 0.5))
        padded = x[i, : n.bind(k)].pad(((i, 3 - i), (0, 0)))
        close(padded, np.pad(whole[i, :k], ((i, 3 - i), (0, 0))))
        kept = Tensor.zeros(4, 32, 8).contiguous().realize()
        kept[i, : n.bind(k)] = x[i, : n.bind(k)]
        wanted = np.zeros((4, 32, 8))
        wanted[i, :k] = whole[i, :k]
        close(kept, wanted)
        made.append(counters.plans_made)
    assert made[3] == made[-1]
