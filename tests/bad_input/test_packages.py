"""A device whose package is broken: told with the package, at the line that names it; the other
devices go on working."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import pytest

from polygrad import errors

from .mistake import Chapter, Mistake, check_told, prepared, run, values

CHAPTER = Chapter("Packages", "", (), "x = Tensor([1.0])")


class Broken(NamedTuple):
    """A package's code, how it is installed, and what naming its device is told."""

    code: str
    error: type[errors.PolygradError]
    text: str
    options: dict[str, Any] = {}  # noqa: RUF012 - read only
    chained: bool = False  # to the error of the package, which is printed above ours


MACHINE = """
from polygrad.device.interp import InterpDevice as Machine
from polygrad.plugin import Probe
def probe(): return Probe(True)
"""
HALF = """
from polygrad.plugin import Device, Probe
class Machine(Device):
    @classmethod
    def open(cls, index, options): return cls()
def probe(): return Probe(True)
"""
PACKAGES = {
    "cannot be imported": Broken(
        "import libacme_that_is_not_there",
        errors.PluginLoadError,
        "device 'acme' (acme-npu 1.0, acme_npu:plugin) failed to load: ModuleNotFoundError:"
        " No module named 'libacme_that_is_not_there'. Disable: POLY_PLUGINS=-acme",
        chained=True,
    ),
    "exits when imported": Broken(
        "raise SystemExit(3)",
        errors.PluginLoadError,
        "device 'acme' (acme-npu 1.0, acme_npu:plugin) failed to load: SystemExit: 3."
        " Disable: POLY_PLUGINS=-acme",
        chained=True,
    ),
    "has no driver": Broken(
        "from polygrad.plugin import Probe\n"
        "def probe(): return Probe(False, detail='libacme.so.3 not found', hint='install it')",
        errors.DeviceUnavailable,
        "device 'acme' (acme-npu 1.0) cannot be used: libacme.so.3 not found. Hint: install it.",
    ),
    "has a probe that raises": Broken(
        "def probe(): raise OSError('no such bus')",
        errors.DeviceUnavailable,
        "device 'acme' (acme-npu 1.0) cannot be used: its probe raised OSError: no such bus.",
    ),
    "fails when opened": Broken(
        MACHINE.replace("as Machine", "") + "class Machine(InterpDevice):\n"
        "    @classmethod\n"
        "    def open(cls, index, options): raise OSError('device busy')",
        errors.DeviceUnavailable,
        "device 'acme' (acme-npu 1.0) cannot be used: OSError: device busy.",
        chained=True,
    ),
    "is half written": Broken(
        HALF,
        errors.DeviceContractError,
        "device 'acme' (acme-npu 1.0): Machine lacks load(); polygrad/plugin.py says what each must"
        " do.",
    ),
    "gives no descriptor": Broken(
        "plugin = 5",
        errors.PluginInvalid,
        "acme_npu:plugin is an int, expected DevicePlugin.",
    ),
    "has another name": Broken(
        "plugin = plugin._replace(name='emca') if hasattr(plugin, '_replace') else"
        " __import__('dataclasses').replace(plugin, name='emca')",
        errors.PluginInvalid,
        "acme_npu:plugin calls itself 'emca', its entry point says 'acme'.",
    ),
    "needs a later polygrad": Broken(
        "",
        errors.PluginIncompatible,
        "acme-npu 1.0 needs plugin API 9.0; polygrad-core 0.1.0 offers 1.0."
        ' Run: pip install -U polygrad-core, or pip install "acme-npu<1.0".',
        {"api": (9, 0)},
    ),
}


@pytest.mark.parametrize("case", PACKAGES)
def test_a_package_that(case: str, install: Any) -> None:
    broken = PACKAGES[case]
    install("acme-npu", code=broken.code, **broken.options)
    mistake = Mistake(case, 'x.to("acme").realize()', broken.error, broken.text)
    outcome = run(CHAPTER, mistake)
    own = outcome._replace(lines=own_lines(outcome.lines))
    check_told(mistake, own)
    assert (len(own.lines) < len(outcome.lines)) == broken.chained
    assert not any("/polygrad/" in line for line in theirs(outcome.lines))
    assert outcome.after == outcome.before
    assert values(outcome.names) == values(prepared(CHAPTER, mistake))
    exec('x.to("interp").realize()', outcome.names)


def own_lines(lines: list[str]) -> list[str]:
    """The traceback of our error, without that of its cause above it."""
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback")]
    return lines[starts[-1] :]


def theirs(lines: list[str]) -> list[str]:
    return [line for line in lines[: -len(own_lines(lines))] if line.startswith("  File")]


def test_two_packages_of_one_name(install: Any) -> None:
    install("acme-npu")
    install("dup-npu")
    told = (
        "two packages provide the device 'acme': acme-npu 1.0 (acme_npu:plugin), dup-npu 1.0"
        " (dup_npu:plugin). Uninstall one, or set POLY_PLUGIN_PREFER=acme=acme-npu."
    )
    mistake = Mistake("two", 'x.to("acme")', errors.PluginConflict, told)
    check_told(mistake, run(CHAPTER, mistake))


def test_a_stranger_under_a_name_that_is_taken(install: Any) -> None:
    install("evil-npu", name="cuda")
    told = "evil-npu 1.0 may not provide the device 'cuda': that name belongs to"
    mistake = Mistake(
        "evil", 'x.to("cuda")', errors.PluginReserved, f"{told} polygrad-backend-cuda."
    )
    check_told(mistake, run(CHAPTER, mistake))


def test_full_tracebacks_are_there_for_the_asking(install: Any) -> None:
    install("acme-npu", code="import libacme_that_is_not_there")
    mistake = Mistake("full", 'x.to("acme")', errors.PluginLoadError, "")
    quiet = run(CHAPTER, mistake)
    from polygrad import Context

    with Context(POLY_TRACEBACK="full"):
        full = run(CHAPTER, mistake)
    assert len(full.files) > len(quiet.files) + (sys.version_info < (3, 11))
    assert any("registry.py" in file for file in full.files)
