"""The outcomes of the kit on a device with faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from polygrad.testing import conformance, isolated_registry

from .faulty import PLUGIN, Faulty


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[conformance.Outcome]]:
    """Outcomes of the kit on a device with other parts."""

    def run(pattern: str, **parts: Any) -> list[conformance.Outcome]:
        from polygrad.device.interp_plugin import plugin

        monkeypatch.setattr(Faulty, "parts", parts)
        with isolated_registry(plugin, PLUGIN):
            return conformance.run_checks("faulty", pattern)

    return run
