"""F096: Model inputs with bounded sizes. One Plan an entrypoint, whatever the size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygrad import Model, Tensor, Variable, dtypes, nn
from polygrad.engine.counters import counters
from polygrad.errors import ArgumentError, BundleError, CaptureError, ShapeError, StateError
from polygrad.files import jsontext
from polygrad.model import graph, sizes
from polygrad.uop.sizes import clamp

Array = Any
BATCH = ("batch", 1, 32)
_rng = np.random.default_rng(5)
X = _rng.standard_normal((50, 8)).astype(np.float32)
Y = (X @ _rng.standard_normal((8, 1))).astype(np.float32)


class Net:
    def __init__(self) -> None:
        Tensor.manual_seed(1)
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 1)

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": self.last(self.first(x).relu())}


def square(outputs: Any, t: Tensor) -> Tensor:
    loss: Tensor = (outputs["y"] - t).square().mean()
    return loss


def trained() -> Model:
    return Model(Net(), inputs={"x": (BATCH, 8)}, targets={"t": (BATCH, 1)}, loss=square)


def test_every_size_runs_and_compiles_nothing_new(device: str) -> None:
    """F096, F082"""
    model, made = trained(), []
    weights = {n: t.numpy() for n, t in model.state_dict().items()}
    for k in (1, 5, 32, 17):
        hidden = np.maximum(X[:k] @ weights["first.weight"].T + weights["first.bias"], 0)
        wanted = hidden @ weights["last.weight"].T + weights["last.bias"]
        np.testing.assert_allclose(model.forward(x=X[:k])["y"], wanted, rtol=1e-4, atol=1e-5)
        loss = model.call("loss", x=X[:k], t=Y[:k])["loss"]
        np.testing.assert_allclose(loss, np.square(wanted - Y[:k]).mean(), rtol=1e-4)
        made.append(counters.plans_made)
    assert made[0] == made[-1]


def test_tensors_of_any_size_feed_it(device: str) -> None:
    model, n = trained(), Variable("n", 1, 32)
    wanted = model.forward(x=X[:5])["y"]
    for x in (Tensor(X[:5]), Tensor(X)[: n.bind(5)], Tensor(X)[:5]):
        found = model.forward(x=x)["y"]
        assert isinstance(found, Tensor)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


def test_several_axes_shared_and_apart(device: str) -> None:
    """F096: [N, N] and [N, M]"""
    rows, columns = Variable("rows", 1, 8), Variable("columns", 1, 6)
    model = Model(
        lambda q, k: {"s": (q @ k.T).softmax(-1), "mean": q.mean(0), "both": q.cat(q)[1:]},
        inputs={"q": Tensor.empty(rows, 4), "k": (columns, 4)},
        params={},
    )
    loaded = Model.load(model.save())
    for i, j in ((3, 5), (8, 6), (1, 1)):
        q, k = X[:i, :4], X[10 : 10 + j, :4]
        e = np.exp(q @ k.T)
        for one in (model, loaded):
            out = one.forward(q=q, k=k)
            np.testing.assert_allclose(out["s"], e / e.sum(-1, keepdims=True), rtol=1e-4)
            np.testing.assert_allclose(out["mean"], q.mean(0), rtol=1e-4, atol=1e-6)
            np.testing.assert_array_equal(out["both"], np.concatenate([q, q])[1:])


def test_sizes_outside_the_bounds_and_unlike_ones_are_refused(device: str) -> None:
    model = trained()
    with pytest.raises(ShapeError, match=r"'x' is declared float32\[batch\[1..32\], 8\]"):
        model.forward(x=X[:33])
    with pytest.raises(ShapeError, match=r"got shape \(0, 8\)"):
        model.forward(x=X[:0])
    with pytest.raises(ShapeError, match="'batch' is 3 elsewhere in this call"):
        model.call("loss", x=X[:3], t=Y[:4])


def test_a_tensor_of_the_declared_size_needs_a_value_for_it(device: str) -> None:
    """It has the very shape that is declared, and no number of rows."""
    model, n = trained(), Variable(*BATCH)
    for x in (Tensor.empty(n, 8), Tensor.ones(n, 8)):
        with pytest.raises(StateError, match=r"the variable 'batch' has no value: bind one"):
            model.forward(x=x)
    assert model.forward(x=Tensor.ones(n.bind(3), 8))["y"].numpy().shape == (3, 1)


def test_one_name_has_one_pair_of_bounds() -> None:
    with pytest.raises(ArgumentError, match="'batch' is declared between 1 and 32, and between"):
        Model(lambda a, b: a.sum() + b.sum(), inputs={"a": (BATCH,), "b": (("batch", 1, 8),)})
    with pytest.raises(ArgumentError, match="a size is a number or a Variable"):
        Model(lambda a: a, inputs={"a": Tensor.empty(Variable("n", 1, 4) * 2)})


def test_a_variable_from_outside_is_refused() -> None:
    n = Variable("n", 1, 4)
    x = Tensor(X).realize()
    with pytest.raises(CaptureError, match="the variable 'n', which no input has"):
        Model(lambda a: a + x[: n.bind(2)].sum(), inputs={"a": (3,)}, params={"x": x})


def losses(remainder: Any, batch: int, epochs: int) -> list[float]:
    """Of the same training, step by step in numpy float64 with plain gradient descent."""
    w = {n: t.numpy().astype(float) for n, t in trained().state_dict().items()}
    found = []
    for _ in range(epochs):
        for start in range(0, 50, batch):
            x, t = X[start : start + batch].astype(float), Y[start : start + batch]
            if len(x) < batch and remainder == "drop":
                continue
            z = x @ w["first.weight"].T + w["first.bias"]
            h = np.maximum(z, 0)
            d = h @ w["last.weight"].T + w["last.bias"] - t
            found.append(float(np.square(d).mean()))
            g = 2 * d / len(x)
            back = (g @ w["last.weight"]) * (z > 0)
            w["last.weight"] -= 0.02 * g.T @ h
            w["last.bias"] -= 0.02 * g.sum(0)
            w["first.weight"] -= 0.02 * back.T @ x
            w["first.bias"] -= 0.02 * back.sum(0)
    return found


@pytest.mark.parametrize("remainder", ["keep", "drop"])
def test_fit_keeps_a_smaller_last_batch(remainder: Any, device: str) -> None:
    """F106 with F096"""
    history = trained().fit(
        {"x": X, "t": Y},
        epochs=3,
        batch_size=16,
        optimizer="sgd",
        lr=0.02,
        remainder=remainder,
        progress=False,
        validation={"x": X[:20], "t": Y[:20]},
    )
    assert len(history) == (12 if remainder == "keep" else 9)
    np.testing.assert_allclose(list(history), losses(remainder, 16, 3), rtol=1e-3)


def test_a_size_that_a_batch_cannot_have_is_refused(device: str) -> None:
    model = trained()
    model.set_optimizer("sgd", lr=0.1)
    with pytest.raises(ArgumentError, match="batch_size=40, but 'x' is declared"):
        model.fit({"x": X, "t": Y}, batch_size=40, progress=False)
    with pytest.raises(ArgumentError, match="leave 2 over in batches of 16"):
        model.fit({"x": X, "t": Y}, batch_size=16, progress=False)


def test_a_bundle_carries_its_variables(device: str) -> None:
    model = trained()
    data = model.save()
    loaded = Model.load(data)
    assert loaded.entrypoints() == model.entrypoints()
    assert "float32[batch[1..32], 8]" in loaded.summary()
    for k in (3, 31):
        np.testing.assert_array_equal(loaded.forward(x=X[:k])["y"], model.forward(x=X[:k])["y"])
    history = loaded.fit({"x": X, "t": Y}, 1, 16, "sgd", 0.01, "keep", progress=False)
    assert len(history) == 4
    assert loaded.save() == loaded.save()


def test_a_model_moves_with_its_sizes(device: str) -> None:
    model = trained()
    wanted = model.forward(x=X[:6])["y"]
    model.place("cpu" if device == "interp" else "interp")
    np.testing.assert_allclose(model.forward(x=X[:6])["y"], wanted, rtol=1e-5, atol=1e-6)


def test_a_reader_must_know_variables() -> None:
    assert b'"requires":["variables"]' in trained().save()
    fixed = Model(Net(), inputs={"x": (4, 8)})
    assert b'"requires":[]' in fixed.save()


# ---- sizes as JSON


n, m = Variable("n", 1, 32), Variable("m", 0, 8)


@pytest.mark.parametrize(
    "size", [7, n, 2 * n + 1, n * m, (n + 3) // 2, n * 5 % 3, clamp(n, 2, 8), n - 1, 3 * n * n + n]
)
def test_a_size_comes_back_as_it_was(size: int) -> None:
    assert sizes.read(sizes.write(size)) == size


@pytest.mark.parametrize(
    "value",
    [
        -1,
        True,
        1.0,
        "n",
        None,
        [],
        ["n", 1, 32],
        ["VARIABLE", "n", 1],
        ["VARIABLE", "", 1, 32],
        ["VARIABLE", 3, 1, 32],
        ["VARIABLE", "n", 4, 4],
        ["VARIABLE", "n", -1, 4],
        ["VARIABLE", "n", 1, 1 << 40],
        ["VARIABLE", "n", 1, True],
        ["VARIABLE", "n", 1, 32, 5],
        ["SUB", ["VARIABLE", "n", 1, 32], 1],
        ["ADD", ["VARIABLE", "n", 1, 32], -4],
        ["ADD", 1, 2],
        ["MUL", 2, ["VARIABLE", "n", 1, 32]],
        ["ADD", ["VARIABLE", "n", 1, 32]],
        ["EXP", 1, 2],
        1 << 70,
    ],
)
def test_any_other_spelling_of_a_size_is_refused(value: Any) -> None:
    assert sizes.read(value) is None


@pytest.mark.parametrize("bounds", ["1,33", "0,32"])
def test_a_size_that_no_input_has_is_refused(bounds: str, device: str) -> None:
    model = trained()
    names = {leaf: ["input", k] for k, leaf in model.captured.inputs.items()}
    names |= {s.symbol: ["state", k] for k, s in model.states.items()}
    text = jsontext.dumps(graph.write(model.captured.entrypoints, names)).decode()
    size = '"SIZE","index",[],["VARIABLE","batch",'
    assert size + "1,32]" in text
    wrong = text.replace(size + "1,32]", f"{size}{bounds}]").encode()
    leaves = {
        "input": model.captured.inputs,
        "state": {k: s.symbol for k, s in model.states.items()},
    }
    reader = graph.Reader(BundleError, lambda kind, name: leaves.get(kind, {}).get(name))
    with pytest.raises(BundleError, match="'batch' that no input has"):
        reader.read(jsontext.loads(wrong, BundleError))


def test_dtypes_of_bounded_inputs(device: str) -> None:
    model = Model(lambda i: i * 2, inputs={"i": ((BATCH,), dtypes.int32)})
    np.testing.assert_array_equal(model.forward(i=[1, 2, 3])["output"], [2, 4, 6])
