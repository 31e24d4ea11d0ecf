"""Creation: tensors from nothing but a shape, a rule or a number.

A created tensor is a leaf of its own: two `zeros(3)` are two nodes, so each can have its gradient.
Nothing is computed or stored before it is needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..dtype import DType, dtypes, misfit, to_dtype
from ..engine.number import Number as Symbol
from ..engine.number import plain
from ..errors import ArgumentError, DTypeError, no_such
from ..uop.ops import UOp
from ..uop.sizes import Size, larger
from .axes import Scalar, integer, number, sizes
from .base import Flag, Integer, Real, leaf, scalar
from .checks import check_range
from .loss import Loss

if TYPE_CHECKING:
    from .tensor import Tensor


def made(uop: UOp, device: Any, requires_grad: Flag | None) -> Tensor:
    """A leaf made of constants; on another device than the default one it is computed there."""
    if device is None:
        return leaf(uop, None, requires_grad)
    from ..device import default
    from .store import device_name

    name = device_name(device)
    return leaf(uop if name == default() else uop.copy_to(name), name, requires_grad)


def _dtype_of(value: Scalar, dtype: Any) -> DType:
    if dtype is not None:
        return to_dtype(dtype)
    value = plain(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**31) <= value < 2**31:
        return dtypes.int64
    return to_dtype(type(value))


def constant(name: str, shape: tuple[int, ...], value: Scalar, dtype: DType) -> UOp:
    """A leaf of its own that is `value` everywhere."""
    if isinstance(value, Symbol):
        return scalar(name, value, dtype, shape)
    if why := misfit(dtype, value):
        raise ArgumentError(f"{name}: {why}.")
    const = UOp.const(dtype, value, unique=True)
    return const.broadcast_to(shape) if shape else const


def _storage(name: str, shape: Any, dtype: Any, device: Any, requires_grad: Flag | None) -> Tensor:
    from .store import new_leaf

    d = dtypes.default_float if dtype is None else to_dtype(dtype)
    return new_leaf(d, sizes(name, shape), device, None, requires_grad)


class Creation(Loss):
    """Static methods that make tensors."""

    __slots__ = ()

    @staticmethod
    def empty(
        *shape: Any, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """Storage of a shape with anything in it; also a shape and dtype for signatures.

        >>> Tensor.empty(2, 3).shape
        (2, 3)
        """
        return _storage("empty", shape, dtype, device, requires_grad)

    @staticmethod
    def invalids(
        *shape: Any, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """`empty` by the name for elements that mean nothing before they are written: storage of a
        shape, float32 without a dtype. Raises ShapeError for a negative size.

        >>> x = Tensor.invalids(3, dtype="int32")
        >>> x.assign(Tensor([1, 2, 3])).tolist()
        [1, 2, 3]
        """
        return _storage("invalids", shape, dtype, device, requires_grad)

    @staticmethod
    def full(
        shape: Any,
        fill_value: Scalar,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
    ) -> Tensor:
        """`fill_value` everywhere; without a dtype the number's own kind.

        >>> Tensor.full((2,), 7).tolist()
        [7, 7]
        """
        wanted = sizes("full", shape if isinstance(shape, (tuple, list)) else (shape,))
        value = number("full", "fill_value", fill_value)
        d = _dtype_of(value, dtype)
        return made(constant("full", wanted, value, d), device, requires_grad)

    @staticmethod
    def zeros(
        *shape: Any, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """0 everywhere, float32 without a dtype.

        >>> Tensor.zeros(2).tolist()
        [0.0, 0.0]
        """
        d = dtypes.default_float if dtype is None else to_dtype(dtype)
        return made(constant("zeros", sizes("zeros", shape), 0, d), device, requires_grad)

    @staticmethod
    def ones(
        *shape: Any, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """1 everywhere, float32 without a dtype.

        >>> Tensor.ones(2, dtype="int32").tolist()
        [1, 1]
        """
        d = dtypes.default_float if dtype is None else to_dtype(dtype)
        return made(constant("ones", sizes("ones", shape), 1, d), device, requires_grad)

    @staticmethod
    def from_url(url: str, device: Any = None, **options: Any) -> Tensor:
        """The bytes at an https address as uint8, fetched once. Options are those of
        `polygrad.fetch`: sha256, limit, timeout, insecure, refresh.

        >>> Tensor.from_url("https://example.org/weights.bin").shape  # doctest: +SKIP
        """
        from ..files import fetch
        from .store import new_leaf

        data = fetch(url, **options).read_bytes()
        return new_leaf(dtypes.uint8, (len(data),), device, memoryview(data))

    def full_like(
        self,
        fill_value: Scalar,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
        buffer: Flag = True,
    ) -> Tensor:
        """`fill_value` in the shape, dtype and place of self. `buffer` says elsewhere whether it
        may be written to; here a tensor gets its storage when it is written to, so it always may.

        >>> Tensor([1, 2]).full_like(5).tolist()
        [5, 5]
        """
        d = self.uop.dtype if dtype is None else to_dtype(dtype)
        value = number("full_like", "fill_value", fill_value)
        node = constant("full_like", self.shape, value, d)
        return made(node, self._device if device is None else device, requires_grad)

    def zeros_like(
        self, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """0 in the shape, dtype and place of self.

        >>> Tensor([1, 2]).zeros_like().tolist()
        [0, 0]
        """
        return self.full_like(0, dtype, device, requires_grad)

    def ones_like(
        self, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """1 in the shape, dtype and place of self.

        >>> Tensor([1, 2]).ones_like().tolist()
        [1, 1]
        """
        return self.full_like(1, dtype, device, requires_grad)

    def empty_like(
        self, dtype: Any = None, device: Any = None, requires_grad: Flag | None = None
    ) -> Tensor:
        """Storage in the shape, dtype and place of self.

        >>> Tensor([1, 2]).empty_like().shape
        (2,)
        """
        return self.empty(self.shape, **self._own(dtype, device), requires_grad=requires_grad)

    @staticmethod
    def arange(
        start: Scalar,
        stop: Scalar | None = None,
        step: Scalar = 1,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
    ) -> Tensor:
        """start, start + step, … before stop; nothing when the step leads away. Integers stay
        integers.

        >>> Tensor.arange(3).tolist(), Tensor.arange(1, 2, 0.5).tolist()
        ([0, 1, 2], [1.0, 1.5])
        """
        if stop is None:
            start, stop = 0, start
        if any(isinstance(x, Size) for x in (start, stop, step)):
            return made(_varying_range(start, stop, step, dtype), device, requires_grad)
        given = (("start", start), ("stop", stop), ("step", step))
        numbers = start, stop, step = tuple(number("arange", what, x) for what, x in given)
        if not step:
            raise ArgumentError("arange: the step is 0.")
        if not all(map(math.isfinite, numbers)):
            raise ArgumentError(f"arange: {start}, {stop} and {step} must be finite.")
        whole = all(isinstance(x, int) for x in numbers)
        n = max(0, math.ceil((stop - start) / step) if not whole else -int((start - stop) // step))
        sizes("arange", (n,))
        last = start + (n - 1) * step if n else start
        natural = _dtype_of(max(start, last, key=abs), None) if whole else dtypes.default_float
        d = natural if dtype is None else to_dtype(dtype)
        if why := misfit(d, start) or misfit(d, last):
            raise ArgumentError(f"arange: {why}.")
        return made(progression(start, step, n, d), device, requires_grad)

    @staticmethod
    def linspace(
        start: Real,
        stop: Real,
        steps: Integer = 100,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
    ) -> Tensor:
        """`steps` numbers from start to stop, both included, at equal distances.

        >>> Tensor.linspace(0, 1, 5).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        start, stop = number("linspace", "start", start), number("linspace", "stop", stop)
        steps = integer("linspace", "steps", steps, 0)
        d = dtypes.default_float if dtype is None else to_dtype(dtype)
        wide = d if d.is_float and d.itemsize > 2 else dtypes.float32
        step = (stop - start) / (steps - 1) if steps > 1 else 0.0
        up = progression(start, step, steps, wide)
        down = progression(stop, -step, steps, wide).flip(
            (0,)
        )  # so that the last one is stop exactly
        first = UOp.iota(steps) < max(1, steps // 2)
        return made(first.where(up, down).cast(d), device, requires_grad)

    @staticmethod
    def eye(
        n: Integer,
        m: Integer | None = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
    ) -> Tensor:
        """1 where row and column agree, else 0.

        >>> Tensor.eye(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        rows, columns = sizes("eye", (n, n if m is None else m))
        i = UOp.iota(rows).reshape((rows, 1)).expand((rows, columns))
        same = i.eq(UOp.iota(columns).broadcast_to((rows, columns)))
        d = dtypes.default_float if dtype is None else to_dtype(dtype)
        return made(same.cast(d), device, requires_grad)

    @staticmethod
    def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
        """Coordinates of the grid that vectors span, one tensor for each of them.

        >>> [t.tolist() for t in Tensor.meshgrid(Tensor([1, 2]), Tensor([3, 4]))]
        [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
        """
        from .base import tensor_of

        if indexing not in ("ij", "xy"):
            raise ArgumentError(f"meshgrid: {no_such('indexing', indexing, ('ij', 'xy'))}")
        vectors = [
            tensor_of(t, "meshgrid", *tensors).ravel()
            for t in (
                tensors[0]
                if len(tensors) == 1 and isinstance(tensors[0], (tuple, list))
                else tensors
            )
        ]
        order = list(range(len(vectors)))
        if indexing == "xy" and len(order) > 1:
            order[0], order[1] = 1, 0
        shape = tuple(vectors[a].shape[0] for a in order)
        out = []
        for i, v in enumerate(vectors):
            at = order.index(i)
            out.append(v.reshape((1,) * at + v.shape + (1,) * (len(shape) - at - 1)).expand(shape))
        return tuple(out)

    def one_hot(self, num_classes: Integer) -> Tensor:
        """A new last axis that is 1 at the number each element holds, else 0; int32. A number that
        is no class gives zeros, or is an IndexError under POLY_CHECK=1.

        >>> Tensor([0, 2]).one_hot(3).tolist()
        [[1, 0, 0], [0, 0, 1]]
        """
        from .base import result

        if self.uop.dtype.is_float:
            raise DTypeError(f"one_hot takes the numbers of classes, not {self.uop.dtype.name}.")
        num_classes = integer("one_hot", "num_classes", num_classes, 0)
        check_range("one_hot", self, 0, num_classes, f"the {num_classes} classes")
        shape = (*self.shape, num_classes)
        mine = self.uop.reshape((*self.shape, 1)).expand(shape)
        classes = UOp.iota(num_classes).cast(mine.dtype).broadcast_to(shape)
        return result(mine.eq(classes).cast(dtypes.int32), self)


def _varying_range(start: Any, stop: Any, step: Any, dtype: Any) -> UOp:
    """`arange` with ends that are sizes."""
    if not all(isinstance(n, Size) or type(n) is int for n in (start, stop)):
        raise ArgumentError("arange: a size that varies goes with integers.")
    step = integer("arange", "the step", step)
    if not step:
        raise ArgumentError("arange: the step is 0.")
    count = larger(0, -((start - stop) // step))
    d = dtypes.int32 if dtype is None else to_dtype(dtype)
    return progression(start, step, count, d)


def progression(start: Scalar, step: Scalar, n: int, dtype: DType) -> UOp:
    """start + i * step for i below n; computed in a type wide enough, then cast."""
    wide = dtype.arithmetic
    if dtype.is_int or dtype.kind == "bool":
        whole = isinstance(start, int) and isinstance(step, int)
        wide = dtypes.int64 if dtype.itemsize == 8 else dtypes.int32
        wide = wide if whole else dtypes.default_float
    i = UOp.iota(n, wide if wide.is_int else dtypes.int32 if n < 2**31 else dtypes.int64).cast(wide)
    if step != 1:
        i = i * step
    return (i + start if start or (wide.is_float and str(start) == "-0.0") else i).cast(dtype)
