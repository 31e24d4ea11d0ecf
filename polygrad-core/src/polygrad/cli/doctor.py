"""`polygrad doctor [NAME]`: what is wrong here, and what to do about each thing.

A check gives nothing, or what is wrong and a fix. Devices are tried in child processes.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

from .. import __version__, device, metadata, registry, settings
from ..errors import PolygradError, pass_on, told
from ..hooks import installed as hooks
from . import child, devices, dists, plugins
from .command import Result
from .table import table

SNAPSHOT_MS = 100.0  # CPU time that looking for plugins may take
RUN_SECONDS = 60.0


@dataclass(slots=True)
class Found:
    """The outcome of one check."""

    check: str
    ok: bool = True
    detail: str = ""
    fix: str = ""


def report(name: str | None = None) -> Result:
    """All checks; with `name`, those of one device."""
    if name is None:
        found = [*_settings(), *_packages(), *_plugins(), _snapshot(), _cache(), *_asked()]
        broken = {f.check for f in found if not f.ok}  # told already
        found += [f for each in device.names() for f in _device(each) if f.check not in broken]
    else:
        known = device.split(name)[0] in device.names()  # an alias needs descriptors
        found = list(_device(name if known else device.canonical(name)))
    ok = all(one.ok for one in found)
    rows = [("ok" if f.ok else "PROBLEM", f.check, f.detail, f.fix) for f in found]
    text = table(("", "check", "", "fix"), rows)
    return Result({"ok": ok, "checks": [asdict(f) for f in found]}, text, ok)


def _settings() -> Iterator[Found]:
    """Each setting that cannot be read, is unknown, or names what no package offers."""
    wrong = [found for found in map(_unread, settings.TABLE) if found is not None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not wrong:
            settings.check_environment()
            registry.check_names()
    wrong += [
        Found("settings", False, str(w.message), "see docs/settings.md, or unset it")
        for w in caught
    ]
    yield from wrong or [Found("settings", detail=", ".join(_set()) or "none is set")]


def _unread(name: str) -> Found | None:
    try:
        settings.get(name)
    except PolygradError as error:
        return Found(f"setting {name}", False, str(error), f"unset {name}, or mend it")
    return None


def _set() -> list[str]:
    return [f"{n}={settings.get(n)!r}" for n in settings.TABLE if settings.is_set(n)]


def _packages() -> Iterator[Found]:
    found = dists.ours()
    for one in found:
        check = f"package {one.name} {one.version}"
        first_party = one.name == registry.CORE or one.name in registry.OWNERS.values()
        if one.twin:
            yield Found(
                check, False, f"is installed twice; also at {one.path}", f"pip uninstall {one.name}"
            )
        elif one.changed:
            files = ", ".join(one.changed[:3])
            yield Found(
                check, False, f"files are not what was installed: {files}",
                f"pip install --force-reinstall {one.name}=={one.version}",
            )  # fmt: skip
        elif first_party and one.version != __version__:
            yield Found(
                check, False, f"is of another release than {registry.CORE} {__version__}",
                f"pip install {one.name}=={__version__}",
            )  # fmt: skip
        else:
            yield Found(check, detail=one.origin and f"from {one.origin}")


def _plugins() -> Iterator[Found]:
    registry.snapshot()
    for where, reason in metadata.unreadable.items():
        detail = f"its entry points cannot be read: {reason}"
        yield Found(f"package in {where}", False, detail, "uninstall it, or remove that folder")
    for row in plugins.rows():
        if row["state"] not in plugins.FINE:
            kind = registry.KINDS[row["group"]][0]
            yield Found(
                f"{kind} {row['name']}",
                False,
                f"{row['state']}: {row['reason']}",
                f"pip uninstall {row['dist']}, or POLY_PLUGINS=-{row['name']}",
            )


def _snapshot() -> Found:
    registry.refresh()
    start = process_time()
    count = sum(map(len, registry.snapshot().values()))
    spent = (process_time() - start) * 1e3
    detail = f"{count} entry points found in {spent:.0f} ms of CPU"
    fix = "fewer distributions in this environment, or a virtual environment of its own"
    return Found("looking for plugins", spent <= SNAPSHOT_MS, detail, fix * (spent > SNAPSHOT_MS))


def _cache() -> Found:
    folder = settings.cache_folder()
    if not settings.get("POLY_CACHE"):
        return Found("cache", detail="switched off by POLY_CACHE=0")
    if not os.path.isdir(folder):
        return Found("cache", detail=f"{folder} (not there yet)")
    from ..files.diskcache import trusted

    try:
        refused = trusted(folder)
    except OSError as error:
        refused = told(error)
    fix = "POLY_CACHE_DIR=a folder that is yours alone, or POLY_CACHE=0" if refused else ""
    return Found("cache", not refused, refused or folder, fix)


def _asked() -> Iterator[Found]:
    """The checks of plugins; one that fails is a finding."""
    for record, checks, error in hooks.outcomes("polygrad_checks"):
        off = f"POLY_PLUGINS=-{record.name} switches it off; tell its authors"
        try:
            if error is not None:
                raise error
            for check in checks or ():
                name, wrong = f"{check.name} ({record.name})", _asked_one(check)
                yield Found(name, not wrong, wrong, str(check.fix) if wrong else "")
        except BaseException as another:  # noqa: BLE001 - it is a stranger's code
            pass_on(another)
            text = str(another) if another is error else f"its checks raised {told(another)}"
            yield Found(f"plugin {record.name} ({record.package})", False, text, off)


def _asked_one(check: Any) -> str:
    """What is wrong by one check of a plugin; an empty text if nothing is."""
    try:
        return str(check.run() or "")
    except BaseException as error:  # noqa: BLE001 - it is a stranger's code
        pass_on(error)
        return f"it raised {told(error)}"


def _device(name: str) -> Iterator[Found]:
    """Its probe, then memory, compiler and a result compared with the reference."""
    base = device.split(name)[0]
    record = next(r for r in registry.records(registry.DEVICES) if r.name == base)
    row = devices.ask(record)
    check = f"device {name}"
    if row.state != "ok":
        detail, _, hint = row.reason.partition(". Hint: ")
        fix = hint or f"polygrad devices -v; POLY_PLUGINS=-{record.name} switches it off"
        yield Found(check, False, f"{row.state}: {detail}", fix)
        return
    answer = child.ask("run", name, what="a small program", seconds=RUN_SECONDS)
    if answer.data is None:
        yield Found(check, False, f"{answer.state}: {answer.reason}", _tell(record))
    elif answer.data["reason"]:
        detail, _, hint = f"{answer.data['step']}: {answer.data['reason']}".partition(" Hint: ")
        yield Found(check, False, detail, hint or _tell(record))
    else:
        yield Found(check, detail=f"works ({answer.data['arch']}, Python {sys.version.split()[0]})")


def _tell(record: registry.Record) -> str:
    return f"polygrad conformance {record.name}; tell the authors of {record.package}"
