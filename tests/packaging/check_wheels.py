"""Compare the wheels and sdists in a folder with the source tree: nothing missing, nothing more.

python tests/packaging/check_wheels.py dist
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {
    "polygrad": None,
    "polygrad_core": ROOT / "polygrad-core/src",
    "polygrad_backend_cpu": ROOT / "polygrad-backend-cpu/src",
}
METADATA = {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE"}


def source_files(source: Path | None) -> set[str]:
    if source is None:
        return set()
    paths = (path for path in source.rglob("*") if path.is_file())
    return {
        path.relative_to(source).as_posix()
        for path in paths
        if path.suffix in (".py", ".toml", ".md") or path.name == "py.typed"
    }


def wheel_problems(wheel: Path) -> list[str]:
    name, version = wheel.name.split("-")[:2]
    source = SOURCES[name]
    info = f"{name}-{version}.dist-info/"
    expected = source_files(source) | {info + member for member in METADATA}
    if source is not None:
        expected.add(info + "entry_points.txt")
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
    problems = [f"{wheel.name} lacks {member}" for member in sorted(expected - found)]
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
