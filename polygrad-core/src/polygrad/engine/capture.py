"""A capture: a Python function being turned into a graph, once.

While one is current on a runtime, tensors are symbols. Arguments are *placeholders*; asking for a
value that depends on one is an error that names the user's line. Assignments are noted, so that
whoever captures can make the assigned tensors state of its Plan. Numbers given as arguments become
`Number`s, which the graph takes as variables. Random draws take their base from the call, not from
the trace.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from ..dtype import DType, dtypes
from ..errors import CaptureError
from ..schedule.cache import scalar_variable
from ..uop.ops import Ops, UOp, toposort
from ..uop.provenance import Site, here
from .number import Number, evaluator, pinned

if TYPE_CHECKING:
    from .runtime import Runtime

active: ContextVar[Capture | None] = ContextVar("polygrad_capture", default=None)
KEY0, KEY1, BASE = "draw_key0", "draw_key1", "draw_base"


class Outside(NamedTuple):
    """A tensor that a captured function met, as it was before."""

    tensor: Any
    node: UOp
    grad: Any


class Asked(NamedTuple):
    """An expression of number arguments that the graph takes as a variable."""

    expression: Any
    dtype: DType
    most: int | None = None  # of a place, which lies between 0 and this


class Bounds(NamedTuple):
    """What `operation` asks of each element of an index: low <= it < high, or that it is `ignored`;
    `what` names the range in the error, `site` is the user's line."""

    operation: str
    low: int
    high: int
    what: str
    ignored: int | None = None
    site: Site | None = None


class Check(NamedTuple):
    """An index whose elements only a call knows, and what is asked of them."""

    node: UOp
    bounds: Bounds


class Condition(NamedTuple):
    """Bounds of a value of the number arguments."""

    value: Callable[[Sequence[Any]], Any]
    least: Any
    most: Any


def _equal(get: Callable[[Sequence[Any]], Any], value: Any) -> Condition:
    if value and value == value:
        return Condition(get, value, value)
    name = repr(value)  # 0.0 and -0.0 are equal, and a NaN equals nothing
    return Condition(lambda numbers: repr(get(numbers)), name, name)


def fulfilled(conditions: Sequence[Condition], numbers: Sequence[Any]) -> bool:
    return all(c.least <= c.value(numbers) <= c.most for c in conditions)


