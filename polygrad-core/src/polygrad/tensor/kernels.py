"""Kernels that users write, as operations on tensors.

The function gets a placeholder for each tensor (`uop/kernel.py` is the language) and gives the
kernel. The result is functional like every operation: what the kernel stores is a new tensor, and
the tensor given for it says the shape, the dtype, and what stands where the kernel stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..arguments import call_back
from ..errors import ArgumentError, GradientError
from ..uop.kernel import Gradient, Placeholder, call, covers, finished, written
from ..uop.ops import Ops, UOp
from .base import Base, result, tensor_of
from .indexing import Indexing

if TYPE_CHECKING:
    from .tensor import Tensor


class Kernels(Indexing):
    """`custom_kernel`."""

    __slots__ = ()

    def custom_kernel(
        self, *others: Any, fxn: Callable[..., UOp], grad_fxn: Callable[..., Any] | None = None
    ) -> list[Tensor]:
        """The tensors after a kernel of your own: `fxn` takes a placeholder for each and returns a
        SINK. Tensors that it stores into come back as new ones, the others as they are.

        `grad_fxn(gradient, *tensors)` returns a gradient, or None, for each tensor; `gradient` is
        that of the stored tensor, a list (with None where nothing flows) if there are several.
        Raises SpecError where the kernel is not legal.

        >>> from polygrad.uop.ops import KernelInfo, UOp
        >>> def double(out, x):
        ...     i = UOp.range(out.numel(), 0)
        ...     return out[i].store(x[i] * 2).end(i).sink(arg=KernelInfo(name="double"))
        >>> Tensor.empty(3).custom_kernel(Tensor([1.0, 2.0, 3.0]), fxn=double)[0].tolist()
        [2.0, 4.0, 6.0]
        """
        tensors: list[Tensor] = [tensor_of(t, "custom_kernel") for t in (self, *others)]
        places = [Placeholder.param(i, t.dtype, t.shape) for i, t in enumerate(tensors)]
        sink = finished(_sink(fxn, places))
        stored = written(sink)
        if not stored:
            raise ArgumentError("custom_kernel: the kernel stores nothing.")
        read = {n.arg[0] for n in sink.toposort() if n.op is Ops.PARAM}
        old = {i for i in stored if not covers(sink, i)}
        sources = [
            (i, t.uop) for i, t in enumerate(tensors) if i in old or (i in read and i not in stored)
        ]
        rule = None if grad_fxn is None else _gradient(grad_fxn, tensors, stored, sources)
        outputs = [(i, tensors[i].dtype, tensors[i].shape) for i in stored]
        made = call(sink, sources, outputs, gradient=rule)
        new = {i: result(u, *tensors) for i, u in zip(stored, made, strict=True)}
        return [new.get(i, t) for i, t in enumerate(tensors)]


def _sink(fxn: Callable[..., UOp], places: Sequence[Placeholder]) -> UOp:
    sink = call_back("custom_kernel: fxn", fxn, *places)
    if not isinstance(sink, UOp) or sink.op is not Ops.SINK:
        raise ArgumentError(
            "custom_kernel: fxn returns .sink(arg=KernelInfo(...)) of its stores, not"
            f" {type(sink).__name__}."
        )
    if any(n.op is Ops.VARIABLE for n in sink.toposort()):
        raise ArgumentError("custom_kernel: a kernel takes tensors; give the variable as one.")
    return sink


def _gradient(
    grad_fxn: Callable[..., Any],
    tensors: Sequence[Tensor],
    stored: Sequence[int],
    sources: Sequence[tuple[int, UOp]],
) -> Gradient:
    """`grad_fxn` on nodes. It keeps the tensors as they are now."""
    now = [result(t.uop, t) for t in tensors]

    def rule(node: UOp, g: UOp) -> list[UOp | None]:
        flow = result(g, *now)
        each = [flow if i == node.arg.which else None for i in range(len(stored))]
        found = grad_fxn(flow if len(stored) == 1 else each, *now)
        if not isinstance(found, (tuple, list)) or len(found) != len(now):
            raise GradientError(
                f"custom_kernel: grad_fxn returns {len(now)} gradients, one for each tensor."
            )
        return [_flow(found[i], u) for i, u in sources]

    return rule


def _flow(found: Any, source: UOp) -> UOp | None:
    if found is None:
        return None
    uop: UOp = found.uop if isinstance(found, Base) else found
    if uop.shape != source.shape:
        raise GradientError(
            f"custom_kernel: grad_fxn gave shape {uop.shape} for a tensor of {source.shape}."
        )
    return uop.cast(source.dtype)
