"""Ports: what goes into an entrypoint and comes out of it, looked up once, so that a call need only
check and copy what it was given."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..device.buffer import Buffer, pool, with_room
from ..dtype import DType
from ..engine import Runtime
from ..engine.owner import mixed
from ..tensor import Tensor
from ..tensor.base import away, replayed
from ..tensor.host import array_of
from ..uop.ops import Ops, UOp, size
from ..uop.sizes import actual, is_fixed, rebound
from .graph import Entrypoint
from .signature import Outputs, Spec, Values, check_dtype, check_shape, host_array

_BUFFER: Final = Ops.BUFFER  # older Pythons take 0.1 us to read a member of an enum


class Input:
    """One input. `label` names it in messages; `shape` is all that it takes, None if it varies."""

    __slots__ = ("device", "label", "nbytes", "runtime", "shape", "spec")

    def __init__(self, label: str, spec: Spec, device: str, runtime: Runtime) -> None:
        self.label, self.spec, self.device, self.runtime = label, spec, device, runtime
        self.nbytes = spec.nbytes
        self.shape = spec.shape if is_fixed(spec.shape) else None

    def take(self, value: Any, sizes: Values) -> Buffer:
        """A Buffer with room for the largest, whatever was given; its sizes go to `sizes`."""
        if isinstance(value, Tensor):
            return self._take_tensor(value, sizes)
        view, shape = host_array(self.label, value, self.spec.dtype)
        if shape != self.shape:
            check_shape(self.label, shape, self.spec, sizes)
        return self.holding(view)

    def holding(self, data: memoryview) -> Buffer:
        """A Buffer with room for the largest that starts with these bytes."""
        buffer = Buffer.of_pool(pool(self.device), self.nbytes)
        buffer.write(data)
        return buffer

    def _take_tensor(self, value: Tensor, sizes: Values) -> Buffer:
        spec, node, runtime = self.spec, value.uop, self.runtime
        if away(value):
            raise mixed(runtime.owner, value.runtime.owner)
        if node.shape != self.shape:
            check_shape(self.label, value.shape, spec, sizes)
        if node.dtype is not spec.dtype:
            check_dtype(self.label, value.dtype, spec)
        elif node.op is _BUFFER and node.arg[2] == self.device:
            buffer = runtime.buffer_of(node)
            return buffer if buffer.nbytes == self.nbytes else with_room(buffer, self.nbytes)
        ready = value.cast(spec.dtype).to(self.device).realize()
        leaf = runtime.leaf_of(ready.uop)
        assert leaf is not None
        return with_room(runtime.buffer_of(leaf), self.nbytes)


class Output(NamedTuple):
    """One output. A `fixed` one has the same shape in every call."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    fixed: bool
    nbytes: int  # of the largest

    @classmethod
    def of(cls, name: str, value: UOp) -> Output:
        spec = Spec(value.shape, value.dtype)
        return cls(name, spec.dtype, spec.shape, is_fixed(spec.shape), spec.nbytes)

    def bound(self, sizes: Values) -> tuple[int, ...]:
        """The shape of a call, over variables that have their values."""
        return tuple([rebound(n, sizes) for n in self.shape])


class Ports(NamedTuple):
    """An entrypoint with what it takes and gives."""

    entry: Entrypoint
    names: frozenset[str]
    inputs: tuple[tuple[str, Input], ...]
    outputs: tuple[Output, ...]
    device: str
    runtime: Runtime

    def arrays(self, made: list[Buffer], sizes: Values) -> Outputs:
        """The outputs of a call as numpy arrays."""
        out = Outputs()
        for output, buffer in zip(self.outputs, made, strict=True):
            name, dtype, shape, fixed, nbytes = output
            if not fixed:
                shape = actual(output.bound(sizes))
                nbytes = size(shape) * dtype.itemsize
            out[name] = array_of(buffer.read(nbytes), dtype, shape)
        return out

    def tensors(self, made: list[Buffer], sizes: Values) -> Outputs:
        """The outputs of a call as Tensors."""
        runtime, device = self.runtime, self.device
        out = Outputs()
        for output, buffer in zip(self.outputs, made, strict=True):
            name, dtype, shape, fixed, _ = output
            leaf = runtime.leaf(dtype, shape if fixed else output.bound(sizes), device, buffer)
            out[name] = replayed(leaf, device, runtime.owner)
        return out
