"""The package around the device: its descriptor, its probe, and what importing them costs.

What must not happen in the process under test (imports, output, crashes) is looked at in a child.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from ... import registry, settings
from ...plugin import API, SUPPORTED, DevicePlugin
from ...target import Target
from .check import Check, Subject, expect, expect_equal

SECONDS = 60

DESCRIPTOR = """
import json, sys
import polygrad.plugin
before = set(sys.modules)
from importlib import import_module
module, _, attribute = sys.argv[1].partition(":")
getattr(import_module(module), attribute)
stdlib = sys.stdlib_module_names
own = module.partition(".")[0]
print("\\n" + json.dumps(sorted(
    name for name in set(sys.modules) - before
    if name.partition(".")[0] not in stdlib and name.partition(".")[0] != own
    and not (own != "polygrad" and name == "polygrad.plugin")
)))
"""
PROBE = """
import json, sys, time
from polygrad.registry import resolve
probe = resolve(sys.argv[1])
start = time.perf_counter()
found = probe()
print("\\n" + json.dumps([type(found).__name__, found.ok, time.perf_counter() - start]))
"""
OTHER = """
import json, sys
from polygrad import Tensor
(Tensor([1.0]) + 1).tolist()
print("\\n" + json.dumps([n for n in sys.modules if n.partition(".")[0] == sys.argv[1]]))
"""
OPEN = """
import json, sys
from polygrad import Tensor
print("\\n" + json.dumps((Tensor([1.0, 2.0]) + 1).tolist()))
"""


def record_of(subject: Subject) -> registry.Record:
    found = registry.find(registry.DEVICES, subject.name.partition(":")[0])
    assert found is not None
    return found


def child(code: str, *arguments: str, **env: str) -> Any:
    """What the last line of a child's output says in JSON, and whatever came before it."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**settings.for_child(), **env},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    expect(done.returncode == 0, f"a child process ended with {done.returncode}: {done.stderr}")
    before, _, last = done.stdout.rstrip("\n").rpartition("\n")
    return json.loads(last), before.strip() + done.stderr.strip()


def descriptor(subject: Subject) -> None:
    """Its type, its name, and an API that this core offers."""
    record = record_of(subject)
    plugin = record.descriptor
    expect(isinstance(plugin, DevicePlugin), f"{record.value} is a {type(plugin).__name__}")
    assert isinstance(plugin, DevicePlugin)
    expect_equal(plugin.name, record.name, "the descriptor's name")
    major, minor = plugin.api
    expect(minor <= SUPPORTED.get(major, -1), f"api {plugin.api} is newer than this core's {API}")
    expect(plugin.summary, "the descriptor has no summary, the line of `polygrad devices`")


def light_descriptor(subject: Subject) -> None:
    """Importing it adds the standard library and `polygrad.plugin`, and prints nothing."""
    record = record_of(subject)
    if ":" not in record.value or record.dist == registry.CORE:
        return
    added, output = child(DESCRIPTOR, record.value)
    expect(not added, f"importing {record.value} also imports {', '.join(added)}")
    expect(not output, f"importing {record.value} prints {output!r}")


def probe(subject: Subject) -> None:
    """It gives a Probe in under two seconds and prints nothing."""
    plugin = record_of(subject).descriptor
    assert isinstance(plugin, DevicePlugin)
    (kind, ok, took), output = child(PROBE, plugin.probe)
    expect_equal(kind, "Probe", "the type that the probe gives")
    expect(ok, "the probe says that the device cannot be used, but here it is")
    expect(took < 2, f"the probe took {took:.1f} s")
    expect(not output, f"the probe prints {output!r}")


def child_process(subject: Subject) -> None:
    """A new process that only inherits POLY_DEV opens the device and computes."""
    got, output = child(OPEN, POLY_DEV=subject.name)
    expect_equal(got, [2.0, 3.0], "what a child process computes")
    expect(not output, f"opening the device prints {output!r}")


def unasked(subject: Subject) -> None:
    """With another device chosen nothing of the package is imported."""
    plugin = record_of(subject).descriptor
    assert isinstance(plugin, DevicePlugin)
    package = plugin.device.partition(".")[0].partition(":")[0]
    if package == "polygrad":
        return
    found, _ = child(OTHER, package, POLY_DEV="interp")
    expect(not found, f"POLY_DEV=interp imports {', '.join(found)}")


def typed(subject: Subject) -> None:
    """The package says that it is typed."""
    from importlib.util import find_spec
    from pathlib import Path

    plugin = record_of(subject).descriptor
    assert isinstance(plugin, DevicePlugin)
    spec = find_spec(plugin.device.partition(":")[0].partition(".")[0])
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = any((Path(place) / "py.typed").is_file() for place in places)
    expect(found or not places, f"there is no py.typed in {', '.join(places)}")


def checks(target: Target) -> Iterator[Check]:
    for function in (descriptor, light_descriptor, probe, child_process, unasked, typed):
        yield Check(f"package/{function.__name__}", function)