class Capture:
    """The notes of one capture. `what` names it in messages, such as ``jit of step``.

    A `pure` one may run inside of another, and assigns to nothing but what it made itself. A
    `watched` one collects what is to be checked of its indices (`checks`).
    """

    def __init__(
        self, runtime: Runtime, what: str, pure: bool = False, watched: bool = False
    ) -> None:
        self.runtime, self.what, self.pure = runtime, what, pure
        self.outer = active.get() if pure else None
        self.watched: bool = watched or (self.outer is not None and self.outer.watched)
        self.checks: list[Check] = []
        self.placeholders: set[UOp] = set()
        self.assigned: dict[int, tuple[weakref.ref[Any], UOp]] = {}  # by id: tensor, node before
        self.outside: dict[int, Outside] = {}  # tensors that were there before, by id
        self.made: set[int] = set()  # ids of tensors that the captured function made
        self.numbers: dict[Asked, tuple[UOp, UOp]] = {}  # variables and their nodes
        self.pinned: set[int] = set()  # number arguments whose value Python itself used
        self.before_calls: list[Callable[[], None]] = []  # what Python does before each call
        self.drawn = 0
        self.draw_nodes: tuple[UOp, UOp, UOp] | None = None
        self.started = _serial()  # leaves with a higher number were made by the captured function
        self.open = True

    # ---- placeholders

    def placeholder(self, dtype: DType, shape: Sequence[int], device: str) -> UOp:
        """A leaf without memory that stands for an argument."""
        leaf = UOp.buffer(dtype, shape, device)
        self.placeholders.add(leaf)
        return leaf

    def symbolic(self, roots: Sequence[UOp]) -> bool:
        """Whether any of `roots` is computed from an argument: it has no value yet."""
        below = toposort([r for r in roots if r.src])
        return any(map(self.given, roots)) or any(map(self.given, below))

    def given(self, node: UOp) -> bool:
        """Whether a node is a placeholder, of a capture around this one too."""
        return node in self.placeholders or (self.outer is not None and self.outer.given(node))

    def depends(self, roots: Sequence[UOp]) -> bool:
        """Whether any of `roots` is computed from an argument or from what was assigned."""
        return any(n.op is Ops.AFTER or self.given(n) for n in toposort(roots))

    def check(self, roots: Sequence[UOp]) -> None:
        """Refuse to realise what depends on the call."""
        if self.depends(roots):
            raise self.refusal("a tensor's value is read")

    def check_read(self, root: UOp) -> None:
        """Refuse to give Python a value that another call may find changed."""
        for n in toposort((root,)):
            outside = n.op is Ops.VARIABLE or (n.op is Ops.BUFFER and n.arg[0] <= self.started)
            if outside or n.op is Ops.AFTER or self.given(n):
                raise self.refusal("a tensor's value is read")

    def refusal(self, what: str) -> CaptureError:
        site = here()
        where = f" at {site}" if site else ""
        return CaptureError(
            f"{what}{where} inside the {self.what}, but it depends on the arguments or on state and"
            " changes from call to call. Return the tensor and read it outside, or use where()."
        )

    def size_refusal(self, name: str) -> CaptureError:
        """The error of Python code that needs to know a size."""
        site = here()
        where = f" at {site}" if site else ""
        return CaptureError(
            f"the value of the variable {name!r} is read{where} inside the {self.what}, but it"
            " changes from call to call. Sizes as they are stay open, in shapes and beside tensors;"
            " give a number that Python needs as an argument of its own."
        )

    # ---- tensors

    def used(self, operands: Sequence[Any], result: Any) -> None:
        """An operation made the tensor `result` of `operands`."""
        for tensor in operands:
            self.see(tensor)
        self.made.add(id(result))

    def see(self, tensor: Any) -> None:
        """Remember how a tensor from outside was before the capture changes it."""
        if id(tensor) not in self.made and id(tensor) not in self.outside:
            self.outside[id(tensor)] = Outside(tensor, tensor.uop, tensor.grad)

    def restore(self) -> None:
        """Put every tensor from outside back, so that the capture leaves nothing behind."""
        self.open = False
        for tensor, node, grad in self.outside.values():
            if tensor.uop is not node:
                tensor._replace(node)
            tensor.grad = grad

    # ---- assignments

    def note(self, tensor: Any) -> None:
        """`tensor` is about to be assigned to; it still has its old node."""
        if self.pure and not self._own(tensor):
            site = here()
            raise CaptureError(
                f"the {self.what} assigns to a tensor of {tensor.dtype.name} {tensor.shape}"
                f"{f' at {site}' if site else ''}, which it did not make; a function only computes."
                " Return the new value and assign it outside."
            )
        self.see(tensor)
        known = self.assigned.get(id(tensor))
        if known is None or known[0]() is not tensor:  # the number of one that is gone
            self.assigned[id(tensor)] = weakref.ref(tensor), tensor.uop

    def _own(self, tensor: Any) -> bool:
        """Whether the captured function made a tensor and the storage it is on, if any."""
        base = tensor.uop
        while base.op is Ops.AFTER:
            base = base.src[0]
        outside = self.given(base) or (base.op is Ops.BUFFER and base.arg[0] <= self.started)
        return id(tensor) in self.made and not outside

    def made_here(self, node: UOp) -> bool:
        """Whether a node has a leaf that the captured function itself made."""
        for n in toposort((node,)):
            if n in self.placeholders:
                return True
            uid = n.arg if n.op is Ops.UNIQUE else n.arg[0] if n.op is Ops.BUFFER else 0
            if uid > self.started:
                return True
        return False

    # ---- numbers

    def number(self, index: int, value: int | float) -> Number:
        """Number argument `index` of the captured function."""
        return Number.given(self, index, value)

    def check_kept(self, number: Number) -> None:
        """Refuse a number that stands for no value any more."""
        if not self.open and not number.fixed:
            raise CaptureError(
                f"a number argument was kept after the {self.what} had ended;"
                f" keep {type(number.value).__name__}(…) of it, which is captured for its value."
            )

    def variable(self, number: Number, dtype: DType) -> UOp:
        """The node of `dtype` that stands for `number`."""
        self.check_kept(number)
        key = Asked(number.expression, dtype)
        if key not in self.numbers:
            self._put(key, *scalar_variable(f"number{len(self.numbers)}", dtype))
        return self.numbers[key][1]

    def position(self, number: Number, most: int) -> UOp:
        """The node of a place from 0 to `most`; a call in which it lies elsewhere does not share
        this capture."""
        key = Asked(number.expression, dtypes.index, most)
        if key not in self.numbers:
            variable = UOp.variable(f"number{len(self.numbers)}", 0, most)
            self._put(key, variable, variable)
        return self.numbers[key][1]

    def _put(self, key: Asked, variable: UOp, node: UOp) -> None:
        self.numbers[key] = variable, node
        self.placeholders.add(variable)

    def conditions(self, numbers: Sequence[Any]) -> list[Condition]:
        """What the number arguments of a call must fulfil to share this capture."""
        some = sorted(self.pinned)
        found = [_equal(operator.itemgetter(i), pinned(numbers[i])) for i in some]
        places = [a for a in self.numbers if a.most is not None]
        return found + [Condition(evaluator(a.expression), 0, a.most) for a in places]

    # ---- random draws

    def draw(self, count: int) -> tuple[UOp, UOp, UOp]:
        """Key words and first element of a draw, relative to the base that each call is given."""
        if self.draw_nodes is None:
            key0 = UOp.variable(KEY0, 0, 0xFFFFFFFF, dtypes.uint32)
            key1 = UOp.variable(KEY1, 0, 0xFFFFFFFF, dtypes.uint32)
            base = UOp.variable(BASE, 0, (1 << 64) - 1, dtypes.uint64)
            self.draw_nodes = (key0, key1, base)
            self.placeholders.update(self.draw_nodes)
        key0, key1, base = self.draw_nodes
        first = base + self.drawn if self.drawn else base
        self.drawn += count
        return key0, key1, first


def _serial() -> int:
    """The newest leaf number: every leaf made from now on has a higher one."""
    return int(UOp.buffer(dtypes.uint8, (0,), "").arg[0])
