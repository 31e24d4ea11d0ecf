"""Sessions of the development work: `nox -l` lists them, `nox -s NAME` runs one.

Our packages are always installed by path, all in one command and without their dependencies; what
they depend on is read from their own pyproject files and installed beside them. So no index is
ever asked for a package of ours.
"""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = True
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "typecheck", "core", "tests"]

ROOT = Path(__file__).parent
CORE, CPU = "polygrad-core", "polygrad-backend-cpu"
EVERY = (CORE, CPU)
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")


def groups(*names: str) -> list[str]:
    return list(nox.project.dependency_groups(PROJECT, *names))


def dependencies(*dists: str) -> list[str]:
    """What `dists` depend on, packages of ours left out."""
    found: list[str] = []
    for dist in dists:
        project = nox.project.load_toml(ROOT / dist / "pyproject.toml")["project"]
        found += [d for d in project["dependencies"] if not d.startswith("polygrad")]
    return found


def install(session: nox.Session, *dists: str, extra: list[str] | None = None) -> None:
    """Editable installs of `dists` by path, their dependencies, and `extra`."""
    session.install("hatchling>=1.27", "editables", *dependencies(*dists), *(extra or []))
    paths = [part for dist in dists for part in ("-e", str(ROOT / dist))]
    session.install("--no-deps", "--no-build-isolation", *paths)
    session.run("python", "-c", _IN_TREE, str(ROOT), silent=True)


_IN_TREE = """
import sys, pathlib, polygrad
assert pathlib.Path(sys.argv[1]) in pathlib.Path(polygrad.__file__).parents, polygrad.__file__
"""


