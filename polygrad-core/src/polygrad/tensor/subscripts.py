"""An index as a user writes it, parsed into a `View`: what to cut, what to gather, in which order.

Floor: tensor. What comes in is the shape of a tensor and what stood in its brackets; what goes out
says for each axis its bounds, whether it is reversed, and which index array it takes. Reading and
writing (`indexing.py`, `writing.py`) follow it and know no other form of an index.

What Python knows at the call (integers, lists, numpy arrays) is checked here. An index array that
is a tensor is checked under POLY_CHECK=1 only (`checks.py`). A boolean mask is an index array for
each of its axes, whose length is known only when the mask has been computed: it is realised first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ..arguments import converts
from ..dtype import dtypes
from ..engine.number import Number as Symbol
from ..engine.number import distance
from ..errors import ArgumentError, DTypeError, IndexError_, ShapeError, VaryingSize, shown
from ..uop.ops import Shape, UOp, size
from ..uop.sizes import BoundVariable, Size, Variable, bound_in, clamp, is_fixed, larger, rebound
from .base import Base, tensor_of
from .checks import check_index

if TYPE_CHECKING:
    from .tensor import Tensor


class Array(NamedTuple):
    """An index array for one axis."""

    tensor: Tensor
    extent: tuple[int, int] | None = None  # least and largest element, where Python knows them
    axis_size: int | None = None  # a mask's own size, which the axis must have


class Truth(NamedTuple):
    """A bool, or a mask without axes: a new axis of one element, taken once or not at all."""

    array: Array


class Moving(NamedTuple):
    """A slice whose start is known at the call of a captured function only."""

    axis: int
    start: UOp
    length: int


class View(NamedTuple):
    """A parsed index. Axes of `shape` are what slices and None leave, and index arrays have not
    taken."""

    bounds: tuple[tuple[int, int, int], ...]  # SHRINK of the axes of x
    flips: tuple[int, ...]
    shape: Shape  # after integers have gone and None have come; index arrays' axes are still there
    arrays: tuple[tuple[int, Array], ...]  # (axis of `shape`, index array)
    place: int  # where the arrays' common shape goes among the axes that are left
    moving: tuple[Moving, ...] = ()  # slices of axes that `bounds` leaves whole


def parse(name: str, shape: Shape, index: Any, *beside: Base) -> View:
    """`index` of a tensor of `shape`, checked; `name` is the operation's in errors. Lists and
    arrays in it are put on the device of the tensor that it indexes."""
    given = index if isinstance(index, tuple) else (index,)
    key = _key(given)
    return _parsed(name, shape, given, beside) if key is None else _known(shape, key)


_PLAIN = frozenset({int, type(None), type(Ellipsis), Size, Variable, BoundVariable})


def _key(items: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What an index without arrays is told by: its items, with slices as tuples; None for any other
    index. (A bool is a mask, and the number of a captured function is noted where it is used.)"""
    parts: list[Any] = []
    for item in items:
        if type(item) is slice:
            item = (item.start, item.stop, item.step)
            if not _PLAIN.issuperset(map(type, item)):
                return None
        elif type(item) not in _PLAIN:
            return None
        parts.append(item)
    return tuple(parts)


@lru_cache(maxsize=512)  # every layer of a network takes the same places of its tensors
def _known(shape: Shape, key: tuple[Any, ...]) -> View:
    items = tuple([slice(*part) if type(part) is tuple else part for part in key])
    return _parsed("index", shape, items, ())


