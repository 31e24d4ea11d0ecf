"""The .pgb bundle: what is saved comes back without its class, and nothing else is believed
(F116-F123)."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygrad import Model, Tensor, nn
from polygrad.errors import BundleError, StateError
from polygrad.files import Archive, ArchiveWriter, FileSource, jsontext
from polygrad.model.bundle import Bundle

X = np.arange(1.0, 6.0, dtype=np.float32)
DATA = {"x": X, "y": 3 * X + 2}


class Line:
    def __init__(self) -> None:
        self.w, self.b = Tensor([0.5]), Tensor([1.0])

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        return {"prediction": x * self.w + self.b}


def line() -> Model:
    Tensor.manual_seed(0)
    return Model(
        Line(),
        inputs={"x": Tensor.empty(5)},
        targets={"y": Tensor.empty(5)},
        loss=lambda outputs, y: (outputs["prediction"] - y).square().mean(),
    )


SMALL = line().save()


# ---- what comes back


class Net:
    """Convolution, batch statistics, dropout, an embedding and a tied head."""

    def __init__(self) -> None:
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm(4)
        self.embedding, self.drop = nn.Embedding(5, 4), nn.Dropout(0.3)
        self.head = self.embedding.weight

    def __call__(self, image: Tensor, word: Tensor) -> dict[str, Tensor]:
        x = self.norm(self.conv(image)).relu().mean((2, 3))
        return {"scores": self.drop(x * self.embedding(word)) @ self.head.transpose(0, 1)}


def net() -> tuple[Model, dict[str, Any]]:
    Tensor.manual_seed(1)
    model = Model(
        Net(),
        inputs={"image": (6, 1, 5, 5), "word": ((6,), "int32")},
        targets={"label": ((6,), "int32")},
        loss=lambda outputs, label: outputs["scores"].cross_entropy(label),
    )
    rng = np.random.default_rng(0)
    return model, {
        "image": rng.standard_normal((6, 1, 5, 5), np.float32),
        "word": np.arange(6, dtype=np.int32) % 5,
        "label": np.arange(6, dtype=np.int32) % 5,
    }


def test_a_loaded_model_gives_the_same_bits(device: str, tmp_path: Path) -> None:
    model, data = net()
    model.fit(data, epochs=2, optimizer="adam", lr=0.01)
    inputs = {k: data[k] for k in ("image", "word")}
    wanted = model.forward(inputs)["scores"]
    assert model.save(tmp_path / "net.pgb") is None
    loaded = Model.load(tmp_path / "net.pgb")
    assert loaded.device == device
    assert np.array_equal(loaded.forward(inputs)["scores"], wanted)
    assert loaded.params == model.params
    assert list(loaded.state_dict()) == list(model.state_dict())


def test_training_goes_on_bit_by_bit(device: str) -> None:
    """F122: moments, running means and the random generator are kept."""
    model, data = net()
    model.fit(data, epochs=2, optimizer="adam", lr=0.01)
    loaded = Model.load(model.save())
    wanted = model.fit(data, epochs=3)
    assert loaded.fit(data, epochs=3) == wanted
    assert loaded.save() == model.save()


def test_without_the_optimizer_training_starts_anew() -> None:
    """F116, F251."""
    model = line()
    model.fit(DATA, epochs=2, optimizer="adam", lr=0.01)
    loaded = Model.load(model.save(include_optimizer=False))
    assert not [n for n in loaded.states if n.startswith("optimizer.")]
    with pytest.raises(StateError, match="no optimizer is set"):
        loaded.fit(DATA)
    loaded.fit(DATA, optimizer="adam", lr=0.01)


def test_saving_twice_gives_equal_bytes_and_so_does_saving_what_was_loaded() -> None:
    model, data = net()
    model.fit(data, optimizer="sgd", lr=0.01)
    data_saved = model.save()
    assert model.save() == data_saved
    assert Model.load(data_saved).save() == data_saved


def test_two_loads_are_independent() -> None:
    """F120."""
    one, two = Model.load(SMALL), Model.load(SMALL)
    one.write_buffer("w", [9.0])
    assert two.read_buffer("w").tolist() == [0.5]


def test_a_deepcopy_goes_on_by_itself(device: str) -> None:
    """Its state, its optimizer and its draws are the model's, and its own from then on."""
    model, data = net()
    model.fit(data, epochs=2, optimizer="adam", lr=0.01)
    other, before = copy.deepcopy(model), model.save()
    assert other.save() == before
    further = other.fit(data, epochs=2)
    assert model.save() == before
    assert model.fit(data, epochs=2) == further


