"""Writing with an index: `x[...] = v`, scatter and its relatives.

Nothing is changed in place by these: a new value of the whole tensor is built, and `x[...] = v`
assigns it. Slices become a padded value and a mask made of constants, so one fused pass selects, or
a kernel that stores the part only where that is in memory (`schedule/boxes.py`); index arrays
become one SCATTER, in which the last of several writes to one place stays (as numpy's)
and additions run in order. Writes wait as all else does, but not for ever: see `before_write`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dtype import DType, dtypes
from ..engine.capture import active as capturing
from ..errors import ArgumentError, DTypeError, ShapeError, no_such
from ..schedule.moving import both, covered, put
from ..uop.ops import Ops, UOp, size
from .axes import Scalar, axis_of, either
from .base import Base, Flag, Integer, Operand, _leaves, operand, result, scalar, tensor_of
from .checks import check_index
from .decompositions import Decompositions
from .indexing import check_owners, flat_places, joined_arrays, read, wrapped
from .store import before_write, is_leaf, runtime_of
from .subscripts import View, parse

if TYPE_CHECKING:
    from .tensor import Tensor

_REDUCE = {
    None: "set",
    "add": "add",
    "sum": "add",
    "multiply": "mul",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
}


class Writing(Decompositions):
    """Item assignment and scatter."""

    __slots__ = ()

    def __setitem__(self, index: Any, value: Operand) -> None:
        given: Any = operand(value, "setitem", self)
        check_owners(self, index, given)
        before_write(self, given)
        if not isinstance(given, Base):
            given = self._number(given)
        if _is_mask(index, self):
            chosen = tensor_of(index, "setitem", self)
            self._assign(_masked(self.uop, chosen.uop, given), _tracked(given))
            return
        view = parse("setitem", self.shape, index, self)
        if view.arrays:
            check_owners(self, tuple(a.tensor for _, a in view.arrays))  # lists are tensors now
            new = _scattered(self.uop, view, given)
        else:
            new = _overlaid(self.uop, view, given)
        self._assign(new, _tracked(given))

    def _number(self, value: Scalar) -> UOp:
        """A number to be written: one that no Plan depends on if there is memory to write to, so
        that a loop that fills a table has one Plan whatever it writes."""
        constant = scalar("setitem", value, self.dtype, ())
        if capturing.get() is not None or not _stored(self.uop) or self.dtype.kind == "bool":
            return constant
        return runtime_of(self).scalar(self.dtype, value)

    def _assign(self, value: UOp, tracked: bool = False) -> None:
        """Put `value` in place of the old one: storage is written to, an expression is replaced.

        If gradients are to go through the value (`tracked`), this tensor is its result from now on,
        as torch's are: no leaf, and an expression, for memory would forget where it came from.
        """
        capture, old = capturing.get(), self.uop
        if capture is not None:
            capture.note(self)
        if value is old:
            return
        if self._requires_grad and is_leaf(self):
            value = value.detach()
        elif tracked and capture is None and self._requires_grad is not False:
            self._replace(value)
            _leaves.pop(id(self.uop), None)
            self._requires_grad = True
            return
        self._replace(old.after(old.store(value)) if _stored(old) else value)

    def scatter(
        self,
        dim: Any = None,
        index: Any = None,
        src: Operand = None,
        reduce: str | None = None,
        *,
        axis: Integer | None = None,
        value: Operand = None,
    ) -> Tensor:
        """self with src[i][j] written to [index[i][j]][j] for dim 0, and so on; `reduce` "add" or
        "multiply" combines with what is there. An index outside its axis writes nothing, or is an
        IndexError under POLY_CHECK=1.

        >>> Tensor([0, 0, 0]).scatter(0, Tensor([2, 0]), Tensor([5, 6])).tolist()
        [6, 0, 5]
        """
        return self._scatter(
            "scatter",
            either("scatter", dim, axis),
            index,
            either("scatter", src, value, "src and value"),
            reduce,
        )

    def scatter_add(
        self,
        dim: Any = None,
        index: Any = None,
        src: Operand = None,
        *,
        axis: Integer | None = None,
    ) -> Tensor:
        """`scatter` that adds.

        >>> Tensor([1, 1]).scatter_add(0, Tensor([0, 0]), Tensor([5, 6])).tolist()
        [12, 1]
        """
        return self._scatter("scatter_add", either("scatter_add", dim, axis), index, src, "add")

    def index_add(self, dim: Integer, index: Any, source: Base, alpha: Any = 1) -> Tensor:
        """self with alpha * source[i] added to the slice of an axis that index[i] numbers.

        >>> Tensor([[0, 0], [0, 0]]).index_add(0, Tensor([1, 1]), Tensor([[1, 2], [3, 4]])).tolist()
        [[0, 0], [4, 6]]
        """
        a, chosen = axis_of("index_add", dim, self.ndim), tensor_of(index, "index_add", self)
        shape = (*self.shape[:a], chosen.numel(), *self.shape[a + 1 :])
        if chosen.ndim != 1 or source.shape != shape:
            raise ShapeError(
                f"index_add: source {source.shape} and index {chosen.shape} do not fit axis {a} of"
                f" {self.shape}."
            )
        updates = source.uop.cast(self.dtype) * alpha if alpha != 1 else source.uop.cast(self.dtype)
        check_index("index_add", chosen, a, self.shape)
        places = wrapped(chosen.uop, self.shape[a])
        return result(self.uop.scatter(places, updates, a, "add"), self, chosen, source)

    def scatter_reduce(
        self, dim: Any, index: Any, src: Operand, reduce: str, include_self: Flag = True
    ) -> Tensor:
        """`scatter` that combines by sum, prod, mean, amax or amin; without `include_self` the old
        values of places that are written do not take part.

        >>> x, index = Tensor([1.0, 1.0]), Tensor([0, 0])
        >>> x.scatter_reduce(0, index, Tensor([5.0, 6.0]), "amax").tolist()
        [6.0, 1.0]
        """
        name = "scatter_reduce"
        if reduce == "mean":
            return self._scattered_mean(dim, index, src, include_self)
        base = self if include_self else self._emptied(dim, index, reduce)
        return base._scatter(name, dim, index, src, reduce)

    def _scatter(self, name: str, dim: Any, index: Any, src: Operand, reduce: str | None) -> Tensor:
        if reduce not in _REDUCE:
            valid = [r for r in _REDUCE if r]
            raise ArgumentError(f"{name}: {no_such('reduce', reduce, valid)}")
        a = axis_of(name, dim, self.ndim)
        chosen = tensor_of(index, name, self)
        given = operand(src, name, self)
        used = [self, chosen]
        if isinstance(given, Base):
            used.append(given)  # type: ignore[arg-type]
            updates = _fitted(name, given.uop, chosen.shape).cast(self.dtype)
        else:
            updates = scalar(name, given, self.dtype, chosen.shape)
        places = flat_places(name, self.shape, chosen, a)
        flat = self.uop.reshape((self.numel(),)).scatter(places, updates, 0, _REDUCE[reduce])
        return result(flat.reshape(self.shape), *used)

    def _emptied(self, dim: Any, index: Any, reduce: str) -> Tensor:
        """self with what `reduce` starts from at the places that `index` names."""
        low, high = self.dtype.min, self.dtype.max
        start = {"sum": 0, "prod": 1, "amax": low, "amin": high}.get(reduce, 0)
        return self._scatter("scatter_reduce", dim, index, start, None)

    def _scattered_mean(self, dim: Any, index: Any, src: Operand, include_self: bool) -> Tensor:
        name = "scatter_reduce"
        base = self if include_self else self._emptied(dim, index, "sum")
        counts = self.zeros_like(dtypes.int32)._scatter(name, dim, index, 1, "add")
        total = base._scatter(name, dim, index, src, "add")
        counts = counts + 1 if include_self else counts.maximum(1)
        return total / counts if self.dtype.is_float else total // counts

    # ---- in-place operators: the result is assigned to this very object

    def _become(self, sign: str, operator: Callable[[Any], Any], other: Any) -> Tensor:
        before_write(self, other)
        value = operator(other)
        if value is NotImplemented:
            return NotImplemented  # type: ignore[no-any-return]
        return self._take(f"{sign}=", f"x = x {sign} y", value)

    def _take(self, name: str, instead: str, value: Any) -> Tensor:
        """Become the value of an operation on self, which must have its shape and kind."""
        if value.shape != self.shape:
            raise ShapeError(f"{name}: the result {value.shape} does not fit shape {self.shape}.")
        if not _kept_kind(value.dtype, self.dtype):
            raise DTypeError(
                f"{name}: a result of {value.dtype.name} does not fit {self.dtype.name};"
                f" use {instead} instead, or cast."
            )
        self._assign(value.uop.cast(self.dtype), _tracked(value))
        return self  # type: ignore[return-value]

    def __iadd__(self, other: Operand) -> Tensor:
        return self._become("+", self.__add__, other)

    def __isub__(self, other: Operand) -> Tensor:
        return self._become("-", self.__sub__, other)

    def __imul__(self, other: Operand) -> Tensor:
        return self._become("*", self.__mul__, other)

    def __itruediv__(self, other: Operand) -> Tensor:
        return self._become("/", self.__truediv__, other)

    def __ifloordiv__(self, other: Operand) -> Tensor:
        return self._become("//", self.__floordiv__, other)

    def __imod__(self, other: Operand) -> Tensor:
        return self._become("%", self.__mod__, other)

    def __ipow__(self, other: Operand) -> Tensor:
        return self._become("**", self.__pow__, other)

    def __iand__(self, other: Operand) -> Tensor:
        return self._become("&", self.__and__, other)

    def __ior__(self, other: Operand) -> Tensor:
        return self._become("|", self.__or__, other)

    def __ixor__(self, other: Operand) -> Tensor:
        return self._become("^", self.__xor__, other)

    def __ilshift__(self, other: Operand) -> Tensor:
        return self._become("<<", self.__lshift__, other)

    def __irshift__(self, other: Operand) -> Tensor:
        return self._become(">>", self.__rshift__, other)


def _tracked(value: Any) -> bool:
    return isinstance(value, Base) and bool(value._requires_grad)


def _stored(u: UOp) -> bool:
    return u.op is Ops.BUFFER or u.op is Ops.AFTER


_KINDS = ("bool", "uint", "int", "float")


def _kept_kind(new: DType, old: DType) -> bool:
    """Whether assigning loses no kind: integers of both signs count as one."""
    most = "int" if old.is_int else old.kind
    return _KINDS.index(new.kind) <= _KINDS.index(most)


# ---- new values


def _fitted(name: str, value: UOp, shape: tuple[int, ...]) -> UOp:
    """A value cut to the shape of an index, as torch's scatter does."""
    fits = len(value.shape) == len(shape) and all(
        m >= n for m, n in zip(value.shape, shape, strict=True)
    )
    if not fits:
        raise ShapeError(f"{name}: values {value.shape} are smaller than the index {shape}.")
    return value.shrink([(0, n, 1) for n in shape])


