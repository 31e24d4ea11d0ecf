"""The keys of the disk cache: whatever decides the code is in them, so nothing stale is run."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import polygrad
from polygrad import device as devices
from polygrad.contract import Source
from polygrad.dtype import dtypes
from polygrad.engine import keys
from polygrad.target import MatrixUnit, Target
from polygrad.uop.ops import Ops

CORE = Path(polygrad.__file__).parent


def target(**changes: Any) -> Target:
    return Target(name="acme", arch="acme-1", ops={Ops.ADD: frozenset({dtypes.int32})}, **changes)


def machine(**changes: Any) -> Any:
    """A stand-in for a device, with what a key is made from."""
    device = SimpleNamespace(target=target())
    device.renderer, device.compiler = SimpleNamespace(key="text-1"), SimpleNamespace(key="tool-1")
    for name, value in changes.items():
        owner, _, attribute = name.partition("_")
        setattr(getattr(device, owner) if attribute else device, attribute or name, value)
    return device


def both(device: Any) -> tuple[bytes, bytes]:
    """The keys of a kernel and of a text."""
    names = ["k_1"]
    return (
        keys.of_kernels("kernels", device, device.target, names),
        keys.of_source(device, Source("text", {"k_1": "k_1"})),
    )


# ---- what is no file


@pytest.mark.parametrize("part", ["renderer_key", "compiler_key"])
def test_renderer_and_toolchain_are_in_both_keys(part: str) -> None:
    before, after = both(machine()), both(machine(**{part: "another"}))
    assert before == both(machine()) and before[0] != after[0] and before[1] != after[1]


OTHER: dict[str, Any] = {
    "ops": {Ops.ADD: frozenset({dtypes.int32, dtypes.int8})},
    "ulp": {(Ops.EXP, dtypes.float32): 1.0},
    "exact": frozenset({"nan"}),
    "memory_bytes": (4, 8),
    "cache_bytes": (1, 2),
    "max_grid": (1, 2, 3),
    "max_block": (4, 1, 1),
    "atomics": frozenset({(Ops.ADD, dtypes.int32)}),
    "matrix_units": (MatrixUnit("m", 8, 8, 4, dtypes.float16, dtypes.float16, dtypes.float32, 32),),
}


@pytest.mark.parametrize("field", [f.name for f in fields(Target)])
def test_every_field_of_a_target_is_in_the_key_of_kernels(field: str) -> None:
    old = getattr(target(), field)
    if field in OTHER:
        new = OTHER[field]
    else:
        new = not old if isinstance(old, bool) else f"{old}x" if isinstance(old, str) else old + 1
    changed = both(machine(target=replace(target(), **{field: new})))
    assert changed[0] != both(machine())[0]


def test_names_and_texts_are_in_the_keys() -> None:
    one = machine()
    names = [["k_1"], ["k_2"], ["k_1", "k_2"], ["k_1k_2"]]
    assert len({keys.of_kernels("kernels", one, one.target, n) for n in names}) == len(names)
    texts = ["text", "texts", b"texts "]
    assert len({keys.of_source(one, Source(t, {})) for t in texts}) == len(texts)


# ---- files


def imported(path: Path) -> Iterator[Path]:
    """The files of the core that a file of it, or of a backend, imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = path.parents[node.level - 1]
            elif (node.module or "").partition(".")[0] == "polygrad":
                base = CORE.parent
            else:
                continue
            module = base.joinpath(*(node.module or "").split(".")) if node.module else base
            for name in node.names:
                places = [module / f"{name.name}.py", module / name.name / "__init__.py",
                          module.with_suffix(".py"), module / "__init__.py"]  # fmt: skip
                yield from [p for p in places if p.exists() and CORE in p.parents][:1]


def test_every_file_that_generates_code_is_in_the_key() -> None:
    """Whatever `codegen` imports, through however many files."""
    rooms = [CORE / room for room in keys.ROOMS]
    assert all(room.exists() for room in rooms)
    waiting, seen = [*(CORE / "codegen").rglob("*.py")], set[Path]()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += imported(path)
    assert len(seen) > 60
    outside = {p for p in seen if not any(room in (p, *p.parents) for room in rooms)}
    assert {p.relative_to(CORE).as_posix() for p in outside} == set()


