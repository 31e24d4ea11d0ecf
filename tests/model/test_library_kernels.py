"""Kernels in bundles: those of the library by name and numbers, those of users never."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygrad import Model, Tensor
from polygrad.errors import BundleError, StateError
from polygrad.files import ArchiveWriter, jsontext
from polygrad.uop.ops import KernelInfo, UOp

SIZE = 40


class Solver:
    def __init__(self) -> None:
        self.matrix = Tensor(np.eye(SIZE, dtype=np.float32) * 2)

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        return {"sorted": x.sort()[0], "solved": self.matrix.solve(x), "top": x.topk(3)[1]}


class Own:
    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        def double(out: Any, a: Any) -> UOp:
            i = UOp.range(SIZE, 0)
            return out[i].store(a[i] * 2).end(i).sink(arg=KernelInfo(name="double"))

        return {"doubled": Tensor.empty(SIZE).custom_kernel(x, fxn=double)[0]}


def test_sorting_and_solving_come_back(rng: np.random.Generator) -> None:
    x = rng.normal(size=SIZE).astype(np.float32)
    saved = Model(Solver(), inputs={"x": Tensor.empty(SIZE)}).save()
    out = Model.load(saved).forward({"x": x})
    np.testing.assert_array_equal(np.asarray(out["sorted"]), np.sort(x))
    np.testing.assert_allclose(np.asarray(out["solved"]), x / 2, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(out["top"]), np.argsort(-x, kind="stable")[:3])


class Scanner:
    def __init__(self) -> None:
        self.weight = Tensor(np.array([0.5, -1.5, 0.0], np.float32), is_param=True)

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        y = x * self.weight
        loss = y.cumprod().sum() + y.logcumsumexp().sum() + y.cumsum().sum()
        return {"loss": loss, "best": y.cummax()[0]}


def test_scans_and_what_flows_through_them_come_back() -> None:
    x = np.array([1.0, 2.0, 3.0], np.float32)
    model = Model(Scanner(), inputs={"x": Tensor.empty(3)})
    before = model.forward(x=x)
    after = Model.load(model.save()).forward(x=x)
    for name in ("loss", "best"):
        np.testing.assert_array_equal(np.asarray(before[name]), np.asarray(after[name]))
    y = x.astype(np.float64) * [0.5, -1.5, 0.0]
    want = np.cumprod(y).sum() + np.logaddexp.accumulate(y).sum() + np.cumsum(y).sum()
    assert float(np.asarray(after["loss"])) == pytest.approx(want, rel=1e-5)


def test_a_kernel_of_ones_own_stays_here() -> None:
    model = Model(Own(), inputs={"x": Tensor.empty(SIZE)})
    with pytest.raises(StateError, match="cannot hold a kernel of your own"):
        model.save()


def forged(change: Callable[[list[Any]], None]) -> bytes:
    """A saved Solver with the argument of every KERNEL changed, and right hashes."""
    saved = Model(Solver(), inputs={"x": Tensor.empty(SIZE)}).save()
    with zipfile.ZipFile(io.BytesIO(saved)) as z:
        members = {n: z.read(n) for n in z.namelist() if n != "manifest.json"}
        manifest = json.loads(z.read("manifest.json"))
    graph = json.loads(members["graph.json"])
    for node in graph["nodes"]:
        if node[0] == "KERNEL":
            change(node[3])
    members["graph.json"] = jsontext.dumps(graph)
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    manifest["members"] = {
        n: {"size": len(d), "sha256": writer.add(n, len(d), [d])} for n, d in members.items()
    }
    text = jsontext.dumps(manifest)
    writer.add("manifest.json", len(text), [text])
    writer.finish()
    return file.getvalue()


def test_an_unchanged_forgery_is_no_forgery() -> None:
    assert Model.load(forged(lambda call: None))


def _name(call: list[Any]) -> None:
    call[0][0] = "system"


def _arguments(call: list[Any]) -> None:
    call[0][1] = [1, 2]


def _other_numbers(call: list[Any]) -> None:
    call[0][1][1] += 1


def _long_row(call: list[Any]) -> None:
    """For kernels that have a row on the stack."""
    call[0] = ["radix_row", [1, 1 << 30, "uint32", 0, 32]]


def _no_words(call: list[Any]) -> None:
    call[0] = ["network", [1, SIZE, 7]]


def _output_as_input(call: list[Any]) -> None:
    call[2] = call[2][:1]
    call[3] = 0


def _no_such_output(call: list[Any]) -> None:
    call[3] = 7


def _huge(call: list[Any]) -> None:
    call[2][0][2] = [1 << 50]


def _another_dtype(call: list[Any]) -> None:
    call[2][0][1] = "int8"


@pytest.mark.parametrize(
    "change",
    [
        _name,
        _arguments,
        _other_numbers,
        _long_row,
        _no_words,
        _output_as_input,
        _no_such_output,
        _huge,
        _another_dtype,
    ],
)
def test_a_forged_kernel_is_refused(change: Callable[[list[Any]], None]) -> None:
    with pytest.raises(BundleError):
        Model.load(forged(change))
