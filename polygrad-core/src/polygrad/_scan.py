"""`associative_scan`: running results of any associative function of tensors.

Floor: above tensor, beside `_jit`. jax's name and rule: the function combines whole slices of the
operands along one axis. Neighbours are joined in pairs, the pairs are scanned, and one more join
gives every second result: linear work in 2 log2(n) calls of the function (Ladner and Fischer,
Parallel prefix computation, 1980). Each level is stored, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._nested import flatten, rebuilt
from .arguments import call_back
from .errors import ArgumentError, DTypeError, ShapeError, public
from .tensor import Tensor
from .tensor.axes import own_axis
from .tensor.base import result
from .uop.ops import UOp

NAME = "associative_scan"
Join = Callable[[list[Tensor], list[Tensor]], list[Tensor]]


@public
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """x[0], fn(x[0], x[1]), fn(fn(x[0], x[1]), x[2]), … along an axis, for an associative `fn`;
    with `reverse` from the end. `elems` is a tensor, or tensors of one length along the axis in
    lists, tuples, dicts or dataclasses: `fn` takes two such, of any length, and gives one, each
    tensor with the shape and dtype it had. Gradients pass through `fn`.

    >>> from polygrad import Tensor, associative_scan
    >>> associative_scan(lambda a, b: a * b, Tensor([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    """
    given: list[Tensor] = []
    numbers: list[int | float] = []
    flatten(elems, given, numbers)
    if not given or numbers:
        raise ArgumentError(f"{NAME}: elems is a tensor, or tensors in lists, dicts or the like.")
    axes = [own_axis(NAME, axis, t.ndim) for t in given]
    lengths = {t.shape[a] for t, a in zip(given, axes, strict=True)}
    if len(lengths) > 1:
        shapes = " and ".join(str(t.shape) for t in given)
        raise ShapeError(f"{NAME}: shapes {shapes} have different lengths along axis {axis}.")

    def join(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        both = (rebuilt(elems, iter(side), iter(())) for side in (left, right))
        made: list[Tensor] = []
        flatten(call_back(f"{NAME}: fn", fn, *both), made, [])
        _check(made, left)
        return made

    turned = [t.flip(a) for t, a in zip(given, axes, strict=True)] if reverse else given
    out = _scanned(join, turned, axes)
    out = [t.flip(a) for t, a in zip(out, axes, strict=True)] if reverse else out
    return rebuilt(elems, iter(out), iter(()))


def _check(made: Sequence[Tensor], like: Sequence[Tensor]) -> None:
    if [t.shape for t in made] != [t.shape for t in like]:
        got, want = (", ".join(str(t.shape) for t in x) or "no tensor" for x in (made, like))
        raise ShapeError(f"{NAME}: fn gave {got} for {want}; it keeps the shapes.")
    for new, old in zip(made, like, strict=True):
        if new.dtype is not old.dtype:
            raise DTypeError(f"{NAME}: fn gave {new.dtype.name} for {old.dtype.name}.")


def _scanned(join: Join, elems: list[Tensor], axes: Sequence[int]) -> list[Tensor]:
    n = elems[0].shape[axes[0]]
    if n < 2:
        return elems
    pairs = join(_cut(elems, axes, 0, n - 1, 2), _cut(elems, axes, 1, n, 2))
    odd = [t.contiguous() for t in _scanned(join, [t.contiguous() for t in pairs], axes)]
    even = _cut(elems, axes, 0, 1, 1)
    if n > 2:
        later = join(_cut(odd, axes, 0, (n - 1) // 2, 1), _cut(elems, axes, 2, n, 2))
        even = [e.cat(t, axis=a) for e, t, a in zip(even, later, axes, strict=True)]
    return [_alternating(*each) for each in zip(even, odd, axes, strict=True)]


def _cut(
    tensors: Sequence[Tensor], axes: Sequence[int], start: int, stop: int, step: int
) -> list[Tensor]:
    return [
        t[(slice(None),) * a + (slice(start, stop, step),)]
        for t, a in zip(tensors, axes, strict=True)
    ]


def _alternating(even: Tensor, odd: Tensor, axis: int) -> Tensor:
    """even[0], odd[0], even[1], … along an axis."""
    n = even.shape[axis] + odd.shape[axis]
    places = [(0, 1 - n % 2, 1), (1, n % 2, 1)]
    left, right = (
        t.uop.pad([at if d == axis else (0, 0, 0) for d in range(t.ndim)])
        for t, at in zip((even, odd), places, strict=True)
    )
    ones = [n if d == axis else 1 for d in range(even.ndim)]
    first = (UOp.iota(n) & 1).eq(0).reshape(ones).expand(left.shape)
    return result(first.where(left, right), even, odd)
