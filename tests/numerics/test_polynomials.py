"""The committed coefficients are what the committed script computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from polygrad.codegen import polynomials


def _load(name: str) -> ModuleType:
    pytest.importorskip("mpmath")
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return _load("fit_polynomials")


@pytest.mark.parametrize(
    ("bits", "committed"), [(24, polynomials.FLOAT32), (53, polynomials.FLOAT64)]
)
def test_tables_are_reproduced(
    script: ModuleType, bits: int, committed: dict[str, tuple[float, ...]]
) -> None:
    assert {name: numbers for name, (numbers, _) in script.table(bits).items()} == committed


def test_bits_of_the_inverse_turn(script: ModuleType) -> None:
    assert tuple(script.inverse_turn(40)) == polynomials.INVERSE_TURN


def test_tables_of_special_functions_are_reproduced() -> None:
    from polygrad.tensor import coefficients

    script = _load("fit_special")
    for bits, committed in ((24, coefficients.FLOAT32), (53, coefficients.FLOAT64)):
        assert {name: numbers for name, (numbers, _) in script.table(bits).items()} == committed
