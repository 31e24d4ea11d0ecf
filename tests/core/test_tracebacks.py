"""Whatever room a mistake is found in, the traceback ends at the line that made it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import pytest

from polygrad import Context, Model, Tensor, device, dtypes, jit, nn
from polygrad.errors import PolygradError


def train_without_training() -> None:
    layer = nn.Linear(2, 2)
    layer(Tensor.ones(1, 2)).sum().backward()
    nn.optim.SGD(nn.get_parameters(layer)).step()


def read_while_capturing() -> None:
    @jit
    def step(x: Tensor) -> Tensor:
        return x * x.sum().item()

    step(Tensor.ones(2))


def call_with_other_shapes() -> None:
    step = jit(lambda x: x + 1)
    step(Tensor.ones(2))
    step(Tensor.ones(3))


MISTAKES: dict[str, Callable[[], object]] = {
    "operator": lambda: Tensor.ones(2, 3) + Tensor.ones(2, 4),
    "method": lambda: Tensor.ones(2, 3).matmul(Tensor.ones(2, 4)),
    "axis": lambda: Tensor.ones(2, 3).sum(axis=5),
    "reshape": lambda: Tensor.ones(2, 3).reshape(4),
    "index": lambda: Tensor.ones(2, 3)[7],
    "assignment to an item": lambda: Tensor.ones(2, 3).__setitem__(7, 1.0),
    "ragged list": lambda: Tensor([[1.0], [1.0, 2.0]]),
    "dtype": lambda: Tensor([1.0], dtype="flaot32"),
    "too large a number": lambda: Tensor([1], dtype=dtypes.int32) + 2**40,
    "item of many": lambda: Tensor.ones(2).item(),
    "creation": lambda: Tensor.zeros(-1),
    "backward of many": lambda: Tensor.ones(2, requires_grad=True).backward(),
    "device": lambda: Tensor([1.0], device="cdua"),
    "device by name": lambda: device.get("cdua"),
    "setting": lambda: Context(TRAININ=1),
    "layer": lambda: nn.Linear(2, 3)(Tensor.ones(1, 5)),
    "optimizer": train_without_training,
    "state": lambda: nn.load_state_dict(nn.Linear(2, 3), {"wieght": Tensor.ones(3, 2)}),
    "Model": lambda: Model(3, inputs={"x": "wrong"}),
    "Model.load": lambda: Model.load(__file__),
    "jit": call_with_other_shapes,
    "capture": read_while_capturing,
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_traceback_ends_at_the_users_line(name: str) -> None:
    with pytest.raises(PolygradError) as error:
        MISTAKES[name]()
    frames = [f.filename for f in traceback.extract_tb(error.value.__traceback__)]
    if sys.version_info < (3, 11):  # one frame of ours stays there
        frames = [f for f in frames if not f.endswith("errors.py")]
    assert set(frames) == {__file__}
    shown = "".join(traceback.format_exception(error.value, chain=False)[-2:])
    assert len(shown.splitlines()) <= 8
    assert len(str(error.value).splitlines()) <= 4


@pytest.mark.parametrize("name", MISTAKES)
def test_nothing_of_ours_is_chained_to_it(name: str) -> None:
    """A second traceback, of a KeyError inside, would tell a user nothing."""
    with pytest.raises(PolygradError) as error:
        MISTAKES[name]()
    assert error.value.__context__ is None or error.value.__suppress_context__
    assert error.value.__cause__ is None