def test_a_bundle_moves_between_devices() -> None:
    model, data = net()
    inputs = {k: data[k] for k in ("image", "word")}
    wanted = model.forward(inputs)["scores"]
    got = Model.load(model.save(), device="interp").forward(inputs)["scores"]
    np.testing.assert_allclose(got, wanted, atol=1e-5)


USE = """
import sys
from polygrad import Model
print(Model.load(sys.argv[1]).forward(x=[1, 2, 3, 4, 5])["prediction"].tolist())
"""


def test_a_new_process_needs_no_class(tmp_path: Path) -> None:
    """F121."""
    path = tmp_path / "line.pgb"
    path.write_bytes(SMALL)
    out = subprocess.run([sys.executable, "-c", USE, str(path)], capture_output=True, check=True)
    assert json.loads(out.stdout) == [1.5, 2.0, 2.5, 3.0, 3.5]


def test_any_zip_tool_reads_the_members() -> None:
    with zipfile.ZipFile(io.BytesIO(SMALL)) as z:
        assert z.namelist() == ["graph.json", "weights.safetensors", "manifest.json"]
        manifest = json.loads(z.read("manifest.json"))
    assert manifest["format"] == "polygrad.bundle"
    assert manifest["entrypoints"]["forward"]["inputs"] == ["x"]
    assert manifest["entrypoints"]["train"]["targets"] == ["y"]
    assert manifest["state"]["w"] == {"role": "param", "dtype": "float32", "shape": [1]}


def test_constants_come_back_by_their_bits() -> None:
    values = [0.1, -0.0, 1e-45, float("inf"), float("-inf")]
    model = Model(lambda x: {str(i): x + v for i, v in enumerate(values)}, inputs={"x": (1,)})
    graph = read_graph(model.save())
    written = [n[3] for n in graph["nodes"] if n[0] == "CONST"]
    assert float(np.float32(0.1)).hex() in written
    loaded = Model.load(model.save())
    for x in (0.0, -0.0, 1.0):
        a, b = model.forward(x=[x]), loaded.forward(x=[x])
        assert [a[n].tobytes() for n in a] == [b[n].tobytes() for n in b]


class Bytes:
    """Weights and constants of 8-bit floats."""

    def __init__(self) -> None:
        self.w = Tensor([0.5, 3.3, -0.0, 1000.0]).cast("float8_e4m3fn")

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        narrow = x.cast("float8_e5m2fnuz") + 1.3
        return {"product": x * self.w.float(), "sum": narrow.float(), "narrow": self.w * 2}


def test_eight_bit_floats_come_back() -> None:
    model = Model(Bytes(), inputs={"x": Tensor.empty(4)})
    loaded = Model.load(model.save())
    x = np.arange(1.0, 5.0, dtype=np.float32)
    a, b = model.forward(x=x), loaded.forward(x=x)
    assert [a[n].tobytes() for n in a] == [b[n].tobytes() for n in b]
    assert a["product"].tolist() == [0.5, 6.5, -0.0, 1792.0]
    assert a["narrow"].tolist() == [1.0, 6.5, -0.0, 448.0]


def test_metadata_is_kept() -> None:
    model = line()
    model.set_metadata("owner", {"name": "Ada", "numbers": [1, 2.5]})
    assert Model.load(model.save()).get_metadata("owner") == {"name": "Ada", "numbers": [1, 2.5]}


def test_inspecting_reads_no_weights() -> None:
    """A flipped weight is found when it is read, not before."""
    with Bundle(SMALL) as bundle:
        start = bundle.archive.members["weights.safetensors"].end - 1
    broken = bytearray(SMALL)
    broken[start] ^= 1
    with Bundle(bytes(broken)) as bundle:
        assert list(bundle.states) == ["w", "b"]
    with pytest.raises(BundleError, match=r"weights.safetensors.* was changed or damaged"):
        Model.load(bytes(broken))


# ---- weights alone


