"""Which parameters weight decay shrinks: `decay_filter` by name (F229), `nn.init.param` by how a
parameter starts (F232); eagerly, in a Model, and in the bundle of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Model, Tensor, dtypes, nn
from polygrad.errors import ArgumentError, PolygradError, UnknownName
from polygrad.nn import init, optim

# Optimizers whose step without a gradient is the decay alone, and what one step leaves of 1.0.
ALONE: dict[str, tuple[Callable[..., optim.Optimizer], float]] = {
    "SGD": (lambda p, **o: optim.SGD(p, lr=0.1, weight_decay=0.5, **o), 0.95),
    "AdamW": (lambda p, **o: optim.AdamW(p, lr=0.1, weight_decay=0.5, **o), 0.95),
    "Muon": (lambda p, **o: optim.Muon(p, lr=0.1, weight_decay=0.5, **o), 0.95),
}
ALL = ("SGD", "Adam", "AdamW", "LAMB", "LARS", "Muon")


def stepped(make: Callable[..., optim.Optimizer], params: Any, **options: Any) -> None:
    """One step whose gradients are 0."""
    optimizer = make(params, **options)
    total: Any = 0.0
    for p in optimizer.params:
        total = total + (p * 0.0).sum()
    total.backward()
    with Context(TRAINING=1):
        optimizer.step()


@pytest.mark.parametrize("name", ALONE)
def test_a_filter_is_asked_by_name(device: str, name: str) -> None:
    make, left = ALONE[name]
    params = {n: Tensor.ones(2, 2, requires_grad=True) for n in ("fc.weight", "fc.bias")}
    asked: list[str] = []

    def choice(n: str) -> bool:
        asked.append(n)
        return n.endswith("weight")

    stepped(make, params, decay_filter=choice)
    assert asked == ["fc.weight", "fc.bias"]
    np.testing.assert_allclose(params["fc.weight"].numpy(), np.full((2, 2), left), rtol=1e-6)
    np.testing.assert_array_equal(params["fc.bias"].numpy(), np.ones((2, 2)))


@pytest.mark.parametrize("name", ALL)
def test_what_is_exempt_is_trained_as_without_decay(device: str, name: str) -> None:
    """The oracle is the same optimizer with weight_decay=0, and with it, on the other tensor."""
    rng = np.random.default_rng(1)
    start, target = rng.normal(size=(2, 2, 2)).astype(np.float32)

    def trained(decay: float, **options: Any) -> Any:
        p = Tensor(start, requires_grad=True)
        optimizer = getattr(optim, name)({"p": p}, lr=0.05, weight_decay=decay, **options)
        with Context(TRAINING=1):
            for _ in range(3):
                optimizer.zero_grad()
                (p - Tensor(target)).square().sum().backward()
                optimizer.step()
        return p.numpy()

    without, with_decay = trained(0.0), trained(0.5)
    assert not np.allclose(without, with_decay)
    np.testing.assert_array_equal(trained(0.5, decay_filter=lambda n: False), without)
    np.testing.assert_array_equal(trained(0.5, decay_filter=lambda n: n == "p"), with_decay)


def test_a_filter_needs_names() -> None:
    p = Tensor.ones(2, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"decay_filter asks for names; .*get_state_dict"):
        optim.AdamW([p], decay_filter=lambda n: True)
    with pytest.raises(ArgumentError, match="decay_filter is a function of a name, not 'bias'"):
        optim.AdamW([p], decay_filter="bias")  # type: ignore[arg-type]


def test_a_tied_parameter_has_its_first_name() -> None:
    p = Tensor.ones(2, requires_grad=True)
    asked: list[str] = []
    made = optim.SGD({"a": p, "b": p}, decay_filter=lambda n: bool(asked.append(n)))
    assert asked == ["a"] and len(made.params) == 1


@pytest.mark.parametrize("name", ALL)
def test_fused_changes_nothing_and_is_a_flag(device: str, name: str) -> None:
    results = []
    for options in ({}, {"fused": True}, {"fused": False}):
        p = Tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
        (p * p).sum().backward()
        with Context(TRAINING=1):
            getattr(optim, name)([p], **options).step()
        results.append(p.tolist())
    assert results[0] == results[1] == results[2]
    with pytest.raises(ArgumentError, match="fused is True, False or None, not 'yes'"):
        getattr(optim, name)(None, fused="yes")


# ---- parameters with options (F232, F230)


def test_a_parameter_has_the_documented_defaults(device: str) -> None:
    Tensor.manual_seed(3)
    p = init.param((400, 50))
    assert p.dtype is dtypes.float32 and p.requires_grad is True
    assert abs(float(p.numpy().std()) - 0.02) < 0.001
    for start, decays in {
        "randn": True, "kaiming": True, "zeros": False, "ones": False, "kaiming_uniform": True,
    }.items():  # fmt: skip
        assert init.decays(init.param((2, 2), start)) is decays
        assert init.decays(init.param((2, 2), start, decay=not decays)) is not decays
    assert init.decays(init.param(2, init.literal([1.0, 2.0])))
    assert init.decays(Tensor.zeros(2, requires_grad=True))


def test_an_init_is_a_name_a_mapping_or_a_spec(device: str) -> None:
    """With torch's fan_in; the same draws for the same seed."""
    made = []
    for spec in (
        "kaiming",
        {"kind": "kaiming"},
        init.kaiming(),
        {"kind": "kaiming", "gain": 2**0.5},
    ):
        Tensor.manual_seed(5)
        made.append(init.param((64, 16), spec, "float16").numpy())
    assert all(np.array_equal(made[0], m) for m in made)
    assert made[0].dtype == np.float16
    literal = init.param((2, 2), {"kind": "literal", "data": [1, 2, 3, 4]})
    assert literal.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        ("kaimng", UnknownName, "Did you mean 'kaiming'"),
        ({"gain": 1.0}, ArgumentError, "a mapping with its kind"),
        ({"kind": "kaiming", "gian": 1.0}, ArgumentError, "argument 'gian'. Did you mean 'gain'"),
        ({"kind": "literal", "data": [1.0]}, ArgumentError, "1 values; the shape"),
        (7, ArgumentError, "not 7"),
    ],
)  # fmt: skip
def test_another_init_is_refused(spec: Any, error: type[PolygradError], text: str) -> None:
    with pytest.raises(error, match=text):
        init.param((2, 2), spec)


