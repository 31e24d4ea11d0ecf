"""The contestants: how each takes an array, compiles a function and waits for its result.

Each is used as its own users would: torch and numpy run eagerly, torch without recording gradients;
jax and tinygrad compile; ours is `jit`. A framework is imported when it starts, in the process of
one contestant (`worker`), never before: it reads its number of threads then.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from .errors import BenchmarkError

Function = Callable[..., Any]


class Framework:
    """What all share; `module` is the imported package."""

    package = ""
    compiler = ""  # a program that it runs, unless the environment's CC names another
    environment: dict[str, str] = {}  # noqa: RUF012 - set before it starts

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.module: Any = importlib.import_module(self.package)
        self.start()

    def start(self) -> None:
        """After the import."""

    def tensor(self, array: Any, dtype: str = "") -> Any:
        """The array in the framework's own memory, as it is or cast."""
        return array.astype(dtype) if dtype else array

    def compiled(self, function: Function) -> Function:
        """What its users would call."""
        return function

    def wait(self, result: Any) -> Any:
        """Return when the result is computed."""
        return result


class Ours(Framework):
    package = "polygrad"

    def tensor(self, array: Any, dtype: str = "") -> Any:
        tensor = self.module.Tensor(array)
        return (tensor.cast(dtype) if dtype else tensor).realize()

    def compiled(self, function: Function) -> Function:
        compiled: Function = self.module.jit(function)
        return compiled


class Torch(Framework):
    package = "torch"

    def start(self) -> None:
        self.module.set_num_threads(self.threads)

    def tensor(self, array: Any, dtype: str = "") -> Any:
        tensor = self.module.from_numpy(array)
        return tensor.to(getattr(self.module, dtype)) if dtype else tensor

    def compiled(self, function: Function) -> Function:
        def call(*tensors: Any) -> Any:
            with self.module.inference_mode():
                return function(*tensors)

        return call


class Numpy(Framework):
    package = "numpy"


class Jax(Framework):
    package = "jax"
    environment = {"JAX_PLATFORMS": "cpu"}  # noqa: RUF012

    def tensor(self, array: Any, dtype: str = "") -> Any:
        return self.module.numpy.asarray(array, dtype or None)

    def compiled(self, function: Function) -> Function:
        compiled: Function = self.module.jit(function)
        return compiled

    def wait(self, result: Any) -> Any:
        return self.module.block_until_ready(result)


class Tinygrad(Framework):
    package, compiler = "tinygrad", "clang"
    environment = {"DEV": "CPU", "CACHELEVEL": "0"}  # noqa: RUF012 - a first call compiles

    def tensor(self, array: Any, dtype: str = "") -> Any:
        tensor = self.module.Tensor(array)
        return (tensor.cast(dtype) if dtype else tensor).realize()

    def compiled(self, function: Function) -> Function:
        tensor = self.module.Tensor

        def realized(*tensors: Any) -> Any:
            result = function(*tensors)
            several = result if isinstance(result, (list, tuple)) else (result,)
            tensor.realize(*several)
            return result

        compiled: Function = self.module.TinyJit(realized)
        return compiled

    def wait(self, result: Any) -> Any:
        self.module.Device["CPU"].synchronize()
        return result


OURS = "ours"
FRAMEWORKS: dict[str, type[Framework]] = {
    OURS: Ours,
    "torch": Torch,
    "numpy": Numpy,
    "jax": Jax,
    "tinygrad": Tinygrad,
}
PEERS = tuple(name for name in FRAMEWORKS if name != OURS)


def framework_of(contestant: str) -> str:
    """A contestant is a framework, or one of its ways: "torch_out" is torch's."""
    return contestant.partition("_")[0]


def lacks(name: str) -> str | None:
    """What a peer needs and this machine has not, with the remedy; None if it can run."""
    peer = FRAMEWORKS[name]
    if importlib.util.find_spec(peer.package) is None:
        return f"{name} is not installed: python -m pip install {peer.package}"
    compiler = os.environ.get("CC", peer.compiler) if peer.compiler else ""
    if compiler and shutil.which(compiler) is None:
        return f"{name} compiles with {compiler}, which is not on PATH: install it, or set CC"
    return None


def peers(
    given: str | None, lack: Callable[[str], str | None] = lacks
) -> tuple[list[str], list[str]]:
    """The peers to run, and a line for each that cannot run here.

    `given`: names with commas between, or None for all that can. One that is named must.
    """
    names = PEERS if given is None else _named(given)
    missing = {n: why for n in names if (why := lack(n)) is not None}
    if given is not None and missing:
        raise BenchmarkError(f"--peers: {'; '.join(missing.values())}.")
    return [n for n in names if n not in missing], [f"{why} (left out)" for why in missing.values()]


def _named(given: str) -> Sequence[str]:
    names = list(dict.fromkeys(part.strip().lower() for part in given.split(",") if part.strip()))
    if strange := [n for n in names if n not in PEERS]:
        raise BenchmarkError(f"--peers: no peer {strange[0]!r}; there are {', '.join(PEERS)}.")
    return names
