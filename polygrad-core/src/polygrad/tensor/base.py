"""The root of `Tensor`: what an object holds, and the one place where results are made.

Floor: tensor. A Tensor is a handle on a node of the graph (`uop`): operations make new nodes and
run nothing. The class is built in storeys, one file each, every storey using those below it:

    Base → Casting → Elementwise → Operators → Unary → Distribution → Movement → Pieces → Joining
         → Reduce → Activation → Linalg → Special → Scans → Convolution → Pooling → Loss
         → Creation → Random → Layers → Indexing → Kernels → Sorting → Decompositions → Writing
         → Statistics → Alignment → Autograd → Interop → Keeping → Tensor

Here: the slots, operands (tensors, Python numbers, arrays), promotion, broadcasting, devices,
gradient marks. Methods of the storeys are short because what stands here checks and joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..dtype import DType, dtypes, misfit, promote, promote_scalar, to_dtype
from ..engine.capture import active as capturing
from ..engine.number import Number as Symbol
from ..engine.owner import explicit, mixed
from ..errors import ArgumentError, DTypeError, ShapeError, called, public, shown
from ..uop import provenance
from ..uop.ops import Ops, Shape, UOp, size
from ..uop.sizes import Size, capacity, largest, most
from .axes import Scalar, either, own_axis

if TYPE_CHECKING:
    from ..engine.runtime import Runtime
    from .tensor import Tensor

Number = (bool, int, float)  # for isinstance
# The types, for classes that have methods named as these are.
Flag = bool
Integer = int
Real = float
Operand = Any  # a Tensor, a Python or numpy number, or whatever Tensor(...) takes

_no_grad: ContextVar[bool] = ContextVar("polygrad_no_grad", default=False)
# id of a node -> the Tensor that is its leaf. By id: a reference from here would look like a
# reader to the engine, which counts them before it writes in place.
_leaves: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
_new = object.__new__
_site = provenance.here
_mark = provenance.mark


class Base:
    """The slots of a Tensor and what every storey shares."""

    __slots__ = ("uop", "grad", "_requires_grad", "_device", "_is_param", "_owner", "__weakref__")

    uop: UOp
    grad: Tensor | None
    _requires_grad: bool | None  # None: a leaf that takes a gradient if no other asks for one
    _device: str | None  # None: made of constants alone, at home everywhere
    _is_param: bool | None
    _owner: Runtime | None  # None: the default runtime, or nobody for what is made of constants

    # ---- what it is

    @property
    def shape(self) -> Shape:
        """The sizes of its axes.

        >>> Tensor.ones(2, 3).shape
        (2, 3)
        """
        return self.uop.shape

    @property
    def dtype(self) -> DType:
        """The type of its elements.

        >>> Tensor([1.5]).dtype
        dtypes.float32
        """
        return self.uop.dtype

    @property
    def ndim(self) -> int:
        """The number of axes.

        >>> Tensor.ones(2, 3).ndim
        2
        """
        return len(self.uop.shape)

    @property
    @public
    def device(self) -> str:
        """The name of the device that holds or will hold it.

        >>> Tensor([1], device="interp").device
        'interp'
        """
        if self._device is None:
            from ..device import default

            return default()
        return self._device

    @property
    def runtime(self) -> Runtime:
        """The runtime that it belongs to.

        >>> Tensor([1.0]).runtime is Tensor([2.0]).runtime
        True
        """
        from ..engine.runtime import owned_by

        return owned_by(self._owner)

    @public
    def size(self, axis: int | None = None, *, dim: int | None = None) -> Any:
        """The shape, or the size of one axis.

        >>> Tensor.ones(2, 3).size(), Tensor.ones(2, 3).size(-1)
        ((2, 3), 3)
        """
        axis = either("size", axis, dim)
        return self.shape if axis is None else self.shape[own_axis("size", axis, self.ndim)]

    def numel(self) -> int:
        """The number of elements.

        >>> Tensor.ones(2, 3).numel()
        6
        """
        return size(self.uop.shape)

    def element_size(self) -> int:
        """Bytes of one element.

        >>> Tensor([1], dtype="int16").element_size()
        2
        """
        return self.uop.dtype.itemsize

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The sizes of its axes, each bounded one at its largest.

        >>> from polygrad import Tensor, Variable
        >>> Tensor.ones(8, 2)[: Variable("n", 1, 4).bind(3)].max_shape
        (4, 2)
        """
        return largest(self.uop.shape)

    def max_numel(self) -> int:
        """The most elements it can have; `numel` where no axis is bounded.

        >>> Tensor([[1, 2]]).max_numel()
        2
        """
        return capacity(self.uop.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements.

        >>> Tensor([1, 2], dtype="int16").nbytes
        4
        """
        return size(self.uop.shape) * self.uop.dtype.itemsize

    def dim(self) -> int:
        """The number of axes (torch's name for `ndim`).

        >>> Tensor.ones(2, 3).dim()
        2
        """
        return len(self.uop.shape)

    def is_floating_point(self) -> bool:
        """Whether its elements are floats.

        >>> Tensor([1.5]).is_floating_point(), Tensor([1]).is_floating_point()
        (True, False)
        """
        return self.uop.dtype.is_float

    # ---- making results

    def _replace(self, uop: UOp) -> None:
        """Point this very object at another node; its place among the leaves follows."""
        capture = capturing.get()
        if capture is not None:
            capture.see(self)
        if _leaves.get(id(self.uop)) is self:
            del _leaves[id(self.uop)]
            _leaves[id(uop)] = self
        self.uop = uop

    def _unary(self, op: Ops) -> Tensor:
        return result(UOp.alu(op, self.uop), self)

    def _like(self, data: Any) -> Tensor:
        """Host data in self's dtype, on its device."""
        return _class(data, dtype=self.dtype, device=self._device)

    def _own(self, dtype: Any, device: Any) -> dict[str, Any]:
        """`dtype=` and `device=` of a new tensor: self's where none is given."""
        place = self._device if device is None else device
        return {"dtype": self.uop.dtype if dtype is None else dtype, "device": place}

    def _same(self, uop: UOp) -> Tensor:
        return result(uop, self)

    def _float(self) -> UOp:
        """The node as floats: ints become the default float."""
        u = self.uop
        return u if u.dtype.is_float else u.cast(dtypes.default_float)


_class: type[Tensor] = None  # type: ignore[assignment]  # tensor.py sets it


def result(uop: UOp, *operands: Base) -> Tensor:
    """The Tensor of a new node that was computed from `operands`."""
    out: Tensor = object.__new__(_class)
    device: str | None = None
    tracked: bool | None = None
    owner: Runtime | None = None
    for t in operands:
        if t._device is not None and t._device is not device:
            if device is not None and t._device != device:
                one_owner(operands)  # of the two reasons why they cannot meet it is the first
                raise _apart(device, t._device)
            device = t._device
        if t._requires_grad:
            tracked = True
        if t._owner is not None:
            owner = t._owner
    if owner is not None:
        one_owner(operands)
    if _no_grad.get():
        if any(t._requires_grad is not False for t in operands):
            uop = uop.detach()
        tracked = False
    if uop.provenance is None:
        _mark(uop, _site())
    out.uop, out.grad = uop, None
    out._requires_grad, out._device, out._is_param, out._owner = tracked, device, None, owner
    capture = capturing.get()
    if capture is not None:
        capture.used(operands, out)
    return out


def wants_gradient(requires_grad: bool | None, dtype: DType) -> bool | None:
    """The argument `requires_grad`, which is True (of floats alone), False or None."""
    wanted = maybe("requires_grad", requires_grad)
    if wanted and not dtype.is_float:
        raise DTypeError(f"only float tensors take gradients, not {dtype.name}.")
    return wanted


def maybe(name: str, value: bool | None) -> bool | None:
    """An argument that is True, False or None; 1, 0 and numpy's bools will do."""
    if value is None or value is True or value is False:
        return value
    if value not in (0, 1):
        raise ArgumentError(f"{name} is True, False or None, not {shown(value)}.")
    return bool(value)


def leaf(uop: UOp, device: str | None, requires_grad: bool | None = None) -> Tensor:
    """The Tensor of a node that no operation made: data, zeros, random numbers."""
    out: Tensor = object.__new__(_class)
    requires_grad = wants_gradient(requires_grad, uop.dtype)
    if uop.provenance is None:
        _mark(uop, _site())
    out.uop, out.grad = uop, None
    out._requires_grad, out._device, out._is_param = requires_grad, device, None
    out._owner = explicit.get()
    if uop.dtype.is_float:
        _leaves[id(uop)] = out
    capture = capturing.get()
    if capture is not None:
        capture.used((), out)
    return out


def is_leaf(t: Base) -> bool:
    """Whether a gradient that reaches its node is this tensor's."""
    return _leaves.get(id(t.uop)) is t


def replayed(uop: UOp, device: str, owner: Runtime | None) -> Tensor:
    """The Tensor of a compiled function's result: no gradient, no place, nothing to note."""
    out: Tensor = _new(_class)
    out.uop, out._device, out._owner = uop, device, owner
    out.grad = out._is_param = None
    out._requires_grad = False
    return out


def away(t: Base) -> bool:
    """Whether a tensor belongs to another runtime than the current one. Constants of the default
    runtime are at home everywhere."""
    return t._owner is not explicit.get() and (t._owner is not None or t._device is not None)


def one_owner(tensors: Iterable[Base]) -> Runtime | None:
    """The owner that tensors share, None for the default runtime; the current one if they are all
    at home everywhere. Raises ArgumentError for two owners."""
    found: tuple[Runtime | None, ...] = ()
    for t in tensors:
        if t._owner is not None or t._device is not None:
            if found and t._owner is not found[0]:
                raise mixed(found[0], t._owner)
            found = (t._owner,)
    return found[0] if found else explicit.get()


def one_device(tensors: Iterable[Base]) -> None:
    """Raises ArgumentError for tensors of two devices. Constants are at home everywhere."""
    found: str | None = None
    for t in tensors:
        if t._device is not None and found is not None and t._device != found:
            raise _apart(found, t._device)
        found = t._device if found is None else found


def _apart(one: str, other: str) -> ArgumentError:
    return ArgumentError(
        f"{called() or 'operation'}: tensors of {one!r} and {other!r} cannot meet in one"
        f" operation; move one with .to({one!r})."
    )


# ---- operands


def operand(x: Operand, name: str = "operation", *beside: Operand) -> Base | Scalar:
    """A Tensor or Python number of what a user gave; arrays and lists become Tensors, on the device
    of the tensors `beside` which they stand."""
    if isinstance(x, (Base, bool, int, float, Symbol, Size)):
        return x  # type: ignore[return-value]  # a Symbol is a number that a captured function was given
    if hasattr(x, "dtype") and hasattr(x, "item") and getattr(x, "shape", None) == ():
        return x.item()  # type: ignore[no-any-return]
    if (
        isinstance(x, (list, tuple))
        or hasattr(x, "__array_interface__")
        or hasattr(x, "__dlpack__")
    ):
        return _class(x, device=_home(beside))
    raise ArgumentError(f"{name} takes a tensor or a number, not {type(x).__name__}.")


def _home(operands: Iterable[Operand]) -> str | None:
    """The device of the first tensor that has one."""
    return next((x._device for x in operands if isinstance(x, Base) and x._device), None)


def is_operand(x: Operand) -> bool:
    """Whether an operator may take `x`; otherwise it leaves the word to the other object."""
    return isinstance(x, (Base, bool, int, float, Symbol, Size, list, tuple)) or (
        hasattr(x, "dtype") or hasattr(x, "__dlpack__")
    )


def tensor_of(x: Operand, name: str, *beside: Operand) -> Tensor:
    """`x` as a Tensor; numbers become constants of their default dtype, host data as in
    `operand`."""
    x = operand(x, name, *beside)
    if isinstance(x, Base):
        return x  # type: ignore[return-value]
    return result(scalar(name, x, _kind(x), ()))


def scalar(name: str, value: Scalar, dtype: DType, shape: Shape) -> UOp:
    """A Python number as a node of `dtype` and `shape`; it must fit."""
    if isinstance(value, Symbol):
        node = value.node(dtype)
        return node.broadcast_to(shape) if shape else node
    if isinstance(value, Size):
        return value.node.cast(dtype).broadcast_to(shape)
    if why := misfit(dtype, value):
        wider = "int64" if not misfit(dtypes.int64, value) else "a float"
        hint = f"; cast the tensor to {wider} first" if dtype.is_int else ""
        raise ArgumentError(f"{name}: {why}{hint}.")
    return UOp.everywhere(dtype, value, shape)


def beside(u: UOp, x: Operand) -> UOp | None:
    """The node of a Python number that goes with `u` as it is; None for what has to be joined."""
    kind, dtype = type(x), u.dtype
    if dtype.is_float if kind is float else kind is int and dtype.kind != "bool":
        return None if misfit(dtype, x) else UOp.everywhere(dtype, x, u.shape)
    return None


def _plain(x: Any) -> Scalar:
    return x.value if isinstance(x, Symbol) else most(x)


def _kind(x: Scalar) -> DType:
    return to_dtype(type(_plain(x)))


def common_dtype(operands: Sequence[Base | Scalar]) -> DType:
    """The promoted dtype: tensors by the lattice, Python numbers never widening a tensor's kind."""
    dtype: DType | None = None
    for x in operands:
        if isinstance(x, Base):
            dtype = x.uop.dtype if dtype is None else promote(dtype, x.uop.dtype)
    for x in operands:
        if not isinstance(x, Base):
            dtype = _kind(x) if dtype is None else promote_scalar(dtype, _plain(x))
    assert dtype is not None
    return dtype


def broadcast_shape(name: str, shapes: Sequence[Shape]) -> Shape:
    """numpy's rule; the error shows every full shape and the axis that does not fit."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    ndim = max(map(len, shapes))
    out = [1] * ndim
    for s in shapes:
        for axis, n in enumerate(s, ndim - len(s)):
            if n == out[axis] or n == 1:
                continue
            if out[axis] != 1:
                every = " and ".join(map(str, shapes))
                raise ShapeError(
                    f"{name}: shapes {every} do not broadcast: axis {axis - ndim} is {out[axis]}"
                    f" and {n}."
                )
            out[axis] = n
    return tuple(out)


def joined(name: str, *given: Operand, dtype: DType | None = None) -> tuple[list[UOp], list[Base]]:
    """Nodes of one dtype and one shape for operands, and those of them that are Tensors."""
    operands = [operand(x, name, *given) for x in given]
    dtype = dtype or common_dtype(operands)
    tensors = [x for x in operands if isinstance(x, Base)]
    shape = broadcast_shape(name, [t.uop.shape for t in tensors]) if tensors else ()
    nodes = []
    for x in operands:
        if isinstance(x, Base):
            u = x.uop.cast(dtype)
            nodes.append(u if u.shape == shape else u.broadcast_to(shape))
        else:
            nodes.append(scalar(name, x, dtype, shape))
    return nodes, tensors
