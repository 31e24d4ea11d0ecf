"""Products: matmul, dot, outer, einsum.

Each is one multiplication of two expanded views and one sum over the shared axes, which is the
shape that the contraction recipe looks for. Integers of 32 and 64 bits stay, as numpy's, and wrap;
smaller ones and bools give 32 bits. Narrow floats multiply and accumulate in float32 and are
rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtype import DType, dtypes, promote, to_dtype
from ..errors import ArgumentError, ShapeError
from ..uop.ops import Ops, Shape, UOp
from .activation import Activation
from .base import Base, Operand, broadcast_shape, common_dtype, result, tensor_of
from .elementwise import binary
from .movement import diagonal, swap, unsqueeze
from .naming import also

if TYPE_CHECKING:
    from .tensor import Tensor


def product_dtypes(dtype: DType) -> tuple[DType, DType]:
    """(what products of `dtype` accumulate in, what the result is)."""
    if dtype.is_float:
        return dtype.arithmetic, dtype
    if dtype.itemsize >= 4:
        return dtype, dtype
    return (dtypes.uint32, dtypes.uint32) if dtype.is_unsigned else (dtypes.int32, dtypes.int32)


def _factor(u: UOp, inner: DType, outer: DType) -> UOp:
    """What is multiplied; of bools it is counted how often both are true."""
    return u.cast(outer).cast(dtypes.int32) if outer.kind == "bool" else u.cast(inner)


def matmul(a: UOp, b: UOp) -> UOp:
    """Of nodes with at least two axes, in the dtype they have; batch axes broadcast."""
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    batch = _batch(a.shape, b.shape)
    left = unsqueeze(a, len(a.shape) - 1).broadcast_to((*batch, m, n, k))
    right = unsqueeze(swap(b, -1, -2), len(b.shape) - 2).broadcast_to((*batch, m, n, k))
    return (left * right).reduce(Ops.ADD, (len(batch) + 2,))


def _batch(a: Shape, b: Shape) -> Shape:
    try:
        return broadcast_shape("matmul", [a[:-2], b[:-2]])
    except ShapeError:
        raise ShapeError(
            f"matmul: shapes {a} and {b}: their batches {a[:-2]} and {b[:-2]} do not broadcast."
        ) from None


class Linalg(Activation):
    """Matrix products and einsum."""

    __slots__ = ()

    def matmul(self, other: Operand, dtype: Any = None) -> Tensor:
        """The matrix product; one axis is a vector, more than two are batches, which broadcast.

        >>> Tensor([[1.0, 2.0]]).matmul(Tensor([[3.0], [4.0]])).tolist()
        [[11.0]]
        """
        right = tensor_of(other, "matmul", self)
        return self._matmul("matmul", self, right, dtype)

    dot, mm, bmm = also("dot", matmul), also("mm", matmul), also("bmm", matmul)

    def _matmul(self, name: str, x: Base, y: Base, dtype: Any = None) -> Tensor:
        a, b = x.uop, y.uop
        shared = b.shape[-2:][0] if b.shape else 0
        if not a.shape or not b.shape or a.shape[-1] != shared:
            raise ShapeError(_mismatch(name, x, y))
        inner, outer = product_dtypes(common_dtype((x, y)))
        if dtype is not None:
            outer = to_dtype(dtype)
            inner = promote(inner, outer) if outer.is_float == inner.is_float else outer
        a, b = _factor(a, inner, outer), _factor(b, inner, outer)
        out = matmul(
            a if len(a.shape) > 1 else unsqueeze(a, 0), b if len(b.shape) > 1 else unsqueeze(b, 1)
        )
        shape = list(out.shape)
        if len(b.shape) == 1:
            del shape[-1]
        if len(a.shape) == 1:
            del shape[-1 if len(b.shape) == 1 else -2]
        return result(out.reshape(shape).cast(outer), x, y)

    def __matmul__(self, other: Operand) -> Tensor:
        return self._matmul("matmul", self, tensor_of(other, "matmul", self))

    def __rmatmul__(self, other: Operand) -> Tensor:
        return self._matmul("matmul", tensor_of(other, "matmul", self), self)

    def outer(self, other: Operand) -> Tensor:
        """Every product of an element of self with one of `other`, both with one axis.

        >>> Tensor([1, 2]).outer(Tensor([3, 4])).tolist()
        [[3, 4], [6, 8]]
        """
        right = tensor_of(other, "outer", self)
        if self.ndim != 1 or right.ndim != 1:
            raise ShapeError(f"outer takes two vectors, not shapes {self.shape} and {right.shape}.")
        return self.unsqueeze(1) * right.unsqueeze(0)

    def linear(self, weight: Base, bias: Base | None = None) -> Tensor:
        """self @ weight (+ bias); weight is (in, out), or (in,) to scale elementwise.

        >>> Tensor([1.0, 2.0]).linear(Tensor([[3.0], [4.0]]), Tensor([1.0])).tolist()
        [12.0]
        """
        if weight.ndim == 1:
            out = binary("linear", Ops.MUL, self, weight)
        else:
            out = self._matmul("linear", self, weight)
        return out if bias is None else binary("linear", Ops.ADD, out, bias)

    @staticmethod
    def einsum(formula: str, *operands: Any, dtype: Any = None) -> Tensor:
        """Sum of products by axis labels: `"ij,jk->ik"`. Repeated labels in an operand take its
        diagonal, sizes 1 broadcast, `...` stands for leading axes; without `->` labels that occur
        once are kept, in alphabetical order.

        >>> Tensor.einsum("ij,j->i", Tensor([[1, 2], [3, 4]]), Tensor([1, 10])).tolist()
        [21, 43]
        """
        if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
            operands = tuple(operands[0])
        tensors = [tensor_of(x, "einsum", *operands) for x in operands]
        inner, outer = product_dtypes(common_dtype(tensors) if tensors else dtypes.float32)
        if dtype is not None:
            inner = outer = to_dtype(dtype)
        inputs, output = _labels(formula, [t.shape for t in tensors])
        out = contract([_factor(t.uop, inner, outer) for t in tensors], inputs, output, formula)
        return result(out.cast(outer), *tensors)


def _mismatch(name: str, x: Base, y: Base) -> str:
    text = f"{name}: shapes {x.shape} and {y.shape} do not match"
    if not x.shape or not y.shape:
        return text + ": a 0-d tensor has no axis to sum over; use *."
    shared = y.shape[-2:][0]
    which = "only" if y.ndim == 1 else "second last"
    text += f": the last axis is {x.shape[-1]}, the {which} one of the other {shared}."
    if y.ndim == 2 and y.shape[1] == x.shape[-1]:
        text += " other.T would fit."
    return text


# ---- einsum

Labels = tuple[str, ...]


def _labels(formula: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result; the axes of `...` get names of digits."""
    text = formula.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(shapes):
        raise ArgumentError(
            f"einsum: {formula!r} names {len(parts)} operands, {len(shapes)} were given."
        )
    _check_letters(formula, [*parts, right])
    widths = [len(s) - len(p.replace("...", "")) for p, s in zip(parts, shapes, strict=True)]
    for p, s, width in zip(parts, shapes, widths, strict=True):
        if width < 0 or (width and "..." not in p):
            raise ShapeError(f"einsum: {p!r} of {formula!r} does not fit shape {s}.")
    most = max((w for p, w in zip(parts, widths, strict=True) if "..." in p), default=0)
    inputs = [_expanded(p, w, most) for p, w in zip(parts, widths, strict=True)]
    if arrow:
        output = _expanded(right, most, most)
    else:
        every = [c for labels in inputs for c in labels if not c.isdigit()]
        kept = sorted({c for c in every if every.count(c) == 1})
        output = (*(str(i) for i in range(most)), *kept)
    known = {c for labels in inputs for c in labels}
    if len(set(output)) < len(output) or not set(output) <= known:
        raise ArgumentError(f"einsum: {right!r} of {formula!r} repeats a label or names a new one.")
    return inputs, output


