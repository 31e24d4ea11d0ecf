"""Capture: the author runs once per mode, and what it built is all that is kept (F081-F103)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Model, Tensor, nn
from polygrad.errors import (
    ArgumentError,
    CaptureError,
    DTypeError,
    PolygradError,
    ShapeError,
    StateError,
    UnknownName,
)


class Line:
    """w x + b, counting its calls."""

    def __init__(self) -> None:
        self.w, self.b, self.calls = Tensor([2.0]), Tensor([1.0]), 0

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        self.calls += 1
        return {"prediction": x * self.w + self.b}


def squares(outputs: dict[str, Tensor], y: Tensor) -> Tensor:
    return (outputs["prediction"] - y).square().mean()


def line(author: Any = None, n: int = 5, **options: Any) -> Model:
    return Model(author or Line(), inputs={"x": Tensor.empty(n)}, **options)


X = [1.0, 2.0, 3.0, 4.0, 5.0]


def test_outputs_come_by_name_as_numpy(device: str) -> None:
    out = line().forward(x=X)
    assert isinstance(out["prediction"], np.ndarray)
    assert out["prediction"].tolist() == [3.0, 5.0, 7.0, 9.0, 11.0]


def test_three_ways_to_call() -> None:
    model = line()
    for out in (model(x=X), model.forward({"x": X}), model.call("forward", {"x": X})):
        assert out["prediction"].tolist() == [3.0, 5.0, 7.0, 9.0, 11.0]


def test_a_tensor_in_gives_tensors_out(device: str) -> None:
    """F099."""
    model = line()
    first = model.forward(x=Tensor(X))["prediction"]
    second = model.forward(x=Tensor(X) * 0)["prediction"]
    assert isinstance(first, Tensor)
    assert first.tolist() == [3.0, 5.0, 7.0, 9.0, 11.0]
    assert second.tolist() == [1.0] * 5


def test_results_stay_when_the_model_is_called_again() -> None:
    model = line()
    first = model.forward(x=X)["prediction"]
    model.forward(x=[0.0] * 5)
    assert first.tolist() == [3.0, 5.0, 7.0, 9.0, 11.0]


def test_with_a_loss_the_author_runs_twice_and_never_again() -> None:
    """F085."""
    author = Line()
    model = line(author, targets={"y": Tensor.empty(5)}, loss=squares)
    assert author.calls == 2
    model.fit({"x": X, "y": X}, epochs=3, optimizer="sgd", lr=0.01)
    model.forward(x=X)
    assert author.calls == 2


def test_without_a_loss_it_runs_once_with_training_as_it_stands() -> None:
    """F086."""
    seen = []

    def author(x: Tensor) -> Tensor:
        from polygrad import settings

        seen.append(settings.get("TRAINING"))
        return x * 2

    line(author)
    with Context(TRAINING=1):
        line(author)
    assert seen == [False, True]


@pytest.mark.parametrize(
    "author, names",
    [
        (lambda x: x + 1, ["output"]),
        (lambda x: (x + 1, x + 2), ["output0", "output1"]),
        (lambda x: {"a": x, "b": x}, ["a", "b"]),
    ],
)
def test_what_an_author_may_return(author: Any, names: list[str]) -> None:
    assert list(line(author).forward(x=X)) == names


def test_an_output_may_be_an_input_or_a_parameter() -> None:
    author = Line()
    model = line(lambda x: {"x": x, "w": author.w}, params={"w": author.w})
    out = model.forward(x=Tensor(X))
    assert (out["x"].tolist(), out["w"].tolist()) == (X, [2.0])
    model.write_buffer("w", [7.0])
    assert out["w"].tolist() == [2.0]
    assert model.forward(x=X)["w"].tolist() == [7.0]


def test_an_object_with_forward_is_an_author() -> None:
    class Forward:
        def __init__(self) -> None:
            self.inner = Line()

        def forward(self, x: Tensor) -> Any:
            return self.inner(x)

    model = line(Forward())
    assert model.params == ["inner.w", "inner.b"]


def test_tensors_of_a_plain_function_are_named() -> None:
    """F084."""
    w = Tensor([3.0])
    model = line(lambda x: x * w, params={"w": w})
    assert model.params == ["w"]
    with pytest.raises(CaptureError, match=r"params=\{'w': w\}"):
        line(lambda x: x * w)


def test_data_made_inside_is_frozen() -> None:
    model = line(lambda x: x * Tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert model.states["constants.0"].role == "frozen"
    assert model.params == []
    assert model.forward(x=[1.0] * 5)["output"].tolist() == X


def test_two_constants_that_are_equal_stay_apart() -> None:
    """F091 is a fault of the older library."""

    class Two:
        def __init__(self) -> None:
            self.a, self.b = Tensor.zeros(5), Tensor.zeros(5)

        def __call__(self, x: Tensor) -> dict[str, Tensor]:
            return {"prediction": x * self.a + self.b}

    model = line(Two(), targets={"y": Tensor.empty(5)}, loss=squares)
    model.fit({"x": [0.0] * 5, "y": [1.0] * 5}, optimizer="sgd", lr=0.5)
    assert model.read_buffer("a").tolist() == [0.0] * 5
    assert model.read_buffer("b").tolist() == pytest.approx([0.2] * 5)


def test_tied_tensors_are_one_parameter_with_two_names() -> None:
    class Tied:
        def __init__(self) -> None:
            self.a = Tensor([2.0])
            self.b = self.a

        def __call__(self, x: Tensor) -> Tensor:
            return x * self.a + self.b

    model = line(Tied())
    assert model.params == ["a"]
    assert list(model.state_dict()) == ["a", "b"]
    model.write_buffer("b", [3.0])
    assert model.forward(x=X)["output"].tolist() == [6.0, 9.0, 12.0, 15.0, 18.0]


def test_auxiliary_state_is_kept_between_calls() -> None:
    """F090, F122."""

    class Counter:
        def __init__(self) -> None:
            self.count = Tensor([0.0], requires_grad=False)

        def __call__(self, x: Tensor) -> Tensor:
            self.count.assign(self.count + 1)
            return x + self.count

    author = Counter()
    model = line(author)
    assert author.count.tolist() == [0.0]
    outs = [model.forward(x=[0.0] * 5)["output"][0] for _ in range(3)]
    assert outs == [1.0, 2.0, 3.0]
    assert model.states["count"].role == "aux"
    assert author.count.tolist() == [3.0]
    assert model.call("forward", {"x": X}, readback=False) == {}
    assert author.count.tolist() == [4.0]


def test_author_and_model_see_each_others_changes() -> None:
    author = Line()
    model = line(author)
    author.w.assign(Tensor([10.0]))
    assert model.forward(x=X)["prediction"].tolist() == [11.0, 21.0, 31.0, 41.0, 51.0]
    model.write_buffer("w", [0.0])
    assert author.w.tolist() == [0.0]


def test_a_lazy_reader_of_a_parameter_keeps_the_old_value(device: str) -> None:
    author = Line()
    model = line(author, targets={"y": Tensor.empty(5)}, loss=squares)
    before = author.w * 1
    model.fit({"x": X, "y": X}, epochs=5, optimizer="sgd", lr=0.01)
    assert before.tolist() == [2.0]
    assert author.w.tolist() != [2.0]


# ---- what is refused


class Assigning(Line):
    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        self.w.assign(self.w + 1)
        return super().__call__(x)


class Replacing(Line):
    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        self.w = self.w + 1
        return super().__call__(x)


class Reading(Line):
    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        self.scale = self.w.sum().item()
        return super().__call__(x)


class Branching(Line):
    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        return {"prediction": x * 2 if x.sum() > 0 else x}


def assigns_input(x: Tensor) -> Tensor:
    x.assign(x + 1)
    return x


REFUSED: dict[str, tuple[Any, str]] = {
    "assigning to a parameter": (Assigning, "assigns to its parameter 'w'; the optimizer does"),
    "replacing a tensor": (Replacing, r"replaced its tensor 'w' .* change it with .assign"),
    "reading a value": (Reading, r"test_capture.py.* inside the capture of the Model's forward"),
    "a branch on a value": (Branching, r"test_capture.py.* inside the capture"),
    "assigning to an input": (lambda: assigns_input, "assigns to its input 'x'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_captured(case: str) -> None:
    """F089; the author's tensors are as before (F088)."""
    make, text = REFUSED[case]
    author = make()
    tensors = nn.get_state_dict(author)
    before = {name: tensor.tolist() for name, tensor in tensors.items()}
    with pytest.raises(CaptureError, match=text):
        line(author)
    assert {name: tensor.tolist() for name, tensor in tensors.items()} == before


