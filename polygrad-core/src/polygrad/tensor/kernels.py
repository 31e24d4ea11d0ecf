"""Kernels that users write, as operations on tensors.

The function gets a placeholder for each tensor (`uop/kernel.py` is the language) and gives the
kernel. The result is functional like every operation: what the kernel stores is a new tensor, and
the tensor given for it says the shape, the dtype, and what stands where the kernel stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..arguments import call_back
from ..errors import ArgumentError, GradientError, shown
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
        tensors: list[Tensor] = [
            tensor_of(t, "custom_kernel", self, *others) for t in (self, *others)
        ]
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
        rule = None if grad_fxn is None else _gradient(grad_fxn, tensors, [i for i, _ in sources])
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
    sources: Sequence[int],
) -> Gradient:
    """`grad_fxn` on nodes: on the tensors as they are now, but those that the kernel reads are the
    sources of the node that it is asked about."""
    now = [result(t.uop, t) for t in tensors]

    def rule(node: UOp, flows: Sequence[UOp | None]) -> list[UOp | None]:
        given = list(now)
        for i, u in zip(sources, node.src, strict=True):
            given[i] = result(u, now[i])
        each = [None if g is None else result(g, *now) for g in flows]
        found = grad_fxn(each[0] if len(each) == 1 else each, *given)
        parts = gradients_of("custom_kernel", found, given)
        return [parts[i] for i in sources]

    return rule


def gradients_of(name: str, found: Any, tensors: Sequence[Base]) -> list[UOp | None]:
    """What a grad_fxn gave, checked: a gradient or None for each tensor."""
    if not isinstance(found, (tuple, list)) or len(found) != len(tensors):
        count = len(tensors)
        raise GradientError(
            f"{name}: grad_fxn returns a tuple of {count} gradients, one for each tensor, not"
            f" {shown(found) if not isinstance(found, (tuple, list)) else len(found)}."
        )
    return [_flow(name, i, g, t.uop) for i, (g, t) in enumerate(zip(found, tensors, strict=True))]


def _flow(name: str, number: int, found: Any, source: UOp) -> UOp | None:
    if found is None:
        return None
    if not isinstance(found, Base):
        raise GradientError(
            f"{name}: grad_fxn gives a tensor or None for tensor {number}, not {shown(found)}."
        )
    if found.shape != source.shape:
        raise GradientError(
            f"{name}: grad_fxn gave shape {found.shape} for tensor {number} of {source.shape}."
        )
    return found.uop.cast(source.dtype) if source.dtype.is_float else None