def test_weights_go_out_and_in() -> None:
    """F124, F127."""
    model, other = line(), line()
    model.write_buffer("w", [7.0])
    other.import_weights(model.export_weights())
    assert other.read_buffer("w").tolist() == [7.0]


# ---- what is not believed


def test_every_flipped_bit_is_refused() -> None:
    accepted = []
    for bit in range(len(SMALL) * 8):
        data = bytearray(SMALL)
        data[bit >> 3] ^= 1 << (bit & 7)
        try:
            Model.load(bytes(data))
        except BundleError:
            continue
        accepted.append(bit)
    assert accepted == []


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.pgb"
    ends = [e.end for e in Archive(FileSource.open(SMALL)).members.values()]
    for length in [*ends, *range(0, len(SMALL), 37)]:
        path.write_bytes(SMALL[:length])
        with pytest.raises(BundleError, match=r"short.pgb: .* \(offset \d+\)"):
            Model.load(path)


OTHER_FILES = {
    "empty": (b"", "is empty"),
    "no ZIP": (b"hello world, this is text", "is not a polygrad bundle"),
    "HTML": (b"<!DOCTYPE html>\n<html>404", "is an HTML or XML page"),
    "LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git lfs pull"),
    "GGUF": (b"GGUF\3\0\0\0" + bytes(200), "is a GGUF file"),
    "safetensors": (b"\x10\0\0\0\0\0\0\0{}" + bytes(200), "is a safetensors file"),
}


@pytest.mark.parametrize("case", OTHER_FILES)
def test_other_files_are_named(case: str, tmp_path: Path) -> None:
    data, text = OTHER_FILES[case]
    path = tmp_path / "model.pgb"
    path.write_bytes(data)
    with pytest.raises(BundleError, match=rf"model.pgb: {text}|model.pgb: .*{text}"):
        Model.load(path)


def test_a_missing_file_is_pythons_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Model.load(tmp_path / "no.pgb")


def read_graph(bundle: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(bundle)) as z:
        return json.loads(z.read("graph.json"))


def rewritten(
    change_manifest: Callable[[Any], None] = lambda m: None,
    change_graph: Callable[[Any], None] = lambda g: None,
    raw_graph: bytes | None = None,
) -> bytes:
    """SMALL with other content and right hashes: what an attacker can make."""
    with zipfile.ZipFile(io.BytesIO(SMALL)) as z:
        manifest, graph = json.loads(z.read("manifest.json")), json.loads(z.read("graph.json"))
        weights = z.read("weights.safetensors")
    change_graph(graph)
    members = {"graph.json": raw_graph or jsontext.dumps(graph), "weights.safetensors": weights}
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    manifest["members"] = {
        n: {"size": len(d), "sha256": writer.add(n, len(d), [d])} for n, d in members.items()
    }
    change_manifest(manifest)
    text = jsontext.dumps(manifest)
    writer.add("manifest.json", len(text), [text])
    writer.finish()
    return file.getvalue()


def test_rewriting_nothing_changes_nothing() -> None:
    assert rewritten() == SMALL


def put(**values: Any) -> Callable[[Any], None]:
    return lambda m: m.update(values)


MANIFESTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "format": (put(format="other"), "is not of the format"),
    "a newer major": (put(version=[2, 0]), r"version 2.0; this polygrad reads 1.x"),
    "version no number": (put(version=["1", 0]), "has no version"),
    "a required feature": (put(requires=["teleport"]), "asks for 'teleport'"),
    "a field missing": (lambda m: m.pop("state"), "lacks a field"),
    "a field too many": (put(more=1), "lacks a field"),
    "state no table": (put(state=[]), "lacks a field"),
    "role": (lambda m: m["state"]["w"].update(role="king"), "unknown role 'king' of 'w'"),
    "dtype": (lambda m: m["state"]["w"].update(dtype="float31"), "illegal dtype"),
    "shape": (lambda m: m["state"]["w"].update(shape=[-1]), "illegal shape"),
    "a huge shape": (lambda m: m["inputs"]["x"].update(shape=[1 << 60]), "illegal shape"),
    "other state": (lambda m: m["state"].pop("w"), "graph.json node"),
    "another size": (lambda m: m["members"]["graph.json"].update(size=1), "another size"),
    "another hash": (
        lambda m: m["members"]["graph.json"].update(sha256="0" * 64),
        "was changed or damaged",
    ),
    "no hash": (lambda m: m["members"]["graph.json"].update(sha256="x"), "no size and sha256"),
    "a member not listed": (lambda m: m["members"].pop("graph.json"), "lists other members"),
    "entrypoints": (lambda m: m["entrypoints"].pop("loss"), "describes other entrypoints"),
    "a target": (put(targets=["z"]), "a target that is no input"),
    "an alias": (put(aliases={"v": "z"}), "an alias of a state"),
    "the generator": (put(generator={"key": "-1", "counter": "0"}), "random generator"),
    "a mark of decay that says nothing": (
        lambda m: next(iter(m["state"].values())).update({"decays": True}),
        "illegal entry",
    ),
    "exempt parameters that are no names": (
        lambda m: m.update(
            optimizer={"name": "sgd", "lr": 0.1, "options": {}, "steps": 0, "exempt": [1]}
        ),
        "optimizer in a way it cannot be read",
    ),
    "a control name": (lambda m: m["state"].update({"a\nb": {}}), "illegal entry"),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_that_lies_is_refused(case: str) -> None:
    change, text = MANIFESTS[case]
    with pytest.raises(BundleError, match=text):
        Model.load(rewritten(change))


def test_a_newer_minor_is_read() -> None:
    """F123."""
    Model.load(rewritten(put(version=[1, 7])))


def node(op: str, *, new: Any) -> Callable[[Any], None]:
    """Replace the first node of an op."""

    def change(graph: Any) -> None:
        at = next(i for i, n in enumerate(graph["nodes"]) if n[0] == op)
        graph["nodes"][at] = new(graph["nodes"][at]) if callable(new) else new

    return change