def _check_letters(formula: str, parts: Sequence[str]) -> None:
    for p in parts:
        rest = p.replace("...", "", 1)
        if rest and not (rest.isalpha() and rest.isascii()):
            raise ArgumentError(f"einsum: {formula!r} has labels that are no letters.")


def _expanded(part: str, width: int, most: int) -> Labels:
    before, dots, after = part.partition("...")
    middle = [str(i) for i in range(most - width, most)] if dots else []
    return (*before, *middle, *after)


def contract(nodes: Sequence[UOp], inputs: Sequence[Labels], output: Labels, formula: str) -> UOp:
    """Pairwise from the left; a label is summed as soon as nobody further on needs it."""
    sizes = _sizes(nodes, inputs, formula)
    work = [_without_repeats(u, labels, sizes) for u, labels in zip(nodes, inputs, strict=True)]
    value, have = work[0]
    for i, (u, labels) in enumerate(work[1:], 1):
        later = {c for _, ls in work[i + 1 :] for c in ls} | set(output)
        every = (*have, *(c for c in labels if c not in have))
        shape = tuple(sizes[c] for c in every)
        product = _aligned(value, have, every, shape) * _aligned(u, labels, every, shape)
        value, have = _summed(product, every, later)
    value, have = _summed(_full(value, have, sizes), have, set(output))
    return value.permute([have.index(c) for c in output])


def _sizes(nodes: Sequence[UOp], inputs: Sequence[Labels], formula: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for u, labels in zip(nodes, inputs, strict=True):
        for c, n in zip(labels, u.shape, strict=True):
            old = sizes.get(c, 1)
            if old != n and 1 not in (old, n):
                shapes = ", ".join(str(x.shape) for x in nodes)
                raise ShapeError(
                    f"einsum: {formula!r} with shapes {shapes}: label {c!r} is {old} and {n}."
                )
            sizes[c] = n if old == 1 else old
    return sizes


def _without_repeats(u: UOp, labels: Labels, sizes: dict[str, int]) -> tuple[UOp, Labels]:
    """Repeated labels of one operand become one axis, their diagonal."""
    while len(set(labels)) < len(labels):
        c = next(c for c in labels if labels.count(c) > 1)
        i = labels.index(c)
        j = labels.index(c, i + 1)
        shape = list(u.shape)
        shape[i] = shape[j] = max(shape[i], shape[j])
        u = u.expand(shape)
        rest = [a for a in range(len(labels)) if a not in (i, j)]
        u = diagonal(u.permute((*rest, i, j)))
        labels = (*(labels[a] for a in rest), c)
    return u, labels


def _aligned(u: UOp, have: Labels, every: Labels, shape: tuple[int, ...]) -> UOp:
    """Axes in the order of `every`, missing ones added."""
    order = sorted(range(len(have)), key=lambda a: every.index(have[a]))
    u = u.permute(order)
    present = [have[a] for a in order]
    ones = tuple(u.shape[present.index(c)] if c in present else 1 for c in every)
    return u.reshape(ones).expand(shape)


def _full(u: UOp, have: Labels, sizes: dict[str, int]) -> UOp:
    return u.expand([sizes[c] for c in have])


def _summed(u: UOp, have: Labels, keep: set[str]) -> tuple[UOp, Labels]:
    axes = [a for a, c in enumerate(have) if c not in keep]
    return u.reduce(Ops.ADD, axes), tuple(c for c in have if c in keep)
