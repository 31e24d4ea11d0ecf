"""Which kernels run by a transform list that a search found.

A kernel runs by its recipe's list unless the program asks for more:

- `BEAM=n` searches with a beam of n the first time that a kernel is needed, and keeps the winner;
- `POLY_TUNED=1` uses winners that were kept, and searches for nothing;
- a bundle that carries winners offers them to its own Plans (`offering`).

A winner may add up in another order, so its results may differ in the last bits from those of the
recipe. That is why one that lies in the cache is not used unasked: numbers must not depend on what
ran on this machine before.

Winners lie in the disk cache under the kernel's name, the Target without its number of cores (a
sum has one order for all of them), and the stamp of compiler, renderer and toolchain. Ordered
kernels have no lists, and the reference device no times.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from .. import settings
from ..errors import DeviceMemoryError
from ..logs import logger
from ..plugin import Device
from ..uop.ops import UOp

if TYPE_CHECKING:
    from ..codegen.lists import Choice
    from ..codegen.search import Found

log = logger("tune")


class Winner(NamedTuple):
    """What a search of this width found; no choice: the recipe's own list."""

    width: int
    choice: Choice | None


class Tuned(NamedTuple):
    """One kernel that a `recording` saw: its winner, and what its search found if there was one."""

    choice: Choice | None
    found: Found | None
    note: str  # of the recipe's program


_offered: ContextVar[Mapping[str, Choice] | None] = ContextVar("polygrad_offered", default=None)
_recorded: ContextVar[dict[str, Tuned] | None] = ContextVar("polygrad_tuned", default=None)
_known: weakref.WeakKeyDictionary[Device, dict[str, Winner]] = weakref.WeakKeyDictionary()


@contextmanager
def offering(lists: Mapping[str, Choice]) -> Iterator[None]:
    """Kernels made inside the block run by these lists, by the kernels' names, where legal."""
    token = _offered.set(lists or None)
    try:
        yield
    finally:
        _offered.reset(token)


@contextmanager
def recording() -> Iterator[dict[str, Tuned]]:
    """Every kernel that is asked for inside the block, by name, with what is known of its list."""
    found: dict[str, Tuned] = {}
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)


def tunable(device: Device) -> bool:
    """Whether it makes sense to time kernels there."""
    return not device.target.grid_only


def machine(device: Device) -> str:
    """What a list was made for: the same text on every machine that is alike to the compiler."""
    from . import keys

    target = replace(device.target, cores=1)
    return hashlib.sha256(keys.described(target).encode()).hexdigest()


def name_of(content: str, choice: Choice | None) -> str:
    """The name of a kernel that runs by a list of its own."""
    if choice is None:
        return content
    return f"{content}_{hashlib.blake2b(repr(choice).encode(), digest_size=5).hexdigest()}"


def choices(device: Device, sinks: Sequence[UOp]) -> dict[UOp, Choice]:
    """The lists of those kernels that run by one of their own. Called under the kernels' lock."""
    width, offered = settings.get("BEAM"), _offered.get()
    if not (width or offered or settings.get("POLY_TUNED")) or not tunable(device):
        return {}
    from ..codegen.ordered import is_ordered

    found = {}
    for sink in dict.fromkeys(sinks):
        if not is_ordered(sink):
            choice = _choice(device, sink, width, offered or {})
            if choice is not None:
                found[sink] = choice
    return found


def _choice(device: Device, sink: UOp, width: int, offered: Mapping[str, Choice]) -> Choice | None:
    from .kernels import content_name

    name = content_name(sink)
    known = _known.setdefault(device, {})
    if name in offered and not width:
        return _legal(device, sink, name, offered[name])
    if not (width or settings.get("POLY_TUNED")):
        return None
    winner = known.get(name) or _from_disk(device, name)
    found: Found | None = None
    if width and (winner is None or winner.width < width):
        found = _searched(device, sink, name, width)
        if found is None:
            return None
        winner = Winner(width, found.choice)
        _to_disk(device, name, winner)
    if winner is None:
        return None
    known[name] = winner
    _record(device, sink, name, winner.choice, found)
    return winner.choice


def _record(
    device: Device, sink: UOp, name: str, choice: Choice | None, found: Found | None
) -> None:
    recorded = _recorded.get()
    if recorded is not None:
        from ..codegen import compile_kernel

        recorded[name] = Tuned(choice, found, compile_kernel(sink, device.target, name).note)


def _legal(device: Device, sink: UOp, name: str, choice: Choice) -> Choice | None:
    """A list from a file, if it fits this kernel on this device; compiled far enough to know."""
    from ..codegen import compile_kernel
    from ..uop.spec_program import verify_program

    known = _checked.setdefault(device, {})
    key = (name, choice)
    if key not in known:
        try:
            verify_program(compile_kernel(sink, device.target, name, choice), device.target)
            known[key] = True
        except Exception as error:  # noqa: BLE001 - a stranger's list, whatever it does
            log.warning("a list for %s is not used: %s", name, error)
            known[key] = False
    return choice if known[key] else None


_checked: weakref.WeakKeyDictionary[Device, dict[tuple[str, Choice], bool]] = (
    weakref.WeakKeyDictionary()
)


# ---- searching


def _searched(device: Device, sink: UOp, name: str, width: int) -> Found | None:
    """Run a search. None where the kernel cannot be put on a bench."""
    from ..codegen import optimize, prepared
    from ..codegen.kernel import canonical
    from ..codegen.ordered import is_ordered
    from ..codegen.search import search
    from .bench import Bench, addresses_are_known
    from .runtime import current

    sink = prepared(sink, device.target)
    if is_ordered(sink):
        return None
    kernel = canonical(sink)
    if not addresses_are_known(kernel):
        log.info("%s is not searched: it reads addresses from data, unguarded", name)
        return None
    try:
        bench = Bench(device, kernel, optimize(sink, device.target), name)
        seconds = settings.get("BEAM_TIMEOUT_SEC")
        found = search(kernel, device.target, width, bench, seconds)
    except (DeviceMemoryError, MemoryError) as error:
        log.warning("%s is not searched: %s", name, error)
        return None
    current().counters.kernels_tuned += 1
    log.info(
        "%s: %.3g us, was %.3g; %d lists tried, %d refused",
        *(name, found.after * 1e6, found.before * 1e6, found.tried, found.refused),
    )
    return found


# ---- winners on disk


def _key(device: Device, name: str) -> bytes:
    from . import keys

    return keys.of_kernels("tuned", device, replace(device.target, cores=1), [name])


def _from_disk(device: Device, name: str) -> Winner | None:
    from ..codegen.lists import LANGUAGE, read
    from .kernels import cache_of

    cache = cache_of(device)
    entry = None if cache is None else cache.get(_key(device, name))
    if entry is None:
        return None
    try:
        value = json.loads(entry)
        if value["language"] != LANGUAGE:
            return None
        return Winner(int(value["width"]), value["choice"] and read(value["choice"]))
    except (ValueError, KeyError, TypeError) as error:
        log.warning("the stored list of %s cannot be read: %s", name, error)
        return None


def _to_disk(device: Device, name: str, winner: Winner) -> None:
    from ..codegen.lists import LANGUAGE, written
    from .kernels import cache_of

    cache = cache_of(device)
    if cache is not None:
        choice = winner.choice and written(winner.choice)
        text = {"language": LANGUAGE, "width": winner.width, "choice": choice}
        cache.put(_key(device, name), json.dumps(text).encode())
