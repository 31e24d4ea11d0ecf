"""The committed coefficients are what the committed script computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from polygrad.codegen import polynomials


@pytest.fixture(scope="module")
def script() -> ModuleType:
    pytest.importorskip("mpmath")
    path = Path(__file__).with_name("fit_polynomials.py")
    spec = importlib.util.spec_from_file_location("fit_polynomials", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("bits", "committed"), [(24, polynomials.FLOAT32), (53, polynomials.FLOAT64)]
)
def test_tables_are_reproduced(
    script: ModuleType, bits: int, committed: dict[str, tuple[float, ...]]
) -> None:
    assert {name: numbers for name, (numbers, _) in script.table(bits).items()} == committed


def test_bits_of_the_inverse_turn(script: ModuleType) -> None:
    assert tuple(script.inverse_turn(40)) == polynomials.INVERSE_TURN
