"""Kernels from elsewhere: what a plugin offers in place of a program, tried before it is trusted.

With POLY_KERNELS=provider each new kernel is shown to the hook `polygrad_provide_kernel`. An offer
is a LinearProgram for the same params, or something to launch. It goes on the bench that the search
for kernels uses (see `bench`): its results are compared with those of the compiler's own program,
its inputs must be untouched, and it is timed in turns with the best so far, each as a Plan would
run it. Whatever goes wrong is a warning that names the package, and the compiler's program stays.

Kernels that read addresses from data are not offered (scratch data would lead anywhere), nor those
in an author's own order of steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..codegen import optimize
from ..codegen.kernel import canonical
from ..codegen.ordered import is_ordered
from ..contract import LinearProgram
from ..errors import PluginWarning, PolygradError, pass_on, told, user_level
from ..hooks import installed as hooks
from ..logs import logger
from ..plugin import Device
from ..registry import Record
from ..uop.ops import UOp
from ..uop.spec_program import verify_program
from .bench import Bench, Made, addresses_are_known
from .pieces import Foreign

log = logger("compile")
Built = Callable[[LinearProgram], Any]  # a LinearProgram of the device's -> its loaded program


class Refused(Exception):
    """Why an offer is not used."""


def best(device: Device, sink: UOp, linear: LinearProgram, program: Any, build: Built) -> Made:
    """The fastest right program of a kernel: the compiler's own, or one that a plugin offers."""
    own = chosen = Made(linear, program)
    if is_ordered(sink) or not addresses_are_known(canonical(sink)):
        return own
    bench: Bench | None = None
    for record, offer in hooks.offers(device, sink, linear):
        bench = bench or _bench(device, sink, own)
        if bench is None:
            return own
        made = _tried(bench, own, record, offer, build)
        if made is not None:
            its, others = bench.race(made, chosen)
            chosen = made if its < others else chosen
            verdict = "is used" if its < others else "is slower and not used"
            log.info("%s: the program of %s %s", linear.name, record.name, verdict)
    return chosen


def _bench(device: Device, sink: UOp, own: Made) -> Bench | None:
    """A bench for the kernel; None where there is no memory for its data."""
    name = own.program.name
    try:
        return Bench(device, canonical(sink), optimize(sink, device.target), name, own)
    except MemoryError as error:
        log.warning("no offer for %s is tried: %s", name, error)
        return None


def _tried(bench: Bench, own: Made, record: Record, offer: Any, build: Built) -> Made | None:
    """An offer that computes what the compiler's own program does; None, and a warning, if not."""
    try:
        made = _made(bench.device, own.program, offer, build)
        wrong, _ = bench.check(made)
        if not bench.spares_inputs():
            raise Refused("it writes to an input")
        if wrong:
            raise Refused(f"on random data it gives {wrong}")
    except (Refused, PolygradError) as error:
        reason = str(error)
    except BaseException as error:  # noqa: BLE001 - it is a stranger's code
        pass_on(error)
        reason = f"it raised {told(error)}"
    else:
        return made
    bench.fill()  # whatever it has done to the data, the next one finds it whole
    _warn(record, own.program, reason)
    return None


def _warn(record: Record, linear: LinearProgram, reason: str) -> None:
    warnings.warn(
        f"the program that {record.name!r} ({record.package}) offers for {linear.name} is not used:"
        f" {reason.removesuffix('.')}. Disable: POLY_PLUGINS=-{record.name}",
        PluginWarning,
        stacklevel=user_level(),
    )


def _made(device: Device, own: LinearProgram, offer: Any, build: Built) -> Made:
    """The offer ready to launch."""
    if not isinstance(offer, LinearProgram):
        if not callable(offer):
            raise Refused(f"it is {type(offer).__name__}, neither a LinearProgram nor callable")
        return Made(own, Foreign(offer))
    if offer.params != own.params or offer.variables != own.variables:
        raise Refused("its params are not those of the kernel")
    verify_program(offer, device.target)
    # Another name: both may be in one process.
    made = replace(offer, name=f"{own.name}_provided")
    return Made(made, build(made))
