"""Host side of a Tensor: numbers in and out, and how it shows itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import engine
from ..dtype import to_dtype, unpack
from ..errors import ArgumentError, DTypeError, ShapeError
from ..uop.ops import Ops, UOp, size
from ..uop.sizes import actual, largest, value_of
from . import host, numpy_functions
from .autograd import Autograd
from .axes import axis_of
from .base import Integer, tensor_of
from .store import device_name, is_leaf, new_leaf, read, realize

if TYPE_CHECKING:
    from .tensor import Tensor

_SHOWN = 64  # a realised tensor of at most this many elements prints its values


class Interop(Autograd):
    """Realising, reading, protocols of Python and numpy, printing."""

    __slots__ = ()
    __array_priority__ = 1000  # `ndarray + tensor` asks us, as numpy's documentation says

    # ---- computing

    def realize(self, *others: Any) -> Tensor:
        """Compute now (with `others` in one go) and keep the result; gives self.

        >>> (Tensor([1, 2]) + 1).realize().tolist()
        [2, 3]
        """
        realize([self, *(tensor_of(t, "realize") for t in others)])
        return self  # type: ignore[return-value]

    def to(self, device: Any) -> Tensor:
        """The tensor on another device, or in another runtime; itself if it is there already.

        A runtime (`rt`, or `y.runtime`) gets a copy of the values, through the host, on its own
        device: no gradient flows through, and a leaf keeps its `requires_grad`.

        >>> Tensor([1]).to("interp").device
        'interp'
        """
        if isinstance(device, engine.Runtime):
            return self._moved(device)
        name = device_name(device)
        if self.device == name:
            return self  # type: ignore[return-value]
        out = self._same(self.uop.copy_to(name))
        out._device = name
        return out

    def _moved(self, runtime: engine.Runtime) -> Tensor:
        if runtime is self.runtime:
            return self  # type: ignore[return-value]
        marked = self._requires_grad if is_leaf(self) else None
        values = read(self)
        with engine.use(runtime):
            out = new_leaf(self.dtype, self.shape, None, values, marked)
        out._is_param = self._is_param
        return out

    def cpu(self) -> Tensor:
        """The tensor on the device "cpu".

        >>> Tensor([1]).cpu().device
        'cpu'
        """
        return self.to("cpu")

    def cuda(self) -> Tensor:
        """The tensor on the device "cuda".

        >>> Tensor([1]).cuda().device  # doctest: +SKIP
        """
        return self.to("cuda")

    def contiguous(self) -> Tensor:
        """Stored in row-major order when it is computed, whatever reads it.

        >>> Tensor([[1, 2], [3, 4]]).T.contiguous().tolist()
        [[1, 3], [2, 4]]
        """
        return self._same(self.uop.contiguous())

    def clone(self) -> Tensor:
        """A copy with storage of its own.

        >>> Tensor([1, 2]).clone().tolist()
        [1, 2]
        """
        return self._same(UOp(Ops.CONTIGUOUS, self.uop.dtype, (self.uop,)))

    def to_(self, device: Any) -> Tensor:
        """Move self to another device; gives self.

        >>> Tensor([1]).to_("interp").device
        'interp'
        """
        moved = self.to(device)
        self._replace(moved.uop)
        self._device = moved._device
        return self  # type: ignore[return-value]

    def shard_(self, devices: Any, axis: Integer | None = None) -> Tensor:
        """Move self to the one device that `devices` name, whichever `axis` they would share; gives
        self. A tensor is on one device: raises ArgumentError if they name several.

        >>> Tensor([1, 2]).shard_(("interp",), axis=0).device
        'interp'
        """
        given = devices if isinstance(devices, (tuple, list)) else (devices,)
        names = [device_name(d) for d in given]
        if axis is not None:
            axis_of("shard_", axis, self.ndim)
        if not names:
            raise ArgumentError("shard_: no device is given.")
        if other := next((n for n in names if n != names[0]), None):
            raise ArgumentError(
                f"shard_: a tensor is on one device, not on {names[0]!r} and {other!r}; pieces on"
                f" several are not built. .to_({names[0]!r}) moves all of it."
            )
        return self.to_(names[0])

    @staticmethod
    def numpy_many(*tensors: Any) -> list[Any]:
        """Several tensors as numpy arrays, computed in one go.

        >>> [a.tolist() for a in Tensor.numpy_many(Tensor([1]), Tensor([2]))]
        [[1], [2]]
        """
        given = [tensor_of(t, "numpy_many") for t in tensors]
        realize(given)
        return [t.numpy() for t in given]

    # ---- reading

    def data(self) -> memoryview:
        """The values as a memoryview with format and shape, a copy; bfloat16 and 8-bit floats as
        raw unsigned words.

        >>> list(Tensor([1, 2]).data())
        [1, 2]
        """
        view: memoryview = host.formatted(read(self), self.uop.dtype, actual(self.shape))
        return view

    def numpy(self) -> Any:
        """The values as a numpy array of its own; bfloat16 and 8-bit floats, which numpy lacks,
        become float32, which holds them exactly. `.bitcast("uint16")` or `"uint8"` is their bits.

        >>> Tensor([1, 2]).numpy()
        array([1, 2], dtype=int32)
        """
        return host.array_of(read(self), self.uop.dtype, actual(self.shape))

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; a number for a 0-d tensor.

        >>> Tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return host.nested(unpack(self.uop.dtype, read(self)), actual(self.shape))

    def item(self) -> Any:
        """The value of a tensor with one element, as a Python number.

        >>> Tensor([[2.5]]).item()
        2.5
        """
        return self._one("item()", "; use .tolist() or .numpy()")

    def _one(self, name: str, hint: str = "") -> Any:
        if size(actual(self.shape)) != 1:
            raise ShapeError(
                f"{name} takes a tensor with one element, not shape {self.shape}{hint}."
            )
        return unpack(self.uop.dtype, read(self))[0]

    # ---- Python's protocols

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ArgumentError(
                f"the truth of a tensor of shape {self.shape} is ambiguous; use .any() or .all()."
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self._one("float()"))

    def __int__(self) -> int:
        return int(self._one("int()"))

    __trunc__ = __int__

    def __index__(self) -> int:
        if not self.uop.dtype.is_int:
            raise DTypeError(f"only an integer tensor is an index, not {self.uop.dtype.name}.")
        if size(actual(self.shape)) != 1:  # a TypeError: bytes(x) then goes on to the buffer
            raise DTypeError(f"only a tensor of one element is an index, not shape {self.shape}.")
        return int(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise DTypeError("a 0-d tensor has no length.")
        return value_of(self.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise DTypeError("a 0-d tensor cannot be iterated.")
        return iter(self.unbind(0))

    def __contains__(self, x: Any) -> bool:
        return bool(self.eq(x).any())

    def __buffer__(self, flags: int) -> memoryview:
        """Python 3.12 and later: memoryview(tensor) is `data()`. Raises DTypeError for bfloat16
        and 8-bit floats, so that numpy asks `__array__` and takes no words for integers."""
        if self.uop.dtype.is_float and not self.uop.dtype.format:
            name = self.uop.dtype.name
            raise DTypeError(f"the buffer protocol has no {name}; use .data() or .numpy().")
        return self.data()

    def __release_buffer__(self, view: memoryview) -> None:
        """Nothing to do, but it must be here: numpy.frombuffer keeps the view, and so the bytes
        alive, only for a type that has it."""

    def __reduce__(self) -> Any:
        """Pickle and deepcopy: the values, in a tensor of its own on the same device."""
        about = (self.uop.dtype.name, self.shape, self._device, self._requires_grad, self._is_param)
        return _restored, (bytes(read(self)), *about)

    def __deepcopy__(self, memo: Any) -> Tensor:
        """The same, in the same runtime."""
        restore, values = self.__reduce__()
        return restore(*values)  # type: ignore[no-any-return]

    # ---- numpy and DLPack

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A function of numpy takes a tensor as the array of its values."""
        return numpy_functions.call(function, args, kwargs)

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU: what is handed out is a copy in host memory

    # ---- printing

    def __repr__(self) -> str:
        about = f"dtype={self.uop.dtype.name}, device={self._device_shown()!r}"
        values = self._values_shown()
        if values is None:
            state = "" if self.uop.op is Ops.BUFFER else ", lazy"
            return f"Tensor(shape={self.shape}, {about}{state})"
        return f"Tensor({values}, {about})"

    def _device_shown(self) -> str:
        return "any" if self._device is None else self._device

    def _values_shown(self) -> str | None:
        """The values of a small realised tensor; None otherwise, and always while capturing."""
        if self.uop.op is not Ops.BUFFER or size(largest(self.shape)) > _SHOWN:
            return None
        runtime = self.runtime
        if runtime.capturing is not None or runtime.find(self.uop) is None:
            return None
        return _text(self.tolist(), self.ndim)

    def _repr_html_(self) -> str:
        import html

        return f"<code>{html.escape(repr(self))}</code>"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        value = self._one(f"the format {spec!r}")
        try:
            return format(value, spec)
        except ValueError:
            raise ArgumentError(
                f"the format {spec!r} is none of a number; try '.3f' or '.2e'."
            ) from None


def _restored(
    values: bytes,
    dtype: str,
    shape: tuple[int, ...],
    device: str | None,
    requires_grad: bool | None,
    is_param: bool | None,
) -> Tensor:
    out = new_leaf(to_dtype(dtype), shape, device, memoryview(values), requires_grad)
    out._is_param = is_param
    return out


def _text(values: Any, depth: int) -> str:
    if isinstance(values, list):
        comma = ", " if depth < 2 else ",\n" + " " * 8
        return "[" + comma.join(_text(v, depth - 1) for v in values) + "]"
    return f"{values:.7g}" if isinstance(values, float) else repr(values)
