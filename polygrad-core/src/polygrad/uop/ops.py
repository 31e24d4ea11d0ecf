"""UOp: the one node of the upper floors, from a user's tensor expression to a kernel's loop nest.

`UOp(op, dtype, src, arg)` is immutable and hash-consed: the same parts give the same object, so
`is` is equality and a memo keyed by node costs one dict lookup. Shape, dtype and interval are slots
filled at construction, never recursive properties, so graphs of any depth work.

Two floors use the same class:

* the *tensor floor*: nodes have a shape; movement, reductions, gathers, assignment;
* the *kernel floor*: scalars inside loops; RANGE, PARAM, INDEX, LOAD, STORE, REDUCE.

Elementwise ops belong to both. `spec.py` says what is legal where; slots and the table of living
nodes are in `node.py`.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ..dtype import DType, canonical, dtypes, misfit
from ..errors import SpecError
from .node import Parts, entered, filled, live_nodes, living
from .opcodes import (
    BINARY,
    COMPARISONS,
    ELEMENTWISE,
    MOVEMENT,
    REDUCERS,
    TERNARY,
    UNARY,
    Ops,
)
from .shapes import SHAPES, Shape, shape_of, size

__all__ = [
    "BINARY",
    "COMPARISONS",
    "ELEMENTWISE",
    "MOVEMENT",
    "REDUCERS",
    "TERNARY",
    "UNARY",
    "KernelInfo",
    "Ops",
    "Shape",
    "UOp",
    "live_nodes",
    "shape_of",
    "size",
    "toposort",
]

_BUFFER: Final = Ops.BUFFER  # older Pythons take 0.1 us to read a member of an enum
_uids = itertools.count(1)
# Constants of a shape that were used lately: three nodes that an eager loop would make each time.
_constants: dict[Any, UOp] = {}
_PYTHON = frozenset({bool, int, float})
MAX_CONSTANTS: Final = 512
_DOUBLE: Final = struct.Struct("<d").pack
_BY_BITS: Final = frozenset({float, bool})
# The dtype of a result that has not its last source's.
_RESULT: Final = {Ops.THREEFRY: dtypes.uint32, **dict.fromkeys(COMPARISONS, dtypes.bool)}


class KernelInfo(NamedTuple):
    """What a kernel's SINK says of itself; `recipe`: how the library makes it (kernel.py)."""

    name: str = "kernel"
    recipe: tuple[str, tuple[Any, ...]] | None = None


