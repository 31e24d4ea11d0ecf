"""Somebody who looks on while kernels are made and launched: a search for the one that is wrong.

The conformance kit looks on when a check of the whole library has failed. What is prepared while
somebody does runs step by step from Python, slowly; nothing of it is on the path of other runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ..contract import LinearProgram
from ..plugin import Device


class Witness(Protocol):
    """Who looks on."""

    def makes(self, device: Device, programs: Sequence[LinearProgram]) -> None:
        """`programs` are about to be rendered, compiled and loaded."""

    def made(self, device: Device, programs: Sequence[LinearProgram]) -> None:
        """They have been."""

    def launcher(self, device: Device, program: LinearProgram, loaded: Any) -> Any:
        """What is launched in place of `loaded`, the same program on the device."""


present: Witness | None = None


@contextmanager
def looks_on(witness: Witness) -> Iterator[None]:
    """Inside, `witness` is told of what is made and launched anew: not of graphs that were prepared
    before (see `clear_schedule_cache`)."""
    global present
    before, present = present, witness
    try:
        yield
    finally:
        present = before
