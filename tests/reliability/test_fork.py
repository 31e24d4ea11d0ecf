"""A fork gets an error, not a hang, and its parent goes on."""

from __future__ import annotations

import os
import signal

import pytest

from polygrad import Tensor

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def said_by_fork(action) -> str:
    """What `action` gives or raises in a forked child, which has thirty seconds for it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # a hang ends the child without a word
        try:
            os.write(write, f"gave {action()}".encode())
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read().decode()


def expected(device: str) -> str:
    return f"DeviceForked: device '{device}:0' was opened in process {os.getpid()} and used in"


def test_a_new_tensor_in_a_fork_is_an_error(device: str) -> None:
    assert (Tensor([1.0, 2.0]) + 1).tolist() == [2.0, 3.0]
    said = said_by_fork(lambda: (Tensor([1.0, 2.0]) + 1).tolist())
    assert said.startswith(expected(device))
    assert said.endswith('Use multiprocessing.get_context("spawn").')


def test_a_computed_tensor_in_a_fork_is_an_error(device: str) -> None:
    x = (Tensor([1.0, 2.0]) + 1).realize()
    assert said_by_fork(x.tolist).startswith(expected(device))
    assert x.tolist() == [2.0, 3.0]


def test_the_parent_goes_on_after_a_fork(device: str) -> None:
    x = Tensor.ones(1000).realize()
    for _ in range(3):
        said_by_fork(lambda: 1)
        x = (x * 2 + 1).realize()
    assert x.tolist() == [15.0] * 1000


def test_a_fork_before_any_device_is_opened_may_open_its_own() -> None:
    from polygrad import device

    with device.isolated():
        said = said_by_fork(lambda: device.get("interp:3").name)
    assert said == "gave interp:3"