# ---- in a Model


class Net:
    def __init__(self) -> None:
        self.weight, self.scale = init.param((1,), "ones", decay=True), init.param((1,), "ones")

    def __call__(self, x: Tensor) -> Tensor:
        return x * 0.0 * (self.weight + self.scale)


def made() -> Model:
    x = Tensor.empty(1)
    return Model(Net(), {"x": x}, {"y": x}, lambda out, y: (out["output"] * y).sum())


ONE = {"x": np.ones(1, np.float32), "y": np.ones(1, np.float32)}


def after_a_step(model: Model) -> list[float]:
    model.fit(ONE, progress=False)
    return [round(float(model.read_buffer(n)[0]), 4) for n in ("weight", "scale")]


def test_a_model_knows_what_is_exempt(device: str) -> None:
    model = made()
    model.set_optimizer("adamw", lr=0.1, weight_decay=0.5)
    assert after_a_step(model) == [0.95, 1.0]
    loaded = Model.load(model.save())
    assert after_a_step(loaded) == [0.9025, 1.0]
    loaded.set_optimizer("sgd", lr=0.1, weight_decay=0.5)
    assert after_a_step(loaded)[1] == 1.0


def test_a_models_filter_is_asked_by_state_names_and_kept_in_bundles(device: str) -> None:
    model = made()
    model.set_optimizer("adamw", lr=0.1, weight_decay=0.5, decay_filter=lambda n: n == "scale")
    assert after_a_step(model) == [1.0, 0.95]
    assert (model.optimizer_config() or {})["exempt"] == ["weight"]
    loaded = Model.load(Model.load(model.save()).save())
    assert after_a_step(loaded) == [1.0, 0.9025]
    loaded.set_optimizer("adamw", lr=0.1, weight_decay=0.5)  # without one, the marks count again
    assert after_a_step(loaded) == [0.95, 0.9025]


def test_a_bundle_without_exemptions_says_nothing_of_them() -> None:
    x = Tensor.empty(1)
    model = Model(nn.Linear(1, 1), {"x": x})
    data = model.save()
    assert b"decays" not in data and b"exempt" not in data
