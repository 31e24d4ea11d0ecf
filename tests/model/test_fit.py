"""Training a Model (F104-F115, F122)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from polygrad import Model, Tensor, nn
from polygrad.engine.counters import counters
from polygrad.errors import (
    ArgumentError,
    DTypeError,
    PackageMissing,
    PolygradError,
    ShapeError,
    StateError,
    UnknownName,
)
from polygrad.model import History, Step
from polygrad.nn import optim

Rng = np.random.Generator
Arrays = dict[str, Any]


class Line:
    def __init__(self) -> None:
        self.w, self.b = Tensor([0.0]), Tensor([0.0])

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        return {"prediction": x * self.w + self.b}


def squares(outputs: dict[str, Tensor], y: Tensor) -> Tensor:
    return (outputs["prediction"] - y).square().mean()


def line(n: int = 5) -> Model:
    return Model(
        Line(), inputs={"x": Tensor.empty(n)}, targets={"y": Tensor.empty(n)}, loss=squares
    )


X = np.arange(1.0, 6.0, dtype=np.float32)
DATA = {"x": X, "y": 3 * X + 2}


def test_the_guides_line_is_found(device: str) -> None:
    """F104: y = 3x + 2 gives about [11, 14, 17, 20, 23]."""
    model = line()
    history = model.fit(DATA, epochs=500, optimizer="sgd", lr=0.05)
    got = model.forward(x=np.arange(3.0, 8.0, dtype=np.float32))["prediction"]
    np.testing.assert_allclose(got, [11, 14, 17, 20, 23], atol=0.05)
    assert history[-1] < 1e-3 < history[0]


def by_hand(batches: list[tuple[Any, Any]], lr: float) -> tuple[list[float], float, float]:
    """Losses and parameters of plain gradient descent in float64."""
    w = b = 0.0
    losses = []
    for x, y in batches:
        e = w * x + b - y
        losses.append(float((e * e).mean()))
        w, b = w - lr * 2 * (e * x).mean(), b - lr * 2 * e.mean()
    return losses, w, b


def test_samples_are_visited_in_order_one_loss_per_step(device: str) -> None:
    """F105, F106."""
    x = np.linspace(-1, 1, 12).astype(np.float32)
    data = {"x": x, "y": x * 2 + 1}
    model = line(4)
    history = model.fit(data, epochs=2, batch_size=4, optimizer="sgd", lr=0.1)
    parts = [(data["x"][i : i + 4], data["y"][i : i + 4]) for i in (0, 4, 8)]
    losses, w, b = by_hand([*parts, *parts], 0.1)
    assert isinstance(history, History)
    assert len(history) == 6
    np.testing.assert_allclose(history, losses, rtol=1e-5)
    np.testing.assert_allclose(model.read_buffer("w"), [w], rtol=1e-5)
    np.testing.assert_allclose(model.read_buffer("b"), [b], rtol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_fit_makes_the_steps_of_the_eager_optimizer(optimizer: str, rng: Rng, device: str) -> None:
    x, y = rng.standard_normal((2, 5)).astype(np.float32)
    model = line()
    model.fit({"x": x, "y": y}, epochs=4, optimizer=optimizer, lr=0.01)
    from polygrad import Context

    net = Line()
    for t in (net.w, net.b):
        t.requires_grad_(True)
    eager = optim.OPTIMIZERS[optimizer]([net.w, net.b], lr=0.01)
    with Context(TRAINING=1):
        for _ in range(4):
            eager.zero_grad()
            squares(net(Tensor(x)), Tensor(y)).backward()
            eager.step()
    np.testing.assert_allclose(model.read_buffer("w"), net.w.numpy(), rtol=1e-5)
    np.testing.assert_allclose(model.read_buffer("b"), net.b.numpy(), rtol=1e-5)


def test_a_step_is_one_plan_and_later_steps_compile_nothing() -> None:
    model = line()
    model.fit(DATA, epochs=1, optimizer="adam", lr=0.1)
    before = (counters.kernels_compiled, counters.plans_made, counters.runs)
    model.fit(DATA, epochs=10, optimizer="adam", lr=0.05)
    model.set_learning_rate(0.01)
    model.set_learning_rate(nn.lr.cosine_decay(0.1, 0.0, 10))
    model.fit(DATA, epochs=3)
    after = (counters.kernels_compiled, counters.plans_made, counters.runs)
    assert after == (before[0], before[1], before[2] + 13)


def test_the_rate_changes_and_the_moments_stay() -> None:
    """F112."""
    one, two = line(), line()
    one.fit(DATA, epochs=6, optimizer="adam", lr=0.1)
    two.fit(DATA, epochs=3, optimizer="adam", lr=0.1)
    two.fit(DATA, epochs=3, optimizer="adam", lr=0.1)
    assert one.read_buffer("w") == two.read_buffer("w")
    two.set_learning_rate(0.0)
    two.fit(DATA, epochs=3)
    assert one.read_buffer("w") == two.read_buffer("w")


def test_a_schedule_gives_the_rate_of_each_step() -> None:
    model = line()
    model.fit(DATA, epochs=3, optimizer="sgd", lr=nn.lr.multi_step(0.01, [1], 0.0))
    _, w, _ = by_hand([(X, 3 * X + 2)], 0.01)
    np.testing.assert_allclose(model.read_buffer("w"), [w], rtol=1e-5)


def test_the_rate_may_be_a_number_of_numpy() -> None:
    model = line()
    model.fit(DATA, optimizer="sgd", lr=np.float32(0.5))
    assert Model.load(model.save()).optimizer_config()["lr"] == 0.5  # type: ignore[index]


def test_an_optimizer_object_with_its_options() -> None:
    model = line()
    model.fit(DATA, epochs=2, optimizer=optim.SGD(lr=0.01, momentum=0.9))
    assert [n for n in model.states if n.startswith("optimizer.")] == [
        "optimizer.momentum.w",
        "optimizer.momentum.b",
    ]


def test_set_optimizer_then_single_steps() -> None:
    """F111."""
    model = line()
    model.set_optimizer("sgd", lr=0.05)
    losses = [model.train_step(DATA) for _ in range(3)]
    assert losses == list(line().fit(DATA, epochs=3, optimizer="sgd", lr=0.05))


def test_single_steps_read_tensors_where_they_are(device: str) -> None:
    """F111: the same losses as of arrays; of another dtype they are cast as arrays are."""
    model, other = line(), line()
    for trained in (model, other):
        trained.set_optimizer("sgd", lr=0.05)
    tensors = {n: Tensor(v).realize() for n, v in DATA.items()}
    tensors["x"] = tensors["x"].cast("float16")
    losses = [model.train_step(tensors) for _ in range(3)]
    assert losses == [other.train_step(DATA) for _ in range(3)]
    np.testing.assert_array_equal(tensors["y"].numpy(), DATA["y"])


def test_a_parameter_may_be_the_batch_that_it_is_trained_on() -> None:
    """What a step writes is read as it was before."""
    model, other = line(1), line(1)
    for trained in (model, other):
        trained.set_optimizer("sgd", lr=0.05)
    for _ in range(3):
        batch = {n: other.states[n].tensor.numpy() for n in ("w", "b")}
        mine = model.train_step(x=model.states["w"].tensor, y=model.states["b"].tensor + 1)
        assert mine == other.train_step(x=batch["w"], y=batch["b"] + 1)
        for name in ("w", "b"):
            now = (m.states[name].tensor.numpy() for m in (model, other))
            np.testing.assert_array_equal(*now)


def test_a_step_on_the_wrong_batch_leaves_the_model_as_it_was() -> None:
    model = line()
    model.set_optimizer("adam", lr=0.05)
    for wrong in ({"x": X[:2], "y": X}, {"x": X}, {"x": X, "y": X, "z": X}):
        with pytest.raises((ShapeError, ArgumentError)):
            model.train_step(wrong)
    assert list(model.states) == ["w", "b"] and model.optimizer_config()["steps"] == 0


def test_an_incomplete_batch_is_dropped_when_asked() -> None:
    """F107."""
    data = {k: np.resize(v, 12) for k, v in DATA.items()}
    assert len(line().fit(data, epochs=2, batch_size=5, remainder="drop", optimizer="sgd")) == 4


def test_shuffling_visits_every_sample_once_in_an_order_of_its_seed() -> None:
    x = np.arange(8, dtype=np.float32)

    def run(**options: Any) -> tuple[list[float], Any]:
        seen: Any = Model(
            lambda x: x,
            inputs={"x": (2,)},
            targets={"y": (2,)},
            loss=lambda o, y: (y * w).sum(),
            params={"w": (w := Tensor([0.0]))},
        )
        return list(seen.fit({"x": x, "y": x}, batch_size=2, optimizer="sgd", **options)), seen

    first, _ = run(shuffle=3, lr=1.0)
    again, _ = run(shuffle=3, lr=1.0)
    other, _ = run(shuffle=4, lr=1.0)
    assert first == again != other
    # the loss's gradient is the batch's sum, so -w at the end is the sum of what was visited
    assert -run(shuffle=3, lr=1.0)[1].read_buffer("w")[0] == x.sum()


def test_batches_may_come_from_an_iterable() -> None:
    model = line()
    history = model.fit([DATA, DATA], epochs=2, optimizer="sgd", lr=0.01)
    assert len(history) == 4

    def generate() -> Iterator[Arrays]:
        yield DATA

    assert len(model.fit(generate())) == 1
    with pytest.raises(ArgumentError, match="a generator gives its batches once"):
        model.fit(generate(), epochs=2)


def test_tensors_and_host_arrays_mix(device: str) -> None:
    """F109."""
    mixed = {"x": Tensor(X), "y": [float(v) for v in 3 * X + 2]}
    assert list(line().fit(mixed, epochs=2, optimizer="sgd", lr=0.01)) == list(
        line().fit(DATA, epochs=2, optimizer="sgd", lr=0.01)
    )


def test_ints_and_doubles_are_converted_to_the_declared_type() -> None:
    data = {"x": np.arange(1, 6), "y": (3 * X + 2).astype(np.float64)}
    assert list(line().fit(data, optimizer="sgd")) == list(line().fit(DATA, optimizer="sgd"))


def test_validation_is_the_mean_loss_without_training() -> None:
    model = line()
    held = {"x": np.zeros(10, np.float32), "y": np.ones(10, np.float32)}
    data = {k: np.resize(v, 10) for k, v in DATA.items()}
    history = model.fit(
        data, epochs=2, batch_size=5, optimizer="sgd", lr=0.0, validation=held, shuffle=True
    )
    assert history.validation == [1.0, 1.0]
    assert len(history.seconds) == 2


def test_callbacks_see_each_step_and_may_end_it() -> None:
    steps: list[Step] = []

    def callback(step: Step) -> Any:
        steps.append(step)
        return step.number < 3

    history = line().fit(DATA, epochs=10, optimizer="sgd", callbacks=callback)
    assert [s.number for s in steps] == [1, 2, 3]
    assert [s.epoch for s in steps] == [1, 2, 3]
    assert [s.loss for s in steps] == list(history)


def test_an_interrupt_leaves_a_whole_model() -> None:
    Tensor.manual_seed(0)
    model = line()

    def interrupt(step: Step) -> None:
        if step.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(DATA, epochs=10, optimizer="adam", lr=0.1, callbacks=interrupt)
    Tensor.manual_seed(0)
    other = line()
    other.fit(DATA, epochs=2, optimizer="adam", lr=0.1)
    assert model.save() == other.save()
    model.fit(DATA)


def test_batch_statistics_and_dropout_are_the_models_state(device: str, rng: Rng) -> None:
    """F087: the same seed gives the same training, running means included."""

    class Net:
        def __init__(self) -> None:
            self.linear, self.norm = nn.Linear(3, 4), nn.BatchNorm(4)
            self.drop = nn.Dropout(0.5)

        def __call__(self, x: Tensor) -> dict[str, Tensor]:
            return {"prediction": self.drop(self.norm(self.linear(x))).sum(1)}

    x = rng.standard_normal((16, 3), np.float32)
    data = {"x": x, "y": x.sum(1)}
    found = []
    for _ in range(2):
        Tensor.manual_seed(7)
        net = Net()
        model = Model(net, inputs={"x": (8, 3)}, targets={"y": (8,)}, loss=squares)
        history = model.fit(data, epochs=3, batch_size=8, optimizer="adam", lr=0.01)
        found.append((list(history), net.norm.running_mean.tolist()))
        assert net.norm.num_batches_tracked.item() == 6
        before = net.norm.running_mean.tolist()
        outs = [model.forward(x=x[:8])["prediction"].tolist() for _ in range(2)]
        assert outs[0] == outs[1]
        assert net.norm.running_mean.tolist() == before
    assert found[0] == found[1]
    assert len(set(found[0][0])) == 6


def test_a_model_of_two_layers_learns(device: str, rng: Rng) -> None:
    net = nn.Sequential(nn.Linear(2, 16), Tensor.tanh, nn.Linear(16, 1))
    model = Model(
        lambda x: {"prediction": net(x).flatten()},
        inputs={"x": (32, 2)},
        targets={"y": (32,)},
        loss=squares,
        params=net,
    )
    x = rng.standard_normal((128, 2), np.float32)
    data = {"x": x, "y": x[:, 0] * x[:, 1]}
    history = model.fit(data, epochs=60, batch_size=32, optimizer="adam", lr=0.02)
    assert np.mean(history[-4:]) < 0.15 * np.mean(history[:4])
    assert model.params == ["0.weight", "0.bias", "2.weight", "2.bias"]


BAD: dict[str, tuple[Callable[[], Any], type[PolygradError], str]] = {
    "partial batch": (
        lambda: line().fit({k: np.resize(v, 12) for k, v in DATA.items()}, batch_size=5),
        ArgumentError,
        "12 samples leave 2 over in batches of 5; remainder='drop' leaves them out",
    ),
    "kept batch": (
        lambda: line().fit(
            {k: np.resize(v, 12) for k, v in DATA.items()}, batch_size=5, remainder="keep"
        ),
        ArgumentError,
        "which the declared shapes do not admit",
    ),
    "remainder": (
        lambda: line().fit(DATA, batch_size=5, remainder="drp"),  # type: ignore[arg-type]
        UnknownName,
        "no remainder named 'drp'. Did you mean 'drop'",
    ),
    "batch size": (
        lambda: line().fit(DATA, batch_size=32),
        ArgumentError,
        r"batch_size=32, but 'x' is declared float32\[5\]",
    ),
    "batch size 0": (lambda: line().fit(DATA, batch_size=0), ArgumentError, "batch_size=0"),
    "too few": (
        lambda: line().fit({k: v[:3] for k, v in DATA.items()}, batch_size=5, remainder="drop"),
        ArgumentError,
        "3 samples make no batch of 5",
    ),
    "whole data of another size": (
        lambda: line().fit({k: np.resize(v, 12) for k, v in DATA.items()}, optimizer="sgd"),
        ShapeError,
        r"declared float32\[5\], got shape \(12,\). Give batch_size=",
    ),
    "counts": (
        lambda: line().fit({"x": X, "y": np.resize(X, 10)}, batch_size=5),
        ShapeError,
        "different numbers of samples: 'x' 5, 'y' 10",
    ),
    "missing target": (lambda: line().fit({"x": X}), ArgumentError, "fit needs 'y' too"),
    "unknown name": (lambda: line().fit({**DATA, "z": X}), ArgumentError, "fit has no input 'z'"),
    "complex": (
        lambda: line().fit({"x": X.astype(np.complex64), "y": X}),
        DTypeError,
        "no dtype named .*complex64",
    ),
    "ragged": (lambda: line().fit({"x": [[1], [1, 2]], "y": X}), ShapeError, "rectangular"),
    "no optimizer": (lambda: line().fit(DATA), StateError, "no optimizer is set"),
    "optimizer": (
        lambda: line().fit(DATA, optimizer="adamm"),
        UnknownName,
        "no optimizer named 'adamm'. Did you mean 'adam'. Valid: sgd, adam, adamw",
    ),
    "option": (
        lambda: line().set_optimizer("sgd", momentun=0.9),
        ArgumentError,
        "sgd: no option named 'momentun'. Did you mean 'momentum'",
    ),
    "rate": (lambda: line().fit(DATA, optimizer="sgd", lr="fast"), ArgumentError, "a number or a"),
    "rate that is NaN": (
        lambda: line().fit(DATA, optimizer="sgd", lr=float("nan")),
        ArgumentError,
        "a finite number of 0 or more, not nan",
    ),
    "negative rate": (
        lambda: line().fit(DATA, optimizer="sgd", lr=-0.1),
        ArgumentError,
        "not -0.1",
    ),
    "label": (
        lambda: Model(
            lambda x: {"prediction": x * 1.0},
            inputs={"x": Tensor.empty(5, dtype="int32")},
            targets={"y": (5,)},
            loss=squares,
        ).fit({"x": np.full(5, 2**40), "y": X}),
        ArgumentError,
        "fit: 'x': 1099511627776 does not fit int32",
    ),
    "epochs": (lambda: line().fit(DATA, optimizer="sgd", epochs=-1), ArgumentError, "epochs=-1"),
    "no parameter": (
        lambda: Model(
            lambda x: {"prediction": x}, inputs={"x": (5,)}, targets={"y": (5,)}, loss=squares
        ).fit(DATA, optimizer="sgd"),
        StateError,
        "no parameter to train",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_training_is_told_before_any_step(case: str) -> None:
    call, error, text = BAD[case]
    with pytest.raises(error, match=text):
        call()


def test_a_failed_fit_changes_nothing() -> None:
    model = line()
    before = model.save()
    with pytest.raises(ArgumentError):
        model.fit({k: np.resize(v, 12) for k, v in DATA.items()}, batch_size=5, optimizer="adam")
    assert model.save() == before


def test_plot_says_which_package_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(
        PackageMissing, match=r"^plot\(\) needs matplotlib .*pip install matplotlib$"
    ):
        History().plot()


def test_a_loss_that_is_nan_is_reported_as_it_is() -> None:
    history = line().fit({"x": X, "y": X * np.nan}, optimizer="sgd")
    assert math.isnan(history[0])


def test_nothing_is_printed_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    line().fit(DATA, epochs=2, optimizer="sgd")
    assert capfd.readouterr() == ("", "")


def test_a_line_per_epoch_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from polygrad.model import history

    monkeypatch.setattr(history, "_terminal", lambda: True)
    monkeypatch.setattr(history, "_tqdm", lambda total: None)
    line().fit(DATA, epochs=2, optimizer="sgd", lr=0.01, validation=DATA)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("epoch 2/2  loss ")
    assert "validation" in lines[1]
    line().fit(DATA, epochs=2, optimizer="sgd", progress=False)
    assert capsys.readouterr().err == ""