def test_every_file_that_a_backend_prints_and_compiles_with_is_in_the_key() -> None:
    cpu = pytest.importorskip("polygrad_backend_cpu")
    rooms = [CORE / room for room in keys.ROOMS]
    used = {q for p in Path(cpu.__file__).parent.rglob("*.py") for q in imported(p)}
    outside = {p for p in used if not any(room in (p, *p.parents) for room in rooms)}
    # `from polygrad import settings` names the package, whose face only hands names on.
    assert {p.relative_to(CORE).as_posix() for p in outside} <= {"__init__.py"}
    assert keys._packages(devices.get("cpu")) == ("polygrad_backend_cpu",)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "acme"
    for name in ("__init__.py", "render.py", "_private/tables.py", "_private/__init__.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("X = 1\n")
    (root / "native.so").write_bytes(b"\x7fELF")
    return root


def rewritten(path: Path, data: bytes) -> None:
    """Another content of the same length and the same time."""
    info = path.stat()
    assert len(data) == info.st_size
    path.write_bytes(data)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


@pytest.mark.parametrize("name", ["render.py", "_private/tables.py", "native.so"])
def test_any_edit_of_any_file_counts(package: Path, name: str) -> None:
    before = keys.contents([str(package)])
    data = (package / name).read_bytes()
    rewritten(package / name, data[:-1] + b"#")
    assert keys.contents([str(package)]) != before
    rewritten(package / name, data)
    assert keys.contents([str(package)]) == before
    (package / name).rename(package / "other.py")
    assert keys.contents([str(package)]) != before


def test_the_place_of_a_package_and_what_python_keeps_there_do_not_count(
    package: Path, tmp_path: Path
) -> None:
    before = keys.contents([str(package)])
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "render.pyc").write_bytes(b"1")
    moved = tmp_path / "elsewhere" / "acme"
    shutil.copytree(package, moved)
    assert keys.contents([str(moved)]) == before == keys.contents([str(package)])


def test_a_package_in_an_archive_is_that_archive(package: Path, tmp_path: Path) -> None:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(package / "render.py", "acme/render.py")
    inside = [str(archive / "acme" / "render.py"), str(archive / "acme")]
    before = keys.contents(inside)
    assert before and before == keys.contents([str(archive)])
    with zipfile.ZipFile(archive, "a") as file:
        file.write(package / "native.so", "acme/native.so")
    assert keys.contents(inside) != before


def test_what_cannot_be_read_has_no_key(tmp_path: Path) -> None:
    assert keys.contents([str(tmp_path / "gone" / "file.py")]) == ""


# ---- whose files


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    def make(name: str, file: str | None, package: bool) -> ModuleType:
        made = ModuleType(name)
        if file is not None:
            made.__file__ = file
        if package:
            made.__path__ = []
        monkeypatch.setitem(sys.modules, name, made)
        return made

    return make


def kind(module: str, *bases: type) -> type:
    return type("Made", bases, {"__module__": module})


def test_a_device_is_made_by_the_packages_of_its_classes(module: Any) -> None:
    module("acme", None, True)  # a namespace
    module("acme.npu", "/at/acme/npu/__init__.py", True)
    module("acme.npu.device", "/at/acme/npu/device.py", False)
    module("single", "/at/single.py", False)
    module("base", "/at/base/__init__.py", True)
    found: Any = kind("acme.npu.device")()
    found.renderer, found.compiler = kind("single", kind("base"))(), found
    assert keys._packages(found) == ("acme.npu", "base", "single")
    assert [keys._place(name) for name in ("acme.npu", "base", "single")] == [
        "/at/acme/npu", "/at/base", "/at/single.py",
    ]  # fmt: skip


def test_code_of_classes_without_a_file_is_not_kept(module: Any) -> None:
    module("typed_in", None, False)
    one = machine(renderer=kind("typed_in")(), compiler=kind("typed_in")())
    assert not keys.known(one)
    assert keys.known(devices.get("cpu"))


# ---- the whole way


_RUN = """
from polygrad import Tensor
from polygrad.engine.counters import counters
assert (Tensor([1.0, 2.0]) * 3 + 1).tolist() == [4.0, 7.0]
print(counters.kernels_lowered, counters.kernels_compiled)
"""


def test_an_edited_compiler_uses_nothing_of_the_old_one(tmp_path: Path) -> None:
    cpu = pytest.importorskip("polygrad_backend_cpu")
    for package in (CORE, Path(cpu.__file__).parent):
        shutil.copytree(package, tmp_path / package.name)

    def run(**settings: str) -> list[int]:
        env = {
            **os.environ, "PYTHONPATH": str(tmp_path), "POLY_DEV": "cpu",
            "POLY_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "",
            **settings,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", _RUN], env=env, check=True, capture_output=True
        )
        return [int(n) for n in done.stdout.split()]

    def edit(path: str) -> None:
        with open(tmp_path / path, "a", encoding="utf-8") as file:
            file.write("# edited\n")

    assert [run(), run()] == [[1, 1], [0, 0]]
    edit("polygrad/float_layout.py")
    assert [run(), run()] == [[1, 0], [0, 0]]  # the same text: its object is the same
    edit("polygrad_backend_cpu/compile.py")
    assert [run(), run()] == [[1, 1], [0, 0]]
    other = "16" if devices.get("cpu").target.vector_bytes != 16 else "32"
    assert [run(POLY_CPU_VECTOR=other), run(POLY_CPU_VECTOR=other)] == [[1, 1], [0, 0]]
