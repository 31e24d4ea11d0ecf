"""Both engines of the reference device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polygrad import Context
from polygrad.contract import LinearProgram
from polygrad.testing.assembler import launch

Run = Callable[..., list[np.ndarray]]


@pytest.fixture(params=["numpy", "python"])
def run(request: pytest.FixtureRequest) -> Run:
    """Launches a program on arrays with one of the two engines; gives the arrays after."""

    def go(program: LinearProgram, *arrays: np.ndarray, scalars: tuple = ()) -> list[np.ndarray]:
        with Context(POLY_INTERP_NUMPY=request.param == "numpy"):
            out = launch("interp", program, *(a.tobytes() for a in arrays), scalars=scalars)
        return [
            np.frombuffer(b, a.dtype).reshape(a.shape) for b, a in zip(out, arrays, strict=True)
        ]

    return go