@nox.session
def demo(session: nox.Session) -> None:
    """Train on real handwritten digits, save, and run the saved model in a new process."""
    install(session, *EVERY, extra=["scikit-learn>=1.4", "tqdm>=4.60"])
    session.run("python", "examples/digits.py", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """All tests on the devices interp and cpu; the oracle is numpy and scipy. Then the fuzzers."""
    install(session, *EVERY, extra=groups("test"))
    if session.posargs:
        session.run("pytest", "--require-device", *session.posargs)
        return
    session.run("pytest", "tests", "--require-device", "-q", "-n", "2", "--dist", "worksteal")
    fuzz(session, "symbolic", "-n", "50000")
    fuzz(session, "programs", "-n", "1600", "--devices", "interp,cpu")
    for width in ("16", "64"):  # the kernels of other machines
        fuzz(session, "programs", "-n", "200", "--devices", "cpu", POLY_CPU_VECTOR=width)


def fuzz(session: nox.Session, kind: str, *options: str, **settings: str) -> None:
    """Other cases each day, the same all day long; the fuzzer prints the seed."""
    seed = str(date.today().toordinal() * 10_000)
    command = ("python", "-m", "polygrad.testing.fuzz", kind, *options, "--seed", seed)
    session.run(*command, env=settings)


@nox.session
def toolchains(session: nox.Session) -> None:
    """The tests of generated code and the program fuzzer by C compilers: gcc and zig, or others."""
    install(session, *EVERY, extra=[*groups("test"), "ziglang>=0.13"])
    for name in session.posargs or ("gcc", "zig"):
        session.env["POLY_CPU_TOOLCHAIN"] = name
        session.run("pytest", *_GENERATED, "--device", "cpu", "-q", "-n", "2")
        fuzz(session, "programs", "-n", "500", "--devices", "cpu")


_GENERATED = ("tests/cpu", "tests/codegen", "tests/numerics", "tests/tensor", "tests/engine")


@nox.session
def tsan(session: nox.Session) -> None:
    """The executor under ThreadSanitizer, which must be clean; needs clang, gcc and its libtsan."""
    install(session, *EVERY, extra=groups("test"))
    session.run("pytest", "tests/sanitize", "-q", *session.posargs)


@nox.session
def peers(session: nox.Session) -> None:
    """Comparisons with other tensor libraries, each pinned to one exact version."""
    install(session, *EVERY, extra=groups("test", "peers"))
    session.run("pytest", "tests/peers", "--require-device", "-q", "-n", "2", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, spelling, and the contracts of the floors."""
    install(session, *EVERY, extra=groups("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell", "--toml", "pyproject.toml", *_written())
    session.run("lint-imports")


def _written() -> list[str]:
    """What people wrote. Not the tests, which misspell names to see what is offered instead."""
    known = ("README.md", "CHANGELOG.md", "noxfile.py", "docs", "examples", "benchmarks")
    return [name for name in (*known, *EVERY) if (ROOT / name).exists()]


@nox.session
def typecheck(session: nox.Session) -> None:
    """mypy --strict on our packages; mypy and basedpyright on what users may rely on."""
    install(session, *EVERY, extra=groups("types"))
    session.run("mypy")
    session.run("mypy", "tests/typing")
    session.run("basedpyright", "tests/typing")


@nox.session
def conformance(session: nox.Session) -> None:
    """The kit on the devices of ours and on a stranger's, which lacks much."""
    install(session, *EVERY, extra=groups("test"))
    session.install("--no-deps", "--no-build-isolation", str(ROOT / "tests/sample-backend"))
    for device in session.posargs or ("interp", "cpu", "sample"):
        session.run("polygrad", "conformance", device)


@nox.session
def core(session: nox.Session) -> None:
    """Only the core's wheel in a clean environment, without numpy: it works, on interp alone."""
    dist = Path(session.create_tmp()) / "core"
    shutil.rmtree(dist, ignore_errors=True)
    session.install("build>=1.2", "hatchling>=1.27", "pytest>=8.2")
    session.run("python", "-m", "build", "-q", "-n", "-w", "-o", str(dist), str(ROOT / CORE))
    (wheel,) = dist.glob("*.whl")
    session.install("--no-deps", "--force-reinstall", str(wheel))
    session.run(
        "pytest", "tests/minimal", "-q", "-p", "no:cacheprovider", "--confcutdir=tests/minimal",
        *session.posargs,
    )  # fmt: skip


@nox.session
def build(session: nox.Session) -> None:
    """sdist and a wheel made from it for each package, contents checked, installed offline."""
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    session.install(*groups("build"))
    for dist in (".", *EVERY):
        # Without -s and -w, build makes the wheel from the sdist it has just made.
        session.run("python", "-m", "build", "-q", "-n", "-o", str(out), str(ROOT / dist))
    session.run("twine", "check", "--strict", *map(str, sorted(out.iterdir())))
    session.run("python", "tests/packaging/check_wheels.py", str(out))
    clean = Path(session.create_tmp()) / "clean"
    shutil.rmtree(clean, ignore_errors=True)
    session.run("python", "-m", "venv", str(clean))
    python = str(
        clean / ("Scripts" if session.virtualenv.location.endswith("\\") else "bin") / "python"
    )
    outside = dependencies(*EVERY)
    session.run(python, "-m", "pip", "install", "-q", *outside, external=True)
    session.run(
        python, "-m", "pip", "install", "-q", "--no-index", "--find-links", str(out), "polygrad",
        external=True,
    )  # fmt: skip
    session.run(python, "-m", "pip", "check", external=True)
    session.run(python, "tests/packaging/smoke.py", external=True)


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant faults in the rewriter and the scheduler; the program fuzzer must find every one."""
    install(session, *EVERY, extra=groups("test"))
    session.run("python", "-m", "polygrad.testing.mutants", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Our times beside those of torch, numpy, jax and tinygrad, turn by turn in one run."""
    install(session, *EVERY, extra=groups("test", "benchmarks"))
    session.run("python", "-m", "benchmarks", *(session.posargs or ["cpu"]))


@nox.session
def dev(session: nox.Session) -> None:
    """One virtual environment, .venv, with everything editable and every tool."""
    session.run("python", "-m", "venv", ".venv")
    python = str(ROOT / ".venv" / "bin" / "python")
    extra = ["hatchling>=1.27", "editables", *dependencies(*EVERY), *groups("dev")]
    session.run(python, "-m", "pip", "install", "-q", *extra, external=True)
    paths = [part for dist in EVERY for part in ("-e", str(ROOT / dist))]
    session.run(
        python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", *paths,
        external=True,
    )  # fmt: skip


@nox.session
def hostile(session: nox.Session) -> None:
    """Packages that do what none should, installed beside ours; each gets its message."""
    install(session, *EVERY, extra=["pip", *groups("test")])
    session.run("pytest", "tests/hostile", "-q", *session.posargs)


@nox.session
def discovery(session: nox.Session) -> None:
    """Looking for plugins among 300 and 1000 distributions stays within its budget of CPU time."""
    install(session, *EVERY, extra=groups("test"))
    session.run("pytest", "tests/discovery", "-q", *session.posargs)


@nox.session(python="3.10")
def minimums(session: nox.Session) -> None:
    """The oldest Python, and the lowest versions of what we depend on."""
    lowest = [d.replace(">=", "==") for d in dependencies(*EVERY)]
    install(session, *EVERY, extra=["pip", *lowest, *groups("test")])
    rooms = session.posargs or ["core", "cpu", "engine", "plugins", "cli", "device", "model"]
    session.run("pytest", *(f"tests/{room}" for room in rooms), "-q", "-n", "2")
