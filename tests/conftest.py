"""Options and fixtures of all tests: which devices they run on, and a random generator that
repeats.

`--device NAME` (several times) replaces the devices that the `device` fixture runs each test on. A
device named this way, or any with `--require-device`, must work: where it does not the test fails.
Without either, a device that cannot be used on this machine is skipped, with its own reason.
"""

from __future__ import annotations

import sys
import textwrap
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from polygrad import Context
from polygrad.errors import PolygradError

DEVICES = ("interp", "cpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("polygrad")
    group.addoption(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="run device tests on NAME, which must work; several times for several",
    )
    group.addoption(
        "--require-device", action="store_true", help="a device that does not work fails its tests"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--device")
        metafunc.parametrize("device", asked or DEVICES, indirect=True)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the device that the test's tensors are on by default; every graph is checked."""
    from polygrad.device import default

    name: str = request.param
    config = request.config
    with Context(POLY_DEV=name, POLY_SPEC=1):
        try:
            default()
        except PolygradError as error:
            if config.getoption("--device") or config.getoption("--require-device"):
                pytest.fail(str(error), pytrace=False)
            pytest.skip(str(error))
        yield name


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded by the test's own name: the same numbers on every run and in any order."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


# ---- strangers' packages


DESCRIPTOR = """
from polygrad.plugin import DevicePlugin
plugin = DevicePlugin(name="{name}", api={api}, device="{module}:Machine", probe="{module}:probe")
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install("acme-npu", "1.2.0", "acme", code)`: a distribution with one device. Its metadata
    are real, in a temporary folder, and found through `sys.path`."""
    from polygrad import device, registry

    monkeypatch.syspath_prepend(tmp_path)
    modules: list[str] = []

    def install(
        dist: str,
        version: str = "1.0",
        name: str = "acme",
        code: str | None = None,
        *,
        api: tuple[int, int] = (1, 0),
        group: str = "polygrad.devices",
        attribute: str = "plugin",
    ) -> None:
        module = dist.replace("-", "_")
        info = tmp_path / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{attribute}\n")
        text = DESCRIPTOR.format(name=name, api=api, module=module) + textwrap.dedent(code or "")
        (tmp_path / f"{module}.py").write_text(text)
        modules.append(module)
        registry.refresh()

    with device.isolated():
        yield install
    for module in modules:
        sys.modules.pop(module, None)
    monkeypatch.undo()
    registry.refresh()
