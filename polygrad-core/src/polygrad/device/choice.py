"""Which device new tensors go to: what POLY_DEV says, or the best that works.

An explicit name is explicit: where it cannot be used that is an error, never another device.
"""

from __future__ import annotations

from typing import Any

from .. import registry, settings
from ..errors import (
    DeviceFallbackWarning,
    DeviceUnavailable,
    PolygradError,
    SettingError,
    public,
    told,
    user_level,
)
from ..logs import logger
from ..plugin import Probe
from .naming import canonical, find, names, probe, usable

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
    """The first of POLY_DEV_ORDER that works; a better one that is broken is worth one warning."""
    order: tuple[str, ...] = settings.get("POLY_DEV_ORDER")
    skipped: list[tuple[str, str]] = []
    for name in order:
        if name not in names():
            continue
        try:
            state = probe(find(name))
        except PolygradError as error:
            cause = error.__cause__
            state = Probe(False, detail=told(cause) if cause else str(error))
        if state.ok:
            if skipped:
                _report_fallback(name, *skipped[0])
            return (name,)
        if state.hardware:
            skipped.append((name, state.detail))
    raise _nothing_works(order)


def _report_fallback(name: str, better: str, detail: str) -> None:
    what = f"{better!r} is installed but failed ({detail})."
    if settings.get("POLY_STRICT"):
        raise DeviceUnavailable(
            f"{what} POLY_STRICT=1 allows no fallback to {name!r}; POLY_DEV={name} chooses it."
            " See: polygrad devices -v"
        )
    import warnings

    text = f"using {name!r}: {what} POLY_DEV={name} silences this; polygrad devices -v shows all."
    warnings.warn(text, DeviceFallbackWarning, stacklevel=user_level())


def _nothing_works(order: tuple[str, ...]) -> DeviceUnavailable:
    return DeviceUnavailable(
        f"none of POLY_DEV_ORDER={','.join(order)} works here. Installed: {', '.join(names())}."
        " See: polygrad devices"
    )


def _log(text: str) -> None:
    logger("device").debug(text)
