"""What users may rely on in an editor: the types of everyday expressions."""

from __future__ import annotations

from typing_extensions import assert_type

from polygrad import (
    Context,
    Runtime,
    Tensor,
    Variable,
    can_run,
    create,
    device,
    dtypes,
    nn,
)
from polygrad.dtype import DType


def expressions() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert_type(x, Tensor)
    assert_type(x + 1, Tensor)
    assert_type(2.0 * x, Tensor)
    assert_type(x @ x, Tensor)
    assert_type(-x, Tensor)
    assert_type(x < 0, Tensor)
    assert_type(x[0, 1:], Tensor)
    assert_type(x.sum(axis=0), Tensor)
    assert_type(x.softmax(-1).log(), Tensor)
    assert_type(x.reshape(4), Tensor)
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.dtype, DType)
    assert_type(x.device, str)
    assert_type(x.ndim, int)
    assert_type(Tensor.zeros(2, 3), Tensor)
    assert_type(Tensor.rand(2, 3), Tensor)
    assert_type(x.cast(dtypes.int32), Tensor)


def runtimes() -> None:
    with create("interp", env={"TRAINING": 1}) as rt:
        assert_type(rt, Runtime)
        assert_type(rt.Tensor([1.0]) + 1, Tensor)
        assert_type(rt.Tensor.zeros(2), Tensor)
        assert_type(Tensor([1.0]).to(rt), Tensor)
        assert_type(bool(can_run("add")), bool)


def the_rest() -> None:
    assert_type(device.default(), str)
    assert_type(device.names(), tuple[str, ...])
    assert_type(Variable("n", 1, 8), Variable)
    with Context(TRAINING=1):
        nn.Linear(2, 3)(Tensor.zeros(4, 2))