def _spread(value: Any, dtype: DType, shape: tuple[int, ...]) -> UOp:
    """The value of an item assignment in the shape of what it overwrites."""
    if isinstance(value, UOp):
        return value.broadcast_to(shape)
    u: UOp = value.uop
    while len(u.shape) > len(shape) and u.shape[0] == 1:  # numpy drops leading axes of size 1
        u = u.reshape(u.shape[1:])
    lead = len(shape) - len(u.shape)
    if lead < 0 or any(m not in (1, n) for m, n in zip(u.shape, shape[lead:], strict=True)):
        raise ShapeError(f"setitem: a value of shape {value.shape} does not fit {shape}.")
    return u.cast(dtype).broadcast_to(shape)


def _is_mask(index: Any, x: Base) -> bool:
    """A mask over the first axes, whose length nobody needs to know if the value has none."""
    return (
        isinstance(index, Base)
        and index.dtype.kind == "bool"
        and index.shape == x.shape[: index.ndim]
        and index.ndim > 0
    )


def _masked(x: UOp, mask: UOp, value: Any) -> UOp:
    rest = x.shape[len(mask.shape) :]
    if isinstance(value, Base) and len(value.shape) > len(rest):
        return _compressed(x, mask, value)
    where = mask.reshape((*mask.shape, *(1,) * len(rest))).expand(x.shape)
    return where.where(_spread(value, x.dtype, x.shape), x)


