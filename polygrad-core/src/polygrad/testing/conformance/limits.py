"""The device opens, which asks the contract's least of it (`device/least.py`), under its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...errors import DeviceContractError
from ...target import Target
from .check import Check, ConformanceError, Subject, expect


def opens(subject: Subject) -> None:
    """It has all its parts, and its Target all that every machine must have."""
    try:
        subject.device  # noqa: B018
    except DeviceContractError as error:
        raise ConformanceError(str(error)) from error


def same_name(subject: Subject) -> None:
    name = subject.name.partition(":")[0]
    expect(subject.target.name == name, f"the target is called {subject.target.name!r}")


OPENS: Final = Check("limits/opens", opens)


def checks(target: Target) -> Iterator[Check]:
    yield OPENS
    yield Check("limits/same_name", same_name)
