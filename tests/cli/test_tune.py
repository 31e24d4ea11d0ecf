"""`polygrad tune`: the search ahead of time, whose winners travel in the bundle."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygrad import Context, Model, Tensor, nn
from polygrad import device as devices
from polygrad.cli.command import main
from polygrad.engine import tuning
from polygrad.engine.counters import counters
from polygrad.errors import BundleError
from polygrad.files import Archive, ArchiveWriter, FileSource, jsontext
from polygrad.model.bundle import Bundle

pytest.importorskip("polygrad_backend_cpu")

X = np.arange(40, dtype=np.float32).reshape(2, 20) / 7


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tuning, "_known", weakref.WeakKeyDictionary())
    with Context(POLY_DEV="cpu", POLY_CACHE_DIR=str(tmp_path / "cache")):
        yield


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    Tensor.manual_seed(3)
    net = nn.Sequential(nn.Linear(20, 33), Tensor.relu, nn.Linear(33, 7))
    path = tmp_path / "net.pgb"
    Model(net, inputs={"x": Tensor.empty(2, 20)}).save(path)
    return path


def tune(*arguments: object) -> int:
    return main(["tune", *map(str, arguments), "--beam", "2", "--seconds", "1"])


def members(path: Path) -> dict[str, str]:
    with Bundle(path) as opened:
        return {name: m["sha256"] for name, m in opened.manifest["members"].items()}


def planted(path: Path, verbs: list[Any], recipe: str = "contraction", **more: Any) -> None:
    """Put one list for every kernel of the Model into a bundle, as a search on this machine would
    have."""
    model = Model.load(path)
    rows = model.tune(1, 1)
    machine = tuning.machine(devices.get("cpu"))
    kernels = {row["kernel"]: {"recipe": recipe, "verbs": verbs} for row in rows}
    here = {"device": "cpu", "arch": "x", "kernels": kernels}
    written(path, {"language": 1, "machines": {machine: here}, **more})


def written(path: Path, value: Any) -> None:
    """The bundle with another tuning.json."""
    source = FileSource.open(path)
    archive = Archive(source)
    parts = {n: bytes(archive.stream(n).read(m.size)) for n, m in archive.members.items()}
    source.close()
    manifest = json.loads(parts.pop("manifest.json"))
    parts["tuning.json"] = jsontext.dumps(value)
    with path.open("wb") as file:
        writer = ArchiveWriter(file)
        manifest["members"] = {
            n: {"size": len(p), "sha256": writer.add(n, len(p), [p])} for n, p in parts.items()
        }
        raw = jsontext.dumps(manifest)
        writer.add("manifest.json", len(raw), [raw])
        writer.finish()


def test_it_searches_each_kernel_and_reports(bundle: Path, capsys) -> None:
    before = members(bundle)
    assert tune(bundle) == 0
    out = capsys.readouterr().out
    assert out.count("contraction over") == 2
    assert "of 2 kernels on cpu run by a list found" in out
    after = members(bundle)
    assert {n: after[n] for n in before} == before  # graph and weights are as they were


def test_json_and_another_file(bundle: Path, tmp_path: Path, capsys) -> None:
    raw = bundle.read_bytes()
    out = tmp_path / "tuned.pgb"
    assert tune(bundle, "--json", "-o", out) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["out"] == str(out)
    assert len(data["kernels"]) == 2
    for row in data["kernels"]:
        assert row["tried"] > 3
        assert row["refused"] == 0
        assert row["after_us"] <= row["before_us"]
        assert row["kernel"].startswith("k_")
    assert bundle.read_bytes() == raw
    assert Model.load(out).params == Model.load(bundle).params


def test_what_was_found_serves_in_the_bundle(bundle: Path, tmp_path: Path, capsys) -> None:
    """Another cache folder, as on another machine of the same kind: no search, and the lists."""
    wanted = Model.load(bundle).forward(x=X)["output"]
    planted(bundle, [])  # plain loops, which no recipe would choose
    searched = counters.kernels_tuned
    with Context(POLY_CACHE_DIR=str(tmp_path / "other"), POLY_DUMP_KERNELS=1):
        model = Model.load(bundle)
        got = model.forward(x=X)["output"]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert counters.kernels_tuned == searched
    notes = [ln for ln in capsys.readouterr().err.splitlines() if ln.startswith("# kernel")]
    assert len(notes) == 2
    assert all("unroll" not in n and "contraction over" in n for n in notes)
    assert list(Model.load(model.save()).tuned.values()) == list(model.tuned.values())


def test_lists_for_another_machine_are_left_alone(bundle: Path, capsys) -> None:
    kernels = {"k_" + "0" * 20: {"recipe": "", "verbs": []}}
    other = {"device": "cpu", "arch": "riscv64-x", "kernels": kernels}
    written(bundle, {"language": 1, "machines": {"a" * 64: other}})
    model = Model.load(bundle)
    assert model.forward(x=X)["output"].shape == (2, 7)
    assert "a" * 64 in Model.load(model.save()).tuned
    model.tune(1, 1)
    assert "a" * 64 in model.tuned


@pytest.mark.parametrize(
    "verbs",
    [
        [["split", 0, 7]],
        [["grid", 100]],
        [["vector", 100]],
        [["unroll", 99]],
        [["split", 100, 2], ["vector", 102], ["split", 101, 5], ["unroll", 104]] * 3,
        [["reorder", 100, 1]],
    ],
    ids=str,
)
def test_a_strangers_list_is_right_or_not_used(bundle: Path, verbs: list[Any], caplog) -> None:
    """Reliability rows 15 and 16: lists are data, checked verb by verb."""
    wanted = Model.load(bundle).forward(x=X)["output"]
    planted(bundle, verbs)
    with caplog.at_level("WARNING", "polygrad.tune"):
        got = Model.load(bundle).forward(x=X)["output"]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert "is not used" in caplog.text


NAME = "k_" + "0" * 20


def machine(**values: Any) -> Any:
    return {
        "language": 1,
        "machines": {"b" * 64: {"device": "", "arch": "", "kernels": {}, **values}},
    }


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "has no language and machines"),
        ({"language": "x", "machines": {}}, "of another kind"),
        ({"language": 1, "machines": {"../x": {}}}, "illegal name of a machine"),
        ({"language": 1, "machines": {"b" * 64: {}}}, "illegal machine"),
        (machine(device=1), "illegal machine"),
        (machine(kernels={"k": 1}), "illegal name 'k' of a kernel"),
        (machine(kernels={NAME: {"recipe": "", "verbs": [["rm", 1]]}}), "illegal list for k_0"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_malformed_member_is_a_bundle_error(bundle: Path, value: Any, why: str) -> None:
    written(bundle, value)
    with pytest.raises(BundleError, match=f"tuning.json .*{why}"):
        Model.load(bundle)


def test_lists_of_a_later_language_are_left_out(bundle: Path) -> None:
    planted(bundle, [], language=2)
    assert Model.load(bundle).tuned == {}


def test_a_device_without_times_is_refused(bundle: Path, capsys) -> None:
    raw = bundle.read_bytes()
    assert tune(bundle, "--device", "interp") == 1
    assert "on device 'interp' a time says nothing" in capsys.readouterr().err
    assert main(["tune", str(bundle), "--beam", "0"]) == 1
    assert "1 or more, not 0" in capsys.readouterr().err
    assert bundle.read_bytes() == raw


def test_an_interrupted_search_leaves_the_model_as_it_was(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model.load(bundle)
    wanted = model.forward(x=X)["output"]
    plans = model.stats()

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polygrad.codegen.search.search", stopped)
    with pytest.raises(KeyboardInterrupt):
        model.tune()
    assert model.stats() == plans
    assert model.tuned == {}
    np.testing.assert_array_equal(model.forward(x=X)["output"], wanted)