class UOp(Parts):
    """One immutable node. Make it with `UOp(...)` or, better, with the named constructors below."""

    __slots__ = ()

    def __new__(
        cls,
        op: Ops,
        dtype: DType,
        src: tuple[UOp, ...] = (),
        arg: Any = None,
        shape: Shape | None = None,
    ) -> UOp:
        """`shape` is for who knows it: nothing is checked then, nor computed."""
        # `arg` counts by bits: to Python, 0.0 is -0.0, 1 is True, and NaN is never found.
        kind = type(arg)
        by_bits = (kind, _DOUBLE(arg) if kind is float else arg) if kind in _BY_BITS else arg
        key = (op, dtype, src, by_bits)
        ref = living.get(key)
        if ref is not None:
            found: UOp | None = ref()
            if found is not None:
                return found
        return _insert(key, op, dtype, src, arg, shape)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a UOp is immutable: cannot set {name!r}")

    def __reduce__(self) -> Any:
        return UOp, (self.op, self.dtype, self.src, self.arg)

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, memo: Any) -> UOp:
        return self

    def __repr__(self) -> str:
        from .printer import short

        return short(self)

    def __bool__(self) -> bool:
        raise TypeError("a UOp has no truth value: compare with `is`, or use .lo and .hi")

    # ---- leaves

    @staticmethod
    def const(dtype: DType, value: Any, unique: bool = False) -> UOp:
        """A scalar constant, canonical in its dtype; `unique` gives a leaf of its own."""
        src = (UOp(Ops.UNIQUE, dtypes.void, (), next(_uids)),) if unique else ()
        return UOp(Ops.CONST, dtype, src, canonical(dtype, value))

    @staticmethod
    def everywhere(dtype: DType, value: Any, shape: Shape) -> UOp:
        """A constant with the shape of the tensor it will meet."""
        if not shape:
            return UOp.const(dtype, value)
        if type(value) not in _PYTHON:  # what only stands for a number must not stay in the table
            value = canonical(dtype, value)
        key = (dtype, value or repr(value), shape)  # 0.0 and -0.0 are equal, their names are not
        found = _constants.get(key)
        if found is None:
            found = UOp.const(dtype, value).broadcast_to(shape)
            if len(_constants) >= MAX_CONSTANTS:
                _constants.clear()
            _constants[key] = found
        return found

    @staticmethod
    def index(value: int) -> UOp:
        """A constant of dtype index; the node of a size that varies."""
        if type(value) is not int and isinstance(value, sizes.Size):
            return value.node
        return UOp(Ops.CONST, dtypes.index, (), value)

    @staticmethod
    def buffer(dtype: DType, shape: Sequence[int], device: str) -> UOp:
        """A new leaf for storage of `shape`, different from every other."""
        shape = tuple(shape)
        arg = (next(_uids), shape, device)
        # No other node has this number, so it is in no table. (Results of compiled calls are such.)
        lo, hi = (None, None) if shape else symbolic.interval(_BUFFER, dtype, (), arg)
        return filled(UOp, _BUFFER, dtype, (), arg, shape, lo, hi)

    @staticmethod
    def variable(name: str, lo: int, hi: int, dtype: DType = dtypes.index) -> UOp:
        """A scalar given at each run, `lo <= value <= hi`; sizes.py has what users hold."""
        return UOp(Ops.VARIABLE, dtype, (), (name, lo, hi))

    @staticmethod
    def iota(n: int, dtype: DType | None = None) -> UOp:
        """0, 1, …, n - 1, in int32 if that holds them."""
        dtype = dtype or (dtypes.int32 if n < 1 << 31 else dtypes.int64)
        return UOp(Ops.IOTA, dtype, (), n) if n else UOp.const(dtype, 0).broadcast_to((0,))

    @staticmethod
    def range(
        lo: UOp | int | None, hi: UOp | int, ident: int | None = None, kind: str = "loop"
    ) -> UOp:
        """A loop counter from lo (None: 0) to hi - 1 of a kernel; `ident` is its number in that
        kernel. `range(n, ident)` counts from 0."""
        if ident is None:
            if isinstance(hi, UOp) or lo is None:
                raise TypeError("UOp.range takes the length of a loop and its number.")
            lo, hi, ident = 0, lo, hi
        lo = 0 if lo is None else lo
        bounds = tuple(b if isinstance(b, UOp) else UOp.index(b) for b in (lo, hi))
        return UOp(Ops.RANGE, dtypes.index, bounds, (ident, kind))

    # ---- elementwise: the smart constructor. Every scalar integer expression goes through it.

    @staticmethod
    def alu(op: Ops, *src: UOp, arg: Any = None) -> UOp:
        """`op` of sources with equal shapes, simplified when that is exact."""
        dtype = _RESULT.get(op) or src[-1].dtype
        simpler = symbolic.simplify(op, dtype, src)
        return UOp(op, dtype, src, arg) if simpler is None else simpler

    def cast(self, dtype: DType) -> UOp:
        if dtype is self.dtype:
            return self
        simpler = symbolic.simplify_cast(self, dtype)
        return UOp(Ops.CAST, dtype, (self,)) if simpler is None else simpler

    def bitcast(self, dtype: DType) -> UOp:
        if dtype is self.dtype:
            return self
        simpler = symbolic.simplify_bitcast(self, dtype)
        return UOp(Ops.BITCAST, dtype, (self,)) if simpler is None else simpler

    def _with(self, other: UOp | int | float | bool) -> UOp:
        """A number as a constant of this node's dtype and shape."""
        if isinstance(other, UOp):
            return other
        if isinstance(other, sizes.Size):
            return other.node.cast(self.dtype).broadcast_to(self.shape)
        if hasattr(other, "uop"):
            raise SpecError(
                "a tensor is no value of a kernel: give it to custom_kernel, which hands its"
                " memory in, and read a place of that."
            )
        return UOp.everywhere(self.dtype, other, self.shape)

    def __add__(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.ADD, self, self._with(o))

    def __radd__(self, o: int | float) -> UOp:
        return UOp.alu(Ops.ADD, self._with(o), self)

    def __sub__(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.SUB, self, self._with(o))

    def __rsub__(self, o: int | float) -> UOp:
        return UOp.alu(Ops.SUB, self._with(o), self)

    def __mul__(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.MUL, self, self._with(o))

    def __rmul__(self, o: int | float) -> UOp:
        return UOp.alu(Ops.MUL, self._with(o), self)

    def __truediv__(self, o: UOp | float) -> UOp:
        return UOp.alu(Ops.DIV, self, self._with(o))

    def __rtruediv__(self, o: float) -> UOp:
        return UOp.alu(Ops.DIV, self._with(o), self)

    def __floordiv__(self, o: UOp | int) -> UOp:
        return UOp.alu(Ops.FLOORDIV, self, self._with(o))

    def __mod__(self, o: UOp | int) -> UOp:
        return UOp.alu(Ops.FLOORMOD, self, self._with(o))

    def __neg__(self) -> UOp:
        return UOp.alu(Ops.NEG, self)

    def __invert__(self) -> UOp:
        return UOp.alu(Ops.NOT, self)

    def __and__(self, o: UOp | int) -> UOp:
        return UOp.alu(Ops.AND, self, self._with(o))

    def __or__(self, o: UOp | int) -> UOp:
        return UOp.alu(Ops.OR, self, self._with(o))

    def __xor__(self, o: UOp | int) -> UOp:
        return UOp.alu(Ops.XOR, self, self._with(o))

    def __lshift__(self, o: UOp | int) -> UOp:
        return UOp.alu(Ops.SHL, self, self._with(o))

    def __rshift__(self, o: UOp | int) -> UOp:
        return UOp.alu(Ops.SHR, self, self._with(o))

    def __lt__(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.CMPLT, self, self._with(o))

    def __le__(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.CMPLE, self, self._with(o))

    def __gt__(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.CMPLT, self._with(o), self)

    def __ge__(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.CMPLE, self._with(o), self)

    def eq(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.CMPEQ, self, self._with(o))

    def ne(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.CMPNE, self, self._with(o))

    def where(self, then: UOp, other: UOp | int | float) -> UOp:
        return UOp.alu(Ops.WHERE, self, then, then._with(other))

    def maximum(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.MAXIMUM, self, self._with(o))

    def minimum(self, o: UOp | int | float) -> UOp:
        return UOp.alu(Ops.MINIMUM, self, self._with(o))

    # ---- movement and other tensor nodes. Identity movements give the source itself.

    def reshape(self, shape: Sequence[int]) -> UOp:
        shape = tuple(shape)
        if shape == self.shape:
            return self
        base = self.src[0] if self.op is Ops.RESHAPE else self
        return base if base.shape == shape else UOp(Ops.RESHAPE, self.dtype, (base,), shape)

    def permute(self, axes: Sequence[int]) -> UOp:
        axes = tuple(axes)
        base = self
        if self.op is Ops.PERMUTE:
            base, axes = self.src[0], tuple([self.arg[a] for a in axes])
        if axes == tuple(range(len(axes))):
            return base
        return UOp(Ops.PERMUTE, self.dtype, (base,), axes)

    def expand(self, shape: Sequence[int]) -> UOp:
        shape = tuple(shape)
        return self if shape == self.shape else UOp(Ops.EXPAND, self.dtype, (self,), shape)

    def shrink(self, bounds: Sequence[tuple[int, int, int]]) -> UOp:
        bounds = tuple(bounds)
        if all(b == (0, n, 1) for b, n in zip(bounds, self.shape, strict=True)):
            return self
        return UOp(Ops.SHRINK, self.dtype, (self,), bounds)

    def pad(self, pads: Sequence[tuple[int, int, int]]) -> UOp:
        pads = tuple(pads)
        return self if not any(map(any, pads)) else UOp(Ops.PAD, self.dtype, (self,), pads)

    def flip(self, axes: Sequence[int]) -> UOp:
        axes = tuple(sorted(a for a in axes if self.shape[a] not in (0, 1)))
        return UOp(Ops.FLIP, self.dtype, (self,), axes) if axes else self

    def window(self, axis: int, size: int, stride: int, dilation: int) -> UOp:
        return UOp(Ops.WINDOW, self.dtype, (self,), (axis, size, stride, dilation))

    def reduce(self, op: Ops, axes: Sequence[int] | Sequence[UOp]) -> UOp:
        """Tensor floor: reduce over `axes`, which disappear from the shape; narrow floats are
        summed and multiplied in float32, whatever the reduction is split into. Kernel floor: over
        loops."""
        if axes and isinstance(axes[0], UOp):
            value = self.load() if self.op is Ops.INDEX else self
            return UOp(Ops.REDUCE, self.dtype, (value, *axes), op)
        over = tuple(sorted(axes))
        if not over:
            return self
        if _rounds(op, self.dtype):
            return self.cast(self.dtype.arithmetic).reduce(op, axes).cast(self.dtype)
        return UOp(Ops.REDUCE, self.dtype, (self,), (op, over))

    def broadcast_to(self, shape: Sequence[int]) -> UOp:
        """numpy's rule: missing leading axes are added, axes of size 1 grow."""
        shape = tuple(shape)
        lead = (1,) * (len(shape) - len(self.shape))
        return self.reshape(lead + self.shape).expand(shape)

    def gather(self, index: UOp, axis: int) -> UOp:
        return UOp(Ops.GATHER, self.dtype, (self, index), axis)

    def scatter(self, index: UOp, updates: UOp, axis: int, mode: str) -> UOp:
        """`updates` written (mode "set") or combined ("add mul max min") where `index` says; narrow
        floats are summed and multiplied in float32."""
        if mode in ("add", "mul") and self.dtype.is_narrow:
            wide = self.dtype.arithmetic
            return self.cast(wide).scatter(index, updates.cast(wide), axis, mode).cast(self.dtype)
        return UOp(Ops.SCATTER, self.dtype, (self, index, updates), (axis, mode))

    def scan(self, op: Ops, axis: int) -> UOp:
        """The running reduction along `axis`, each element included: cumsum for ADD."""
        if _rounds(op, self.dtype):
            return self.cast(self.dtype.arithmetic).scan(op, axis).cast(self.dtype)
        return UOp(Ops.SCAN, self.dtype, (self,), (op, axis))

    def contiguous(self) -> UOp:
        if self.op in (Ops.BUFFER, Ops.CONTIGUOUS):
            return self
        return UOp(Ops.CONTIGUOUS, self.dtype, (self,))

    def detach(self) -> UOp:
        return UOp(Ops.DETACH, self.dtype, (self,))

    def copy_to(self, device: str) -> UOp:
        return UOp(Ops.COPY, self.dtype, (self,), device)

    def store(
        self, value: UOp | float, combine: Ops | None = None, *, gate: UOp | None = None
    ) -> UOp:
        """The effect of writing `value` into this view of a buffer (a kernel: into this place, if
        `gate` holds)."""
        if isinstance(value, (int, float)):
            part = self.dtype.is_int and isinstance(value, float) and value % 1 != 0
            why = misfit(self.dtype, value) or (part and f"{value} is no {self.dtype.name}")
            if why:
                raise SpecError(f"kernel: {why}; store a value that the memory can hold.")
        src = (self, self._with(value))
        return UOp(Ops.STORE, dtypes.void, src if gate is None else (*src, gate), combine)

    # ---- kernel floor: what people write kernels with (kernel.py)

    def load(self, gate: UOp | None = None) -> UOp:
        """The value at this place, 0 where `gate` is false."""
        return UOp(Ops.LOAD, self.dtype, (self,) if gate is None else (self, gate))

    def end(self, *loops: UOp) -> UOp:
        """This effect at every step of the loops, the first of them outermost."""
        return UOp(Ops.END, dtypes.void, (self, *loops)) if loops else self

    def sink(self, *effects: UOp, arg: KernelInfo | None = None) -> UOp:
        """A kernel of these effects."""
        return UOp(Ops.SINK, dtypes.void, (self, *effects), arg)

    def group(self, *effects: UOp) -> UOp:
        """Several effects as one, for `end` and `after`."""
        return UOp(Ops.END, dtypes.void, (self, *effects)) if effects else self

    def after(self, *effects: UOp) -> UOp:
        return UOp(Ops.AFTER, self.dtype, (self, *effects))

    # ---- walking

    @property
    def base(self) -> UOp:
        """The node below movement ops."""
        node = self
        while node.op in MOVEMENT:
            node = node.src[0]
        return node

    @property
    def device(self) -> str | None:
        """The device of the first buffer or copy below, None for a graph of constants alone."""
        seen: set[UOp] = set()
        stack = [self]
        while stack:
            node = stack.pop()
            if node.op is Ops.COPY:
                return str(node.arg)
            if node.op is Ops.BUFFER:
                return str(node.arg[2])
            if node not in seen:
                seen.add(node)
                stack += node.src[::-1]
        return None

    def toposort(self, gate: Callable[[UOp], bool] | None = None) -> list[UOp]:
        """All nodes below and this one, sources first, not recursive; `gate`: which to enter."""
        return toposort((self,), gate)


