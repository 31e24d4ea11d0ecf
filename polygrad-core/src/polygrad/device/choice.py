"""Which device new tensors go to: what POLY_DEV says, or the best that works.

An explicit name is explicit: where it cannot be used that is an error, never another device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import registry, settings
from ..errors import (
    DeviceFallbackWarning,
    DeviceUnavailable,
    PluginInvalid,
    PolygradError,
    SettingError,
    public,
    shown,
    told,
    user_level,
)
from ..hooks import installed as hooks
from ..logs import logger
from ..plugin import Probe
from ..registry import Record
from .naming import canonical, find, names, probe, usable

if TYPE_CHECKING:
    from ..hooks.specs import DeviceInfo

_choices: dict[tuple[Any, ...], tuple[str, ...]] = {}  # settings -> the devices they choose


@public
def default() -> str:
    """The canonical name of the device that new tensors go to."""
    return chosen()[0]


@public
def chosen() -> tuple[str, ...]:
    """The devices that POLY_DEV (else DEV) names, or the best that works.

    Chosen once for each value of POLY_DEV; a later change of POLY_DEV_ORDER or POLY_PLUGINS counts
    when a Context makes it, or after `registry.refresh()`.
    """
    key: tuple[Any, ...]
    wanted = settings.get("POLY_DEV") or settings.get("DEV") or "auto"
    key = (wanted, settings.override("POLY_DEV_ORDER"), settings.override("POLY_PLUGINS"))
    key += (registry.generation(),)
    found = _choices.get(key)
    if found is None:
        settings.check_environment()
        registry.check_names()
        found = _automatic() if wanted == "auto" else _explicit(wanted)
        _choices[key] = found
        _log(f"chose {', '.join(found)} (POLY_DEV={wanted})")
    return found


def _explicit(wanted: str) -> tuple[str, ...]:
    found = []
    for part in filter(None, (p.strip() for p in wanted.split(","))):
        usable(part, explicit=wanted)
        found.append(canonical(part))
    if not found:
        raise SettingError(f"POLY_DEV={wanted} names no device. Installed: {', '.join(names())}.")
    return tuple(found)


def _automatic() -> tuple[str, ...]:
    """The first of POLY_DEV_ORDER that works, or what a plugin chooses among those that do; a
    better one that is broken is worth one warning."""
    order: tuple[str, ...] = settings.get("POLY_DEV_ORDER")
    skipped: list[tuple[str, str]] = []
    ask = hooks.has("polygrad_select_device")
    working: list[Record] = []
    for name in order:
        if name not in names():
            continue
        state, record = _state(name)
        if state.ok:
            assert record is not None
            working.append(record)
            if not ask:  # nobody else wants to know
                break
        elif state.hardware and not working:
            skipped.append((name, state.detail))
    if not working:
        raise _nothing_works(order)
    chosen = _selected(working) or working[0].name
    if skipped:
        _report_fallback(chosen, *skipped[0])
    return (chosen,)


def _state(name: str) -> tuple[Probe, Record | None]:
    try:
        record = find(name)
    except PolygradError as error:
        cause = error.__cause__
        return Probe(False, detail=told(cause) if cause else str(error)), None
    return probe(record), record


def _selected(working: list[Record]) -> str | None:
    """What the first plugin with an opinion chooses."""
    hook = "polygrad_select_device"
    if not hooks.has(hook):
        return None
    candidates = [_info(record) for record in working]
    wanted = settings.get("POLY_DEV") or settings.get("DEV") or None
    for plugin, answer in hooks.answers(hook, requested=wanted, candidates=candidates):
        if answer not in [c.name for c in candidates]:
            works = ", ".join(c.name for c in candidates)
            raise PluginInvalid(
                f"{hook} of {plugin.name!r} ({plugin.package}) chose {shown(answer)}, which is none"
                f" of {works}. Disable: POLY_PLUGINS=-{plugin.name}"
            )
        return str(answer)
    return None


def _info(record: Record) -> DeviceInfo:
    from ..hooks.specs import DeviceInfo

    found = probe(record)
    return DeviceInfo(record.name, found.arch, found.count, record.package)


def _report_fallback(name: str, better: str, detail: str) -> None:
    what = f"{better!r} is installed but failed ({detail})."
    if settings.get("POLY_STRICT"):
        raise DeviceUnavailable(
            f"{what} POLY_STRICT=1 allows no fallback to {name!r}; POLY_DEV={name} chooses it."
            " See: polygrad doctor"
        )
    import warnings

    text = f"using {name!r}: {what} POLY_DEV={name} silences this; polygrad doctor explains it."
    warnings.warn(text, DeviceFallbackWarning, stacklevel=user_level())


def _nothing_works(order: tuple[str, ...]) -> DeviceUnavailable:
    return DeviceUnavailable(
        f"none of POLY_DEV_ORDER={','.join(order)} works here. Installed: {', '.join(names())}."
        " See: polygrad devices"
    )


def _log(text: str) -> None:
    logger("device").debug(text)
