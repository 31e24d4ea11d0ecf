"""A world of strangers' packages: real metadata in a temporary folder, found through `sys.path`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from polygrad import device, registry

DESCRIPTOR = """
from polygrad.plugin import DevicePlugin
plugin = DevicePlugin(name="{name}", api={api}, device="{module}:Machine", probe="{module}:probe")
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install("acme-npu", "1.2.0", "acme", code)`: a distribution with one device."""
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