def _parsed(name: str, shape: Shape, items: tuple[Any, ...], beside: Sequence[Base]) -> View:
    items, dots = _filled(shape, _arrays_of(_settled(items), beside))
    bounds, flips, kept, arrays = [], [], [], []
    advanced: list[int] = []  # places in `items` of arrays and integers
    moving: list[Moving] = []
    axis = 0
    for place, item in enumerate(items):
        if item is None:
            kept.append(1)
            continue
        if isinstance(item, Truth):
            advanced.append(place)
            arrays.append((len(kept), item.array))
            kept.append(1)
            continue
        n = shape[axis]
        moves = _moving(item, n, axis)
        if moves is not None:
            moving.append(moves)
            bounds.append((0, n, 1))
            if isinstance(item, slice):
                kept.append(moves.length)
            else:
                advanced.append(place)
        elif isinstance(item, slice):
            bound, reverse = _slice(item, n)
            if reverse:
                flips.append(axis)
            bounds.append(bound)
            kept.append(-(-(bound[1] - bound[0]) // bound[2]))
        elif isinstance(item, Array):
            advanced.append(place)
            arrays.append((len(kept), _checked(name, item, axis, shape)))
            bounds.append((0, n, 1))
            kept.append(n)
        else:
            advanced.append(place)
            item = item if isinstance(item, Size) else int(item)
            i = _position(item, n, axis, shape)
            bounds.append((i, i + 1, 1))
        axis += 1
    at = _place(advanced, dots)
    return View(tuple(bounds), tuple(flips), tuple(kept), tuple(arrays), at, tuple(moving))


def _moving(item: Any, n: int, axis: int) -> Moving | None:
    """An index or a slice of fixed length, by a number that a captured function was given; None
    where Python has to know the number."""
    if isinstance(item, Symbol):
        at = item.place(n)
        return None if at is None else Moving(axis, at, 1)
    if not isinstance(item, slice) or not isinstance(item.start, Symbol):
        return None
    if not isinstance(item.stop, Symbol) or item.step not in (None, 1):
        return None
    first, length = item.start.value, distance(item.start, item.stop)
    if type(first) is not int or not length or not 0 <= first <= n - length < n:
        return None
    return Moving(axis, item.start.start(n - length), length)


def _position(item: int, n: int, axis: int, shape: Shape) -> int:
    """An integer, or one that varies, counted from the start of an axis of n."""
    try:
        i = item + n if item < 0 else item
        inside = 0 <= i < n
    except VaryingSize:
        raise IndexError_(
            f"index {item} may lie outside axis {axis} of shape {shape}; give its variable bounds"
            " that keep it inside."
        ) from None
    if not inside:
        raise IndexError_(f"index {item} is outside axis {axis} of shape {shape}.")
    return i


def _settled(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """A variable that is bound in one place of an index is bound in all: `x[i.bind(3) : i + 4]`."""
    if not any(map(_varies, items)):
        return items
    some = [n for item in items for n in _numbers(item) if isinstance(n, Size)]
    values = {v.variable.node: v.value for n in some for v in bound_in(n)}
    return tuple([_rebound(item, values) for item in items])


def _varies(item: Any) -> bool:
    if type(item) is slice:
        return isinstance(item.start, Size) or isinstance(item.stop, Size)
    return isinstance(item, Size)


def _numbers(item: Any) -> tuple[Any, ...]:
    return (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)


def _rebound(item: Any, values: dict[UOp, int]) -> Any:
    if isinstance(item, slice):
        return slice(*[_rebound(n, values) for n in _numbers(item)])
    return rebound(item, values) if isinstance(item, Size) else item


def _place(advanced: Sequence[int], dots: int) -> int:
    """Where the arrays' shape goes: in their place if they stand together, else in front. An
    Ellipsis parts them, even one that stands for no axis."""
    if not advanced or advanced[-1] - advanced[0] + 1 != len(advanced):
        return 0
    return 0 if advanced[0] < dots <= advanced[-1] else advanced[0]


def _arrays_of(items: tuple[Any, ...], beside: Sequence[Base]) -> list[Any]:
    """Items as int, slice, None, Ellipsis, Truth and Array; a mask gives one Array for each of its
    axes."""
    out: list[Any] = []
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, (slice, Size)):
            out.append(item)
        elif isinstance(item, range):
            out += _arrays(list(item), beside)
        elif isinstance(item, (bool, Base, list, tuple)) or _is_array(item):
            out += _arrays(item, beside)
        elif isinstance(item, Symbol):
            out.append(item)
        elif converts(item, "__index__"):
            out.append(int(item.__index__()))
        else:
            given = shown(item)
            raise ArgumentError(f"an index is made of integers, slices and arrays, not {given}.")
    return out


def _is_array(item: Any) -> bool:
    """Whether this is an array, or a number of an array library other than numpy's integers."""
    shape = getattr(item, "shape", None)
    integer = getattr(getattr(item, "dtype", None), "kind", None) in ("i", "u")
    return shape is not None and not (shape == () and integer)


def _arrays(item: Any, beside: Sequence[Base]) -> list[Array] | list[Truth]:
    tensor = tensor_of(item, "an index", *beside)
    if tensor.dtype.kind == "bool":
        return _mask(tensor)
    if tensor.dtype.is_float:
        if tensor.numel():
            raise DTypeError(f"an index holds integers or bools, not {tensor.dtype.name}.")
        tensor = tensor.cast(dtypes.int32)  # an empty list
    return [Array(tensor, None if isinstance(item, Base) else _extent(item))]


def _extent(item: Any) -> tuple[int, int] | None:
    if isinstance(item, (list, tuple)):
        from .host import flattened

        _, flat = flattened(item)
        return (min(map(int, flat)), max(map(int, flat))) if flat else None
    if not (hasattr(item, "min") and size(item.shape)):
        return None
    return int(item.min()), int(item.max())


def _mask(tensor: Tensor) -> list[Array] | list[Truth]:
    if not tensor.shape:
        chosen = [0] if tensor.item() else []
        return [Truth(Array(index_vector(chosen, tensor), (0, 0)))]
    columns = nonzero(tensor)
    return [
        Array(index_vector(column, tensor), (0, n - 1) if column else None, n)
        for column, n in zip(columns, tensor.shape, strict=True)
    ]


def index_vector(values: list[int], beside: Base) -> Tensor:
    """Places as an int32 vector on the device of `beside`."""
    from .base import _class

    return _class(values, dtype=dtypes.int32, device=beside._device)


def nonzero(mask: Tensor) -> list[list[int]]:
    """For each axis the coordinates of the true elements, in row-major order."""
    if not is_fixed(mask.shape):
        raise VaryingSize("its elements are counted now")
    raw = bytes(mask.data().cast("B")) if mask.numel() else b""
    places = [i for i, b in enumerate(raw) if b]
    columns, stride = [], mask.numel()
    for n in mask.shape:
        stride //= max(n, 1)
        columns.append([p // stride % n for p in places] if n else [])
    return columns


def _filled(shape: Shape, items: list[Any]) -> tuple[tuple[Any, ...], int]:
    """`items` with the Ellipsis written out and slices for the axes nobody named; where those
    are."""
    named = sum(not (item is None or item is Ellipsis or isinstance(item, Truth)) for item in items)
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError_("an index has one Ellipsis at most.")
    if named > len(shape):
        raise IndexError_(f"{named} indices are too many for shape {shape}.")
    at = dots[0] if dots else len(items)
    return (*items[:at], *[slice(None)] * (len(shape) - named), *items[at + 1 :]), at


def _slice(item: slice, n: int) -> tuple[tuple[int, int, int], bool]:
    """(bounds of SHRINK, whether the order is reversed)."""
    if type(n) is not int or _varies(item):
        return _varying_slice(item, n)
    try:
        start, stop, step = item.indices(n)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"an index {shown(item)}: {error}.") from None
    count = len(range(start, stop, step))
    if not count:
        return (0, 0, 1), False
    last = start + (count - 1) * step
    if step > 0:
        return (start, last + 1, step), False
    return (last, start + 1, -step), count > 1


def _varying_slice(item: slice, n: int) -> tuple[tuple[int, int, int], bool]:
    """`_slice` where a size or an end varies; numpy's clipping is part of the expressions."""
    step = 1 if item.step is None else item.step
    if item.start is item.stop is None and step == -1:
        return (0, n, 1), True
    if type(step) is not int or step < 1:
        raise ShapeError(
            "a slice of a size that varies goes forward by a constant step, or is [::-1], not"
            f" {item}."
        )
    start, stop = _end(item.start, n, 0), _end(item.stop, n, n)
    return (start, larger(start, stop), step), False


def _end(x: Any, n: int, default: int) -> int:
    if x is None:
        return default
    if isinstance(x, Size):
        return clamp(x, 0, n)
    if not hasattr(x, "__index__"):
        raise ArgumentError(f"an index {shown(x)}: a slice is made of integers.")
    number = int(x.__index__())
    return clamp(number + n if number < 0 else number, 0, n)


def _checked(name: str, array: Array, axis: int, shape: Shape) -> Array:
    """An index array whose known elements lie in the axis."""
    n = shape[axis]
    if array.axis_size is not None and array.axis_size != n:
        raise IndexError_(
            f"a mask of size {array.axis_size} does not fit axis {axis} of shape {shape}."
        )
    for i in array.extent or ():
        _position(i, n, axis, shape)
    if array.extent is None:
        check_index(name, array.tensor, axis, shape)
    return array
