"""Is there such a machine here? A probe never raises, prints nothing and is quick: load a library,
count cards, but start no driver."""

from __future__ import annotations

from polygrad.plugin import Probe


def probe() -> Probe:
    # Where it cannot be used, say why and what to do:
    #   return Probe(False, detail="libnewdevice.so not found", hint="install the driver")
    # and with hardware=False where there is nothing to drive, so that nobody is warned.
    return Probe(True, count=1, arch="python")