def toposort(roots: Sequence[UOp], gate: Callable[[UOp], bool] | None = None) -> list[UOp]:
    """Post-order over several roots; each node once, sources in order."""
    seen: set[UOp] = set()
    out: list[UOp] = []
    stack: list[Any] = list(roots)[::-1]  # nodes, and None above a node whose sources come first
    while stack:
        node = stack.pop()
        if node is None:
            out.append(stack.pop())
        elif node not in seen:
            seen.add(node)
            src = node.src
            if not src or (gate is not None and not gate(node)):
                out.append(node)
            else:
                stack += (node, None, *src[::-1])
    return out


def _rounds(op: Ops, dtype: DType) -> bool:
    """Would partial results be rounded, and more often the more a reduction is split?"""
    return dtype.is_narrow and op in (Ops.ADD, Ops.MUL)


def _insert(
    key: Any, op: Ops, dtype: DType, src: tuple[UOp, ...], arg: Any, shape: Shape | None
) -> UOp:
    if shape is None:
        rule = SHAPES.get(op)
        shape = rule(src, arg) if rule is not None else src[0].shape if src else ()
    lo, hi = (None, None) if shape else symbolic.interval(op, dtype, src, arg)
    return entered(key, filled(UOp, op, dtype, src, arg, shape, lo, hi))


# Last: they need UOp, and UOp's methods need them when they run.
from . import sizes, symbolic  # noqa: E402