def _compressed(x: UOp, mask: UOp, value: Base) -> UOp:
    """One value for each true element: the mask is computed to number them."""
    view = parse("setitem", x.shape, result(mask, value))
    return _scattered(x, view, value)


def _overlaid(x: UOp, view: View, value: Any) -> UOp:
    """The value moved to where the index reads, under a mask of that place."""
    box = [-(-(stop - start) // step) for start, stop, step in view.bounds]
    pads = []
    for n, count, (start, _, step) in zip(x.shape, box, view.bounds, strict=True):
        extent = (count - 1) * step + 1 if count else 0
        pads.append((start, n - start - extent, step - 1) if count else (n, 0, 0))
    inside = UOp.const(dtypes.bool, True).broadcast_to(box).pad(pads)
    for axis, begin, length in view.moving:
        inside = both(inside, covered(x.shape, axis, begin, length))
    if isinstance(value, UOp):
        return inside.where(value.broadcast_to(x.shape), x)
    for axis, _, length in view.moving:
        box[axis] = length
    placed = _spread(value, x.dtype, view.shape).reshape(box).flip(view.flips)
    for axis, begin, _ in view.moving:
        placed = put(placed, axis, begin, x.shape[axis])
    return inside.where(placed.pad(pads), x)


def _scattered(x: UOp, view: View, value: Any) -> UOp:
    axes = [axis for axis, _ in view.arrays]
    bounds = zip(view.bounds, x.shape, strict=True)
    whole = not (view.flips or view.moving) and all(b == (0, n, 1) for b, n in bounds)
    if len(axes) == 1 and whole and view.shape == x.shape and view.place == axes[0]:
        a = axes[0]
        nodes, common = joined_arrays([view.arrays[0][1]], [x.shape[a]])
        shape = (*x.shape[:a], *common, *x.shape[a + 1 :])
        return x.scatter(nodes[0], _spread(value, x.dtype, shape), a, "set")
    # In general: number the elements, read the numbers with the same index, write there. They start
    # at 1, as an index outside its axis reads 0.
    total = size(x.shape)
    wide = dtypes.int64 if total >= 1 << 31 else dtypes.int32
    numbers = (UOp.iota(total, wide) + 1).reshape(x.shape)
    places = read(numbers, view) - 1
    flat = x.reshape((total,)).scatter(places, _spread(value, x.dtype, places.shape), 0, "set")
    return flat.reshape(x.shape)
