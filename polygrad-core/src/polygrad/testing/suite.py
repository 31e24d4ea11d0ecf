"""The conformance kit as pytest tests: a backend's whole test file is these lines.

    from polygrad.testing.suite import *

    DEVICE = "acme"

and, in the conftest.py beside it, `pytest_plugins = ["polygrad.testing.pytest_plugin"]`, which
makes one test of each check.
"""

from __future__ import annotations

from .conformance import Check, Subject

__all__ = ["test_conformance"]


def test_conformance(conformance_subject: Subject, conformance_check: Check) -> None:
    """One check of the kit on the device that the module names in DEVICE."""
    conformance_check.run(conformance_subject)