def test_tensors_are_restored_after_the_authors_own_error() -> None:
    """F088."""

    class Failing(Line):
        def __call__(self, x: Tensor) -> Any:
            raise RuntimeError("mine")

    author = Failing()
    with pytest.raises(RuntimeError, match="mine"):
        line(author)
    assert author.w.tolist() == [2.0]


def uninitialized() -> Any:
    author = Line()
    author.w = Tensor.empty(1)
    return line(author).forward(x=X)


BAD: dict[str, tuple[Callable[[], Any], type[PolygradError], str]] = {
    "uninitialized": (uninitialized, StateError, r"param 'w' \(float32\[1\]\) is not initialized"),
    "shape": (
        lambda: line().forward(x=[1.0]),
        ShapeError,
        r"entrypoint 'forward': 'x' is declared float32\[5\], got shape \(1,\)",
    ),
    "transposed": (
        lambda: Model(lambda x: x, inputs={"x": (2, 3)}).forward(x=np.zeros((3, 2))),
        ShapeError,
        r"declared float32\[2, 3\], got shape \(3, 2\)",
    ),
    "dtype": (
        lambda: Model(lambda x: x, inputs={"x": ((2,), "int32")}).forward(x=[1.5, 2.0]),
        DTypeError,
        "'x' is declared int32, got float32; cast it first",
    ),
    "unknown input": (
        lambda: line().forward(z=X),
        ArgumentError,
        "entrypoint 'forward' has no input 'z'. .*It takes: x",
    ),
    "missing input": (lambda: line().forward(), ArgumentError, "needs 'x' too"),
    "positional": (lambda: line().forward(X), ArgumentError, "by name, as x="),
    "entrypoint": (
        lambda: line().call("foward", {"x": X}),
        UnknownName,
        "no entrypoint named 'foward'. Did you mean 'forward'",
    ),
    "targets without a loss": (
        lambda: line(targets={"y": Tensor.empty(5)}),
        ArgumentError,
        "give loss= too",
    ),
    "a loss of many numbers": (
        lambda: line(targets={"y": (5,)}, loss=lambda o, y: o["prediction"] - y),
        ArgumentError,
        r"is one float, not float32\[5\]; take its mean",
    ),
    "no tensor returned": (lambda: line(lambda x: 3), ArgumentError, "returns a Tensor or a dict"),
    "no callable": (lambda: line(3), ArgumentError, "takes a callable"),
    "input and target": (
        lambda: line(targets={"x": (5,)}, loss=squares),
        ArgumentError,
        "both an input and a target",
    ),
    "spec": (lambda: Model(lambda x: x, inputs={"x": "5"}), ArgumentError, "inputs 'x' is a"),
    "state": (lambda: line().read_buffer("ww"), UnknownName, "Did you mean 'w'"),
    "no training": (
        lambda: line().fit({"x": X}, optimizer="sgd"),
        StateError,
        "made without a loss",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_use_is_told_at_the_call(case: str) -> None:
    call, error, text = BAD[case]
    with pytest.raises(error, match=text) as caught:
        call()
    assert len(str(caught.value).splitlines()) <= 4


def test_a_disposed_model_says_so() -> None:
    """F103."""
    model = line()
    model.dispose()
    with pytest.raises(StateError, match="was disposed"):
        model.forward(x=X)


def test_summary_runs_nothing() -> None:
    """F101, F102."""
    model = line(targets={"y": Tensor.empty(5)}, loss=squares)
    text = model.summary()
    assert "forward(x: float32[5]) -> prediction: float32[5]" in text
    assert "2 parameters in 2 tensors; 8 B of state" in text
    assert model.stats() == {}
    assert model.entrypoints()["loss"]["inputs"] == {"x": "float32[5]", "y": "float32[5]"}


def test_metadata_is_detached_json() -> None:
    """F126."""
    model = line()
    value = {"a": [1, 2.5, "ä"]}
    model.set_metadata("owner", value)
    value["a"].append(3)
    assert model.get_metadata("owner") == {"a": [1, 2.5, "ä"]}
    model.set_metadata("owner", None)
    assert model.get_metadata("owner") is None
    for key, bad in (("polygrad.x", 1), ("ok", float("nan")), ("ok", "\0"), ("ok", {1, 2})):
        with pytest.raises(ArgumentError, match="metadata"):
            model.set_metadata(key, bad)


def test_a_model_moves_to_another_device() -> None:
    """F128."""
    model = line(targets={"y": Tensor.empty(5)}, loss=squares).place("interp")
    assert model.device == "interp"
    assert model.forward(x=X)["prediction"].tolist() == [3.0, 5.0, 7.0, 9.0, 11.0]
    model.fit({"x": X, "y": X}, epochs=2, optimizer="adam", lr=0.01)
