"""Transform lists that travel with a Model: what a search found on some machine, by machine.

They are data: names of kernels, each with a recipe and a list of verbs. Reading checks their form,
and every verb checks its own legality when a kernel is made, so a list from a stranger can make a
kernel slow and nothing worse. A list serves where the Target is what it was made for, whatever the
number of cores; elsewhere kernels run by the recipes, and the logger `polygrad.tune` says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .. import device as devices
from ..engine import tuning
from ..errors import ArgumentError
from ..logs import logger
from ..settings import Context

if TYPE_CHECKING:
    from ..codegen.lists import Choice
    from .runnable import Runnable

log = logger("tune")

MOST_MACHINES: Final = 256

Json = dict[str, Any]


class Machine(NamedTuple):
    """The lists of one kind of machine, by names of kernels; device and arch are for people."""

    device: str
    arch: str
    kernels: Mapping[str, Choice]


Tuned = dict[str, Machine]  # by `engine.tuning.machine`


@contextmanager
def offered(tuned: Tuned, device: str) -> Iterator[None]:
    """Kernels made inside the block run by the lists for this machine."""
    if not tuned:
        yield
        return
    here = tuned.get(tuning.machine(devices.get(device)))
    if here is None:
        others = ", ".join(sorted({m.arch for m in tuned.values()}))
        log.info("the lists of this model are for %s and not used on %r", others, device)
    with tuning.offering(here.kernels if here else {}):
        yield


def tune(model: Runnable, beam: int, seconds: int) -> list[Json]:
    """Search for the kernels of every entrypoint, and keep what was found in `model.tuned`.

    One row for each kernel; the Plans made before serve no more.
    """
    device = devices.get(model.device)
    if not tuning.tunable(device):
        raise ArgumentError(
            f"tune: on device {model.device!r} a time says nothing; take another device."
        )
    if beam < 1:
        raise ArgumentError(f"tune: beam is the width of the search, 1 or more, not {beam}.")
    before, model._plans = model._plans, {}
    try:
        with Context(BEAM=beam, BEAM_TIMEOUT_SEC=seconds), tuning.recording() as found:
            for name, entry in model.captured.entrypoints.items():
                model._made_plan(name, entry)
    except BaseException:
        model._plans = before
        raise
    here = tuning.machine(device)
    old = dict(model.tuned[here].kernels) if here in model.tuned else {}
    for name, kernel in found.items():
        old.pop(name, None)
        if kernel.choice is not None:
            old[name] = kernel.choice
    model.tuned.pop(here, None)
    if old:
        model.tuned[here] = Machine(device.target.name, device.target.arch, old)
    return [_row(name, kernel) for name, kernel in found.items()]


def _row(name: str, kernel: tuning.Tuned) -> Json:
    from ..codegen.lists import written

    found = kernel.found
    return {
        "kernel": name,
        "recipe": kernel.note,
        "before_us": None if found is None else found.before * 1e6,
        "after_us": None if found is None else found.after * 1e6,
        "tried": 0 if found is None else found.tried,
        "refused": 0 if found is None else found.refused,
        "list": None if kernel.choice is None else written(kernel.choice),
    }


# ---- as JSON


def write(tuned: Tuned) -> Json:
    from ..codegen.lists import LANGUAGE, written

    machines = {
        key: {
            "device": m.device,
            "arch": m.arch,
            "kernels": {n: written(c) for n, c in m.kernels.items()},
        }
        for key, m in tuned.items()
    }
    return {"language": LANGUAGE, "machines": machines}


def read(value: Any, fail: Callable[[str], Exception]) -> Tuned:
    """The lists of a JSON value. Those of another language are left out; raises `fail(reason)`."""
    from ..codegen.lists import LANGUAGE

    if not isinstance(value, dict) or set(value) != {"language", "machines"}:
        raise fail("has no language and machines")
    language, machines = value["language"], value["machines"]
    if type(language) is not int or not isinstance(machines, dict):
        raise fail("has a language or machines of another kind")
    if language != LANGUAGE:
        log.info("lists of the language %d are not used; this is %d", language, LANGUAGE)
        return {}
    if len(machines) > MOST_MACHINES or not all(re.fullmatch("[0-9a-f]{64}", k) for k in machines):
        raise fail("has an illegal name of a machine")
    return {key: _machine(m, fail) for key, m in machines.items()}


def _machine(value: Any, fail: Callable[[str], Exception]) -> Machine:
    from ..codegen.lists import read as read_choice

    if not isinstance(value, dict) or set(value) != {"device", "arch", "kernels"}:
        raise fail("has an illegal machine")
    device, arch, kernels = value["device"], value["arch"], value["kernels"]
    texts = isinstance(device, str) and isinstance(arch, str) and max(len(device), len(arch)) < 256
    if not texts or not isinstance(kernels, dict):
        raise fail("has an illegal machine")
    made = {}
    for name, choice in kernels.items():
        if not re.fullmatch("k_[0-9a-f]{20}", name):
            raise fail(f"has an illegal name {name[:80]!r} of a kernel")
        try:
            made[name] = read_choice(choice)
        except ValueError as error:
            raise fail(f"has an illegal list for {name}: {error}") from None
    return Machine(device, arch, made)