GRAPHS: dict[str, tuple[Callable[[Any], None], str]] = {
    "no table": (lambda g: g.clear(), "no table of nodes"),
    "nodes no list": (put(nodes={}), "no table of nodes"),
    "unknown op": (node("MUL", new=["EXEC", "float32", [0, 0]]), "not well formed"),
    "op of another floor": (node("MUL", new=["STORE", "float32", [0, 0]]), "not well formed"),
    "custom kernel": (node("MUL", new=["KERNEL", "float32", [0], "x"]), "not well formed"),
    "copy": (node("MUL", new=["COPY", "float32", [0], "cpu"]), "not well formed"),
    "op no text": (node("MUL", new=[["MUL"], "float32", [0, 0]]), "not well formed"),
    "unknown dtype": (node("MUL", new=["MUL", "float31", [0, 0]]), "not well formed"),
    "index dtype": (node("MUL", new=["MUL", "index", [0, 0]]), "not well formed"),
    "forward reference": (node("MUL", new=["MUL", "float32", [0, 10_000]]), "not well formed"),
    "negative reference": (node("MUL", new=["MUL", "float32", [0, -1]]), "not well formed"),
    "a bool as reference": (node("MUL", new=["MUL", "float32", [True, 0]]), "not well formed"),
    "one source": (node("MUL", new=["MUL", "float32", [0]]), "not well formed"),
    "an argument too many": (node("MUL", new=["MUL", "float32", [0, 0], 1]), "not well formed"),
    "shapes apart": (node("MUL", new=["MUL", "float32", [0, 1]]), "not legal"),
    "dtypes apart": (node("MUL", new=["MUL", "int32", [0, 0]]), "not legal"),
    "unknown leaf": (
        node("LEAF", new=["LEAF", "float32", [], ["state", "z", 5]]),
        "not well formed",
    ),
    "leaf of other kind": (node("LEAF", new=["LEAF", "float32", [], ["file", "w", 1]]), "not well"),
    "leaf of another shape": (
        node("LEAF", new=["LEAF", "float32", [], ["input", "x", 6]]),
        "not well formed",
    ),
    "expand past the limit": (
        node("EXPAND", new=lambda n: [*n[:3], [1 << 61]]),
        "beyond the limits|not legal",
    ),
    "expand of an axis": (node("EXPAND", new=lambda n: [*n[:3], [0, 5]]), "not legal"),
    "reduce by an unknown op": (node("REDUCE", new=lambda n: [*n[:3], ["SUB", [0]]]), "not well"),
    "reduce over no axis of it": (node("REDUCE", new=lambda n: [*n[:3], ["ADD", [9]]]), "not well"),
    "reduce an axis twice": (node("REDUCE", new=lambda n: [*n[:3], ["ADD", [0, 0]]]), "not well"),
    "a constant of other spelling": (node("CONST", new=lambda n: [*n[:3], "0.2"]), "not well"),
    "a constant beyond its type": (node("CONST", new=lambda n: [*n[:3], "0x1p+1000"]), "not well"),
    "no entrypoint table": (put(entrypoints=[]), "no table of nodes"),
    "an output that is no node": (
        lambda g: g["entrypoints"]["forward"]["outputs"].update(prediction=10_000),
        "entrypoint 'forward' is not well formed",
    ),
    "an unknown input": (
        lambda g: g["entrypoints"]["forward"].update(inputs=["q"]),
        "an input that the manifest does not know",
    ),
    "writing a state of another shape": (
        lambda g: g["entrypoints"]["forward"].update(
            writes={"w": g["entrypoints"]["forward"]["outputs"]["prediction"]}
        ),
        "writes 'w' with another type",
    ),
    "reading an input that is not given": (
        lambda g: g["entrypoints"]["forward"].update(inputs=[]),
        "reads an input that it does not take|describes other entrypoints",
    ),
    "draws": (lambda g: g["entrypoints"]["forward"].update(draws=-1), "not well formed"),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_a_graph_that_lies_is_refused(case: str) -> None:
    change, text = GRAPHS[case]
    with pytest.raises(BundleError, match=text):
        Model.load(rewritten(change_graph=change))


@pytest.mark.parametrize(
    "raw", [b"", b"[", b'{"a":1,"a":2}', b'{"a":NaN}', b"[" * 1000, b"\xff", b'{"a":' + b"1" * 9999]
)
def test_a_graph_that_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(BundleError, match="graph.json"):
        Model.load(rewritten(raw_graph=raw or b" "))


WINDOWS = [
    ["WINDOW", "float32", [0], [0, 2, 0, 1]],
    ["WINDOW", "float32", [0], [0, 0, 1, 1]],
    ["WINDOW", "float32", [0], [7, 1, 1, 1]],
    ["WINDOW", "float32", [0], [0, 99, 1, 1]],
    ["SHRINK", "float32", [0], [[0, 5, 0]]],
    ["SHRINK", "float32", [0], [[3, 1, 1]]],
    ["SHRINK", "float32", [0], [[0, 1 << 61, 1]]],
    ["PAD", "float32", [0], [[-1, 0, 0]]],
    ["PAD", "float32", [0], [[0, 0]]],
    ["PERMUTE", "float32", [0], [1]],
    ["FLIP", "float32", [0], [3]],
    ["RESHAPE", "float32", [0], [2, 2]],
    ["RESHAPE", "float32", [0], [-5]],
    ["GATHER", "float32", [0, 0], 0],
    ["GATHER", "float32", [0, 0], 5],
    ["SCATTER", "float32", [0, 0, 0], [0, "replace"]],
    ["IOTA", "int32", [], 1 << 61],
    ["IOTA", "int32", [], -1],
    ["BITCAST", "float64", [0]],
    ["BITCAST", "float16", [0]],
    ["WHERE", "float32", [0, 0, 0]],
    ["EXP", "int32", [0]],
    ["EXP", "float32", [0], "grow"],
    ["SHL", "float32", [0, 0]],
    ["THREEFRY", "uint32", [0, 0, 0]],
    ["UNIQUE", "void", [], 0],
    ["UNIQUE", "float32", [], 1],
    ["CONST", "float32", [0], "0x1.0p+0"],
    ["CONST", "bool", [], 1],
    ["CONST", "int8", [], 300],
    ["CONST", "int32", [], True],
]


@pytest.mark.parametrize("bad", WINDOWS, ids=lambda n: f"{n[0]}-{n[-1]}")
def test_a_node_with_a_wrong_argument_is_refused(bad: Any) -> None:
    """Node 0 is the input x of shape (5,); the bad node stands behind it, used by nobody."""

    def insert(graph: Any) -> None:
        graph["nodes"].append(bad)

    with pytest.raises(BundleError, match="graph.json (node|is not legal)"):
        Model.load(rewritten(change_graph=insert))
