"""POLY_SPEC=1 checks every graph, kernel and program on its floor; else nothing is checked."""

from __future__ import annotations

import pytest

from polygrad import Context, Tensor
from polygrad.uop import spec


@pytest.mark.parametrize("on", [True, False])
def test_each_floor_is_checked_when_asked(monkeypatch: pytest.MonkeyPatch, on: bool) -> None:
    seen = []
    for name in ("verify_tensor", "verify_kernel", "verify_program"):
        monkeypatch.setattr(spec, name, lambda *_, name=name: seen.append(name))
    with Context(POLY_SPEC=on, POLY_DEV="interp"):
        # A shape of this test's own, so that no kernel is known.
        (Tensor.ones(3, 17 + on) * 2).sum(0).realize()
    assert set(seen) == ({"verify_tensor", "verify_kernel", "verify_program"} if on else set())
