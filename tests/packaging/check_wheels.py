"""Compare the wheels and sdists in a folder with what is committed: nothing missing, nothing more.

Files are those that git knows (of the tree, where there is no git); what each package needs and
offers stands in GOLDEN.

python tests/packaging/check_wheels.py dist
"""

from __future__ import annotations

import configparser
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {
    "polygrad": None,
    "polygrad_core": ROOT / "polygrad-core/src",
    "polygrad_backend_cpu": ROOT / "polygrad-backend-cpu/src",
}
# distribution -> (what it needs, its extras, its entry points)
GOLDEN: dict[str, tuple[set[str], set[str], dict[str, set[str]]]] = {
    "polygrad": ({"polygrad-core==", "polygrad-backend-cpu=="}, set(), {}),
    "polygrad_core": (
        {"numpy>=1.26", "pluggy>=1.5"},
        {"plot", "progress", "testing"},
        {"console_scripts": {"polygrad"}, "polygrad.devices": {"interp"}},
    ),
    "polygrad_backend_cpu": (
        {"polygrad-core~=", "llvmlite>=0.45"},
        {"c", "zig"},
        {"polygrad.devices": {"cpu"}},
    ),
}
METADATA = {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE"}


def source_files(source: Path | None) -> set[str]:
    if source is None:
        return set()
    known = committed()
    paths = (path for path in source.rglob("*") if path.is_file())
    paths = (path for path in paths if known is None or path in known)
    return {
        path.relative_to(source).as_posix()
        for path in paths
        if path.suffix in (".py", ".toml", ".md") or path.name == "py.typed"
    }


@cache
def committed() -> set[Path] | None:
    """The files that git knows; None where this is no repository."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return {ROOT / name for name in done.stdout.split("\0") if name}


def metadata_problems(archive: zipfile.ZipFile, wheel: str, info: str) -> list[str]:
    """Where what a wheel says of itself is not what GOLDEN has."""
    name, version = wheel.split("-")[:2]
    needs, extras, offers = GOLDEN[name]
    said = Parser().parsestr(archive.read(info + "METADATA").decode())
    required = [r.partition(";") for r in said.get_all("Requires-Dist", [])]
    mine = {r.strip().replace(version, "") for r, _, marker in required if "extra" not in marker}
    found = configparser.ConfigParser()
    if info + "entry_points.txt" in archive.namelist():
        found.read_string(archive.read(info + "entry_points.txt").decode())
    entries = {group: set(found[group]) for group in found.sections()}
    pairs = {
        "requires": (mine, needs),
        "has the extras": (set(said.get_all("Provides-Extra", [])), extras),
        "has the entry points": (entries, offers),
    }
    return [
        f"{wheel} {what} {is_!r}, not {should!r}"
        for what, (is_, should) in pairs.items()
        if is_ != should
    ]


def wheel_problems(wheel: Path) -> list[str]:
    name, version = wheel.name.split("-")[:2]
    source = SOURCES[name]
    info = f"{name}-{version}.dist-info/"
    expected = source_files(source) | {info + member for member in METADATA}
    if source is not None:
        expected.add(info + "entry_points.txt")
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
        wrong = metadata_problems(archive, wheel.name, info)
    problems = wrong + [f"{wheel.name} lacks {member}" for member in sorted(expected - found)]
    problems += [f"{wheel.name} should not hold {member}" for member in sorted(found - expected)]
    return problems


def sdist_problems(sdist: Path) -> list[str]:
    name = sdist.name.rsplit("-", 1)[0]
    source = SOURCES[name]
    expected = {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO", ".gitignore"}
    expected |= {"src/" + member for member in source_files(source)}
    with tarfile.open(sdist) as archive:
        found = {member.name.partition("/")[2] for member in archive if member.isfile()}
    problems = [f"{sdist.name} lacks {m}" for m in sorted(expected - found - {".gitignore"})]
    problems += [f"{sdist.name} should not hold {m}" for m in sorted(found - expected)]
    return problems


def main(folder: Path) -> int:
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    problems = [problem for wheel in wheels for problem in wheel_problems(wheel)]
    problems += [problem for sdist in sdists for problem in sdist_problems(sdist)]
    if {wheel.name.split("-")[0] for wheel in wheels} != set(SOURCES):
        problems.append(f"expected one wheel each of {', '.join(SOURCES)}")
    print("\n".join(problems) or f"{len(wheels)} wheels and {len(sdists)} sdists hold the tree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
