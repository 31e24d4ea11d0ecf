"""Explicit runtimes, rows F192 to F205 as far as they go here: who owns what, what ends when."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import polygrad
from polygrad import Context, Model, Tensor, UOp, jit, nn
from polygrad.device.buffer import pool
from polygrad.errors import ArgumentError, PolygradError, StateError
from polygrad.uop.ops import KernelInfo


@pytest.fixture
def rt(device: str) -> Iterator[polygrad.Runtime]:
    with Context(POLY_DEV="interp"):  # what a runtime says goes before
        made = polygrad.create(device, name="lab")
    yield made
    made.dispose()


# ---- a runtime is the library, in one place


def test_what_is_made_in_a_runtime_belongs_to_it(rt: polygrad.Runtime, device: str) -> None:
    """F192."""
    x = rt.Tensor([[1.0, 2.0]])
    net = rt.nn.Linear(2, 3)
    assert x.runtime is net.weight.runtime is net(x).runtime is rt
    assert rt.Tensor.rand(2).device == rt.Tensor.zeros(2).device == x.device == device
    assert isinstance(x, rt.Tensor) and isinstance(net, rt.nn.Linear) and rt.can_run("exp")
    assert not isinstance(Tensor([1.0]), rt.Tensor)
    want = x.numpy() @ net.weight.numpy().T + net.bias.numpy()
    np.testing.assert_allclose(net(x).numpy(), want, rtol=1e-6)


def test_the_default_runtime_owns_the_rest(rt: polygrad.Runtime, device: str) -> None:
    """F193."""
    x, y = Tensor([1.0]), Tensor.zeros(3).realize()
    assert x.runtime is y.runtime is (x + 1).runtime is not rt
    with pytest.raises(StateError, match="default runtime lasts as long as the process"):
        x.runtime.dispose()


def test_a_tensor_is_used_where_it_belongs_wherever_the_line_stands(
    rt: polygrad.Runtime, device: str
) -> None:
    x, y = rt.Tensor([1.0, 2.0]), Tensor([5.0, 6.0])
    assert (x + [10, 20]).tolist() == [11.0, 22.0]
    assert (np.array([1.0, 1.0], np.float32) + x).tolist() == [2.0, 3.0]
    assert (Tensor.ones(2) * x).runtime is rt  # constants are at home everywhere
    with rt.context():
        assert (y + [10, 20]).runtime is y.runtime
        assert (y * 2).tolist() == [10.0, 12.0]
        assert Tensor([1.0]).runtime is rt


def test_a_block_of_a_runtime_ends_it(device: str) -> None:
    with polygrad.create(device) as rt:
        x = Tensor([1.0, 2.0]) * 2
        assert x.runtime is rt and x.tolist() == [2.0, 4.0]
    assert rt.disposed and Tensor([1.0]).runtime is not rt
    assert repr(rt).endswith("disposed)")


def test_settings_of_a_runtime_are_its_own(device: str) -> None:
    with polygrad.create(device, env={"POLY_FUSION": 0, "TRAINING": 1}) as rt:
        x = rt.Tensor([1.0, 2.0])
        before = rt.stats()["launches"]
        ((x + 1) * 2 - 3).realize()
        assert rt.stats()["launches"] - before == 3  # nothing is fused
        assert Tensor.training and polygrad.getenv("TRAINING")
        with Context(TRAINING=0):
            assert not polygrad.getenv("TRAINING")  # the innermost has the last word
    assert not Tensor.training


def test_settings_of_a_runtime_come_and_go_with_it(device: str) -> None:
    rt = polygrad.create(device, env={"TRAINING": 1})
    y = Tensor([1.0, 2.0])
    assert rt.Tensor.training and not Tensor.training
    with Context(TRAINING=0), rt.context():
        assert Tensor.training  # entered last
        assert y.dropout(1.0).tolist() == [1.0, 2.0]  # whose runtime is not training
        Tensor.training = False
        assert not Tensor.training
    assert rt.Tensor.training and not Tensor.training
    rt.dispose()


def test_an_explicit_device_goes_before_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """F187."""
    monkeypatch.delenv("POLY_DEV", raising=False)
    monkeypatch.setenv("DEV", "interp:1")
    assert polygrad.create().device == "interp:1"
    monkeypatch.setenv("POLY_DEV", "INTERP:2")
    assert polygrad.create().device == polygrad.create().Tensor([1.0]).device == "interp:2"
    rt = polygrad.create("Interp")
    with Context(POLY_DEV="interp:3"):
        assert rt.Tensor([1.0]).device == rt.Tensor.zeros(1).device == "interp"
        assert rt.Tensor([1.0], device="interp:4").device == "interp:4"
    with rt.context(POLY_DEV="interp:3"):
        assert Tensor([1.0]).device == "interp:3"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"device": "cqu"}, "no device named 'cqu'. Did you mean 'cpu'"),
        ({"logical": "never"}, "there is no policy 'never'"),
        ({"logical": "sometimes"}, "LOGICAL=sometimes cannot be read: expected until_realize or"),
        ({"kernels": True}, "kernels= chooses matrix kernels of the wasm device"),
        ({"env": {"POLY_THREADS": 2}}, "'POLY_THREADS' belongs to the whole process. A runtime"),
        ({"env": {"POLY_DEV": "cpu"}}, "give the device as device="),
        ({"env": {"POLY_FUSON": 1}}, "is no setting. Did you mean 'POLY_FUSION'"),
    ],
)
def test_create_refuses_what_it_cannot_do(options: dict[str, Any], text: str) -> None:
    """F195 to F198."""
    with pytest.raises(PolygradError) as caught:
        polygrad.create(**options)
    assert text in str(caught.value)


# ---- no operation joins two owners


def _double(out: Any, x: Any) -> UOp:
    i = UOp.range(out.numel(), 0)
    return out[i].store(x[i] * 2).end(i).sink(arg=KernelInfo(name="double"))


def _set(x: Tensor, index: Any, value: Any) -> None:
    x[index] = value


Two = Callable[[Tensor, Tensor], Any]
MIXED: dict[str, Two] = {
    "add": lambda a, b: a + b,
    "reflected": lambda a, b: b - a,
    "in place": lambda a, b: a.__iadd__(b),
    "where": lambda a, b: (a > 0).where(a, b),
    "condition": lambda a, b: (b > 0).where(a, 1.0),
    "cat": lambda a, b: a.cat(b, axis=0),
    "stack": lambda a, b: Tensor.stack(a, b),
    "matmul": lambda a, b: a @ b,
    "einsum": lambda a, b: Tensor.einsum("i,i->", a, b),
    "gather": lambda a, b: a.gather(0, b.cast("int32")),
    "index": lambda a, b: a[b.cast("int32")],
    "mask": lambda a, b: a[b > 0],
    "scatter": lambda a, b: a.scatter(0, Tensor([0, 1]), b),
    "clip": lambda a, b: a.clip(0.0, b),
    "linear": lambda a, b: a.reshape(1, 2).linear(b.reshape(2, 1)),
    "loss": lambda a, b: a.mse_loss(b),
    "setitem": lambda a, b: _set(a, slice(0, 1), b[:1]),
    "setitem index": lambda a, b: _set(a, b.cast("int32"), 1.0),
    "setitem mask": lambda a, b: _set(a, b > 0, 1.0),
    "assign": lambda a, b: a.assign(b),
    "copy_from": lambda a, b: a.copy_from(b),
    "replace": lambda a, b: a.replace(b),
    "realize": lambda a, b: (a + 1).realize(b + 1),
    "Tensor": lambda a, b: Tensor(b),
    "backward": lambda a, b: (a * 2).backward(gradient=b),
    "gradient": lambda a, b: (a * 2).sum().gradient(b),
    "custom_kernel": lambda a, b: a.custom_kernel(b, fxn=_double),
    "layer": lambda a, b: nn.Linear(2, 1)(b).realize(),
    "jit": lambda a, b: jit(lambda x, y: x + y)(a, b),
    "jit of nested": lambda a, b: jit(lambda d: d["x"] + d["y"][0])({"x": a, "y": [b]}),
    "jit of a closure": lambda a, b: jit(lambda x: x + b)(a),
    "optimizer": lambda a, b: nn.optim.SGD([a, b]),
    "load_state_dict": lambda a, b: nn.load_state_dict({"w": a}, {"w": b}),
}


@pytest.mark.parametrize("what", MIXED)
def test_two_owners_are_refused_at_the_call(rt: polygrad.Runtime, device: str, what: str) -> None:
    """F194: even on the same device, and nothing is changed."""
    a = Tensor([1.0, 2.0], requires_grad=True)
    b = rt.Tensor([0.0, 1.0], requires_grad=True)
    with pytest.raises(ArgumentError, match="Operands belong to different runtimes") as caught:
        MIXED[what](a, b)
    assert "'default'" in str(caught.value) and "'lab'" in str(caught.value)
    assert a.tolist() == [1.0, 2.0] and b.tolist() == [0.0, 1.0]
    assert a.grad is None and b.grad is None


def test_a_model_takes_no_input_of_another_runtime(rt: polygrad.Runtime, device: str) -> None:
    model = Model(lambda x: x * 2, inputs={"x": Tensor.empty(2)}, params={})
    with pytest.raises(ArgumentError, match="different runtimes"):
        model(x=rt.Tensor([1.0, 2.0]))
    other = rt.Model(lambda x: x * 3, inputs={"x": Tensor.empty(2)}, params={})
    out = other(x=rt.Tensor([1.0, 2.0]))["output"]
    assert out.runtime is rt and out.tolist() == [3.0, 6.0]
    np.testing.assert_array_equal(other(x=np.ones(2, np.float32))["output"], [3.0, 3.0])


def test_a_tensor_is_copied_from_runtime_to_runtime(rt: polygrad.Runtime, device: str) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x.to(rt)
    assert y.runtime is rt and y.requires_grad and y.tolist() == [1.0, 2.0]
    assert y.to(rt) is y and y.to(x.runtime).runtime is x.runtime
    x.assign(x.detach() + 1).realize()
    assert y.tolist() == [1.0, 2.0]


def test_copies_stay_and_pickles_come_back_where_they_are_read(
    rt: polygrad.Runtime, device: str
) -> None:
    x = rt.Tensor([1.0, 2.0])
    twin = copy.deepcopy({"x": x})["x"]
    assert twin.runtime is rt and twin.tolist() == [1.0, 2.0]
    assert pickle.loads(pickle.dumps(x)).runtime is Tensor([1.0]).runtime


def test_random_numbers_are_of_the_runtime(rt: polygrad.Runtime, device: str) -> None:
    Tensor.manual_seed(7)
    rt.Tensor.manual_seed(7)
    want = Tensor.rand(4).tolist()
    Tensor.rand(4)
    assert rt.Tensor.rand(4).tolist() == want
    with pytest.raises(ArgumentError, match="different runtimes"):
        (Tensor.rand(2) + rt.Tensor([1.0, 2.0])).realize()


def test_jit_runs_in_the_runtime_of_its_arguments(rt: polygrad.Runtime, device: str) -> None:
    double = jit(lambda x: x * 2)
    assert double(rt.Tensor([1.0])).runtime is rt
    assert double(Tensor([1.0])).runtime is not rt
    w = rt.Tensor([3.0])
    step = rt.jit(lambda n: w.assign(w + n))
    step(1), step(2)
    assert w.tolist() == [6.0] and w.runtime is rt
    prepared = rt.compile(lambda x: x + w, [rt.Tensor([1.0])])
    assert prepared(rt.Tensor([2.0])).tolist() == [8.0]


def test_a_plain_optimizer_follows_its_parameters(rt: polygrad.Runtime, device: str) -> None:
    w = rt.Tensor([1.0, -1.0], requires_grad=True)
    optimizer = nn.optim.Adam([w], lr=0.1)
    with Context(TRAINING=1):
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
    assert all(t.runtime is rt for t in (w, optimizer.lr, *optimizer.state.values()))
    np.testing.assert_allclose(w.numpy(), [0.7, -0.7], atol=0.01)


def test_a_model_trains_and_loads_in_its_runtime(rt: polygrad.Runtime, device: str) -> None:
    net = rt.nn.Linear(2, 1)
    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    model = rt.Model(
        net, inputs={"x": rt.Tensor.empty(2, 2)}, targets={"y": rt.Tensor.empty(2, 1)},
        loss=lambda out, y: (out["output"] - y).square().mean(),
    )  # fmt: skip
    losses = model.fit({"x": x, "y": x[:, :1]}, epochs=5, optimizer="sgd", lr=0.01, progress=False)
    assert losses.losses[-1] < losses.losses[0]
    twin = rt.Model.load(model.save())
    np.testing.assert_array_equal(twin(x=x)["output"], model(x=x)["output"])
    twin.import_weights(model.export_weights())
    assert all(t.runtime is rt for t in twin.state_dict().values())


# ---- the end


USES: dict[str, Callable[[Any], Any]] = {
    "operation": lambda o: o["x"] + 1,
    "read": lambda o: o["x"].tolist(),
    "pending": lambda o: o["y"].realize(),
    "constant": lambda o: o["zeros"].numpy(),
    "layer": lambda o: o["net"](o["x"].reshape(1, 2)),
    "jit": lambda o: o["step"](1.0),
    "compile": lambda o: o["double"](o["x"]),
    "Model": lambda o: o["model"](x=np.ones(2, np.float32)),
    "train": lambda o: o["model"].state_dict()["w"].assign(o["x"]),
    "optimizer": lambda o: o["optimizer"].step(),
    "Tensor": lambda o: o["rt"].Tensor([1.0]),
    "rand": lambda o: o["rt"].Tensor.rand(2),
    "context": lambda o: o["rt"].context().__enter__(),
    "block": lambda o: o["rt"].__enter__(),
    "can_run": lambda o: o["rt"].can_run("add"),
    "to": lambda o: Tensor([1.0]).to(o["rt"]),
    "from": lambda o: o["x"].to(Tensor([1.0]).runtime),
}


def _everything(rt: polygrad.Runtime) -> dict[str, Any]:
    x, w = rt.Tensor([1.0, 2.0]), rt.Tensor([1.0, 1.0], requires_grad=True)
    made: dict[str, Any] = {
        "rt": rt, "x": x, "y": x * 3, "zeros": rt.Tensor.zeros(2), "net": rt.nn.Linear(2, 1),
        "step": rt.jit(lambda n: w.detach() * n), "double": jit(lambda x: (x * 2).sum(0)),
        "model": rt.Model(lambda x: x * w, inputs={"x": rt.Tensor.empty(2)}, params={"w": w}),
        "optimizer": rt.nn.optim.SGD([w]),
    }  # fmt: skip
    (w * w).sum().backward()
    made["step"](1.0), made["double"](x), made["model"](x=np.ones(2, np.float32))
    made["net"](x.reshape(1, 2)).realize()
    return made


@pytest.mark.parametrize("use", USES)
def test_what_is_used_after_dispose_says_so(device: str, use: str) -> None:
    with Context(TRAINING=1):
        made = _everything(polygrad.create(device, name="lab"))
        made["rt"].dispose()
        made["rt"].dispose()  # does nothing
        with pytest.raises(StateError, match="the runtime 'lab' was disposed"):
            USES[use](made)
    assert made["x"].shape == (2,) and "shape=(2,)" in repr(made["x"])


def test_dispose_gives_all_memory_back_whoever_holds_tensors(device: str) -> None:
    gc.collect()
    before = pool(device).usage().live
    made = _everything(polygrad.create(device))
    assert pool(device).usage().live > before
    made["rt"].dispose()
    gc.collect()
    assert pool(device).usage().live == before
    assert made["rt"].stats()["mem_used"] == 0


def test_dispose_lets_go_of_executables(device: str) -> None:
    rt = polygrad.create(device)
    double = rt.jit(lambda x: x * 2)
    double(rt.Tensor([1.0]))
    ((rt.Tensor([1.0]) + 1) * 3).realize()
    routines = [e.exact for e in rt.plans.entries.values()]
    routines += [r.routine for r in rt.recordings]
    stages = [s for r in routines for s in r.stages]
    executables = [weakref.ref(s.executable) for s in stages if s.executable is not None]
    assert executables
    del routines, stages
    rt.dispose()
    gc.collect()
    assert [r() for r in executables] == [None] * len(executables)


def test_a_runtime_that_nobody_holds_goes(device: str) -> None:
    rt = polygrad.create(device)
    rt.Tensor.rand(3).tolist()
    gone = weakref.ref(rt)
    del rt
    gc.collect()
    assert gone() is None


def test_a_model_is_disposed_of_by_either_name(device: str) -> None:
    for end in (Model.dispose, Model.free):
        model = Model(lambda x: x * 2, inputs={"x": Tensor.empty(2)}, params={})
        end(model)
        with pytest.raises(StateError, match="this Model was disposed"):
            model(x=np.ones(2, np.float32))
