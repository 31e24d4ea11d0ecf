"""The language of kernels that people write: memory that can be indexed, loops, stores, an order.

Floor: uop. A function of `Placeholder`s gives a SINK of effects:

    def add(out, a, b):
        i = UOp.range(out.numel(), 0)
        out, a, b = out.flatten(), a.flatten(), b.flatten()
        return out[i].store(a[i] + b[i]).end(i).sink(arg=KernelInfo(name="add"))

`u[i]` is a place; where a value is wanted it is read. An expression is evaluated once for each step
of the loops it depends on, before the loops inside those, and reads memory before every store that
it does not follow; `memory.after(effect)` is that memory as the effect left it, and
`memory.after(loop)` the same read anew at each step of the loop. So the order is in the graph, and
nothing else orders a kernel.

`finished` makes the kernel floor's form of what was written: reads become LOADs, bools bytes.
Kernels without an order (no END is left) go through the recipes; the others are printed as they
stand by `codegen/ordered.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..dtype import DType, dtypes
from ..errors import SpecError, VaryingSize
from .linear import coefficient, linear, ranges_of
from .ops import KernelInfo, Ops, Shape, UOp, size, toposort
from .rewrite import rebuild
from .sizes import is_fixed

__all__ = ["KernelCall", "KernelInfo", "Placeholder", "call", "finished", "local", "memory_of"]

Gradient = Callable[[UOp, Sequence["UOp | None"]], Sequence["UOp | None"]]


class Output(NamedTuple):
    """A parameter that the kernel writes."""

    slot: int
    dtype: DType
    shape: Shape


class KernelCall(NamedTuple):
    """The argument of a KERNEL node, which is output number `which` of one launch.

    Source k of the node is parameter `slots[k]`; if that is an output, its contents before the
    launch. `values` are the launch's variables by name. `gradient` takes a node of the call and
    what flows into each output (None: nothing) to what flows into each source.
    """

    sink: UOp
    slots: tuple[int, ...]
    outputs: tuple[Output, ...]
    which: int = 0
    values: tuple[tuple[str, int], ...] = ()
    gradient: Gradient | None = None

    @property
    def shape(self) -> Shape:
        return self.outputs[self.which].shape

    @property
    def total(self) -> int:
        return len(self.outputs)


def call(
    sink: UOp,
    sources: Sequence[tuple[int, UOp]],
    outputs: Sequence[tuple[int, DType, Shape]],
    values: Sequence[tuple[str, int]] = (),
    gradient: Gradient | None = None,
) -> list[UOp]:
    """The outputs of a finished kernel over (slot, input) pairs, as nodes of the tensor floor."""
    slots, src = tuple(s for s, _ in sources), tuple(u for _, u in sources)
    made = tuple(Output(*o) for o in outputs)
    return [
        UOp(Ops.KERNEL, o.dtype, src, KernelCall(sink, slots, made, i, tuple(values), gradient))
        for i, o in enumerate(made)
    ]


# ---- what the author holds


class Placeholder:
    """Memory of a kernel: a parameter or a LOCAL, the shape it is indexed by, and what it follows.

    It has the shape, dtype and number of elements of the tensor it stands for.
    """

    __slots__ = ("base", "dtype", "shape")

    def __init__(self, base: UOp, dtype: DType, shape: Shape) -> None:
        self.base, self.dtype, self.shape = base, dtype, shape

    @staticmethod
    def param(slot: int, dtype: DType, shape: Shape) -> Placeholder:
        """Parameter number `slot`."""
        if not is_fixed(shape):
            raise VaryingSize(f"a kernel of its own works on constant sizes, not {shape}")
        return Placeholder(UOp(Ops.PARAM, dtype, (), (slot, size(shape))), dtype, shape)

    ctx: Final = None  # the first argument of UOp.range, for whom it has one

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return size(self.shape)

    def numel(self) -> int:
        """The number of elements."""
        return size(self.shape)

    def flatten(self) -> Placeholder:
        """The same memory with one index."""
        return Placeholder(self.base, self.dtype, (size(self.shape),))

    def reshape(self, *shape: Any) -> Placeholder:
        """The same memory, indexed row by row as another shape of equal size."""
        wanted = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if size(wanted) != size(self.shape):
            raise SpecError(f"kernel: memory of shape {self.shape} is no {wanted}.")
        return Placeholder(self.base, self.dtype, wanted)

    def after(self, *effects: UOp) -> Placeholder:
        """This memory as the effects left it; a loop among them: read anew at each of its steps."""
        if not effects:
            return self
        for e in effects:
            if not isinstance(e, UOp) or e.op not in _ORDERS:
                raise SpecError(f"kernel: memory comes after stores, ends and loops, not {e!r}.")
        return Placeholder(self.base.after(*effects), self.dtype, self.shape)

    def __getitem__(self, index: Any) -> UOp:
        return self.index(*index) if isinstance(index, tuple) else self.index(index)

    def index(self, *index: Any) -> UOp:
        """The place of one element: an index for each axis."""
        if len(index) != len(self.shape):
            raise SpecError(
                f"kernel: memory of shape {self.shape} takes {len(self.shape)} indices, not"
                f" {len(index)}; flatten() it for one."
            )
        offset = UOp.index(0)
        for i, n in zip(index, self.shape, strict=True):
            offset = offset * n + _position(i)
        return UOp(Ops.INDEX, self.dtype, (self.base, offset))

    def __len__(self) -> int:
        return self.shape[0]


def local(dtype: DType, count: int, ident: int) -> Placeholder:
    """Memory of one run of the outermost loops: `ident` tells it from others of the kernel."""
    space = "register" if count == 1 else "stack"
    return Placeholder(UOp(Ops.LOCAL, dtype, (), (count, space, ident)), dtype, (count,))


_ORDERS: Final = frozenset({Ops.STORE, Ops.END, Ops.RANGE, Ops.SINK, Ops.AFTER})


def _position(index: Any) -> UOp:
    if isinstance(index, UOp):
        if index.dtype is dtypes.index:
            return index
        if index.dtype.is_int:
            value = UOp(Ops.LOAD, index.dtype, (index,)) if index.op is Ops.INDEX else index
            return value.cast(dtypes.index)
    elif hasattr(type(index), "__index__"):
        return UOp.index(int(index))
    raise SpecError(f"kernel: an index is an integer, not {index!r}.")


def memory_of(base: UOp) -> UOp:
    """The PARAM or LOCAL that an address points into, whatever it follows."""
    while base.op is Ops.AFTER:
        base = base.src[0]
    return base


# ---- kernels of the library: by name and numbers, which is how a bundle holds them

LIBRARY: Final[dict[str, Callable[..., UOp]]] = {}


def library(build: Callable[..., UOp]) -> Callable[..., UOp]:
    """Make a builder of kernels one of the library. It takes numbers and dtypes, and whatever those
    are and the kernel's inputs hold, what it builds stays within its parameters."""
    name = build.__name__.strip("_")

    def made(*args: Any) -> UOp:
        if not is_fixed(args):
            raise VaryingSize("a kernel of its own works on constant sizes")
        sink = build(*args)
        plain = tuple(a.name if isinstance(a, DType) else a for a in args)
        return UOp(Ops.SINK, dtypes.void, sink.src, sink.arg._replace(recipe=(name, plain)))

    cached = LIBRARY[name] = lru_cache(maxsize=128)(made)
    return cached


# ---- from what was written to the kernel floor


def finished(sink: UOp) -> UOp:
    """The legal kernel of a SINK; SpecError says what is not legal in it."""
    from .nest import analyse, expanded
    from .spec import verify_kernel

    if not isinstance(sink, UOp) or sink.op is not Ops.SINK:
        raise SpecError(f"kernel: the function gives a SINK of effects, not {sink!r}.")
    _check_loops(sink)
    explicit = _explicit(sink)
    verify_kernel(explicit)
    _check_places(explicit)
    plain = _unordered(explicit)
    if plain is explicit:
        analyse(expanded(explicit))
    return plain


def _check_loops(sink: UOp) -> None:
    for loop in (n for n in sink.toposort() if n.op is Ops.RANGE):
        lo, hi = (b.arg if b.op is Ops.CONST else None for b in loop.src)
        if any(b is not None and type(b) is not int for b in (lo, hi)):
            raise SpecError(f"kernel: a loop runs between integers, not from {lo} to {hi}.")
        if lo is not None and hi is not None and hi < lo:
            raise SpecError(f"kernel: a loop from {lo} to {hi} runs backwards.")


def _check_places(sink: UOp) -> None:
    """Refuse an access without a gate that some step of its loops makes outside, as far as that is
    certain: its place is a sum of loop counters of fixed bounds."""
    for n in sink.toposort():
        gate = {Ops.LOAD: 1, Ops.STORE: 2}.get(n.op)
        if gate is None or len(n.src) > gate:
            continue
        base, offset = memory_of(n.src[0].src[0]), n.src[0].src[1]
        total = base.arg[1] if base.op is Ops.PARAM else base.arg[0]
        reach = _reach(offset)
        if reach is not None and not 0 <= reach[0] <= reach[1] < total:
            what = "stores to" if n.op is Ops.STORE else "reads"
            raise SpecError(
                f"kernel: it {what} places {reach[0]} to {reach[1]} of memory of {total} elements;"
                " shorten the loop, or give load and store a gate."
            )


def _reach(offset: UOp) -> tuple[int, int] | None:
    """The least and the largest place that is touched; None where that is not certain, or none."""
    constant, terms = linear(offset)
    low = high = constant
    for loop, factor in terms:
        if loop.op is not Ops.RANGE or any(b.op is not Ops.CONST for b in loop.src):
            return None
        first, end = (b.arg for b in loop.src)
        if end <= first:
            return None
        ends = sorted((factor * first, factor * (end - 1)))
        low, high = low + ends[0], high + ends[1]
    return low, high


def _explicit(sink: UOp) -> UOp:
    """Places read as LOADs where a value is wanted; bools in memory as bytes."""
    new: dict[UOp, UOp] = {}
    for node in sink.toposort():
        keep = _ADDRESS_AT.get(node.op)
        src = tuple(
            new[s] if i == keep or s.op is not Ops.INDEX else _read(new[s], s.dtype)
            for i, s in enumerate(node.src)
        )
        if node.op is Ops.STORE:
            src = _typed(node, src)
        byte = node.dtype is dtypes.bool and node.op in _MEMORY
        dtype = dtypes.uint8 if byte else node.dtype
        if byte and node.op is Ops.LOAD:
            new[node] = UOp(Ops.LOAD, dtype, src).cast(dtypes.bool)
        elif dtype is not node.dtype or node.op in _MEMORY:
            new[node] = UOp(node.op, dtype, src, node.arg)
        else:
            new[node] = rebuild(node, src)
    return new[sink]


_ADDRESS_AT: Final = {Ops.LOAD: 0, Ops.STORE: 0}
_MEMORY: Final = frozenset({Ops.PARAM, Ops.LOCAL, Ops.AFTER, Ops.INDEX, Ops.LOAD})


def _read(address: UOp, dtype: DType) -> UOp:
    return UOp(Ops.LOAD, address.dtype, (address,)).cast(dtype)


def _typed(store: UOp, src: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """A bool is stored as a byte; any other value must have the memory's dtype already."""
    target, value = store.src[0].dtype, store.src[1].dtype
    if target is not value:
        raise SpecError(
            f"kernel: STORE dtype mismatch; cast the value to the destination dtype"
            f" ({value.name} into memory of {target.name})."
        )
    return (src[0], src[1].cast(src[0].dtype), *src[2:])


def _unordered(sink: UOp) -> UOp:
    """A SINK of plain stores, if their order plays no part: then the recipes may choose one."""
    order = sink.toposort()
    stores = [n for n in order if n.op is Ops.STORE]
    closed = {r for n in order if n.op is Ops.END for r in n.src}
    if any(not ranges_of(s) <= closed for s in stores):
        return sink
    if any(n.op in (Ops.AFTER, Ops.LOCAL) for n in order) or not all(map(_scattered, stores)):
        return sink
    place: dict[UOp, UOp] = {}
    for s in stores:
        if s.src[0].src[0] in place:
            return sink
        place[s.src[0].src[0]] = s.src[0]
    for n in order:
        if n.op is Ops.LOAD and place.get(n.src[0].src[0], n.src[0]) is not n.src[0]:
            return sink
        if n.op is Ops.RANGE and any(b.op is not Ops.CONST for b in n.src):
            return sink
    plain = {n: UOp.range(n.src[0], n.src[1], n.arg[0]) for n in order if n.op is Ops.RANGE}
    return UOp(Ops.SINK, dtypes.void, tuple(_replaced(stores, plain)), sink.arg)


def _replaced(roots: Sequence[UOp], table: dict[UOp, UOp]) -> list[UOp]:
    new = dict(table)
    for node in toposort(roots):
        if node not in new:
            new[node] = rebuild(node, tuple(new[s] for s in node.src))
    return [new[r] for r in roots]


def _scattered(store: UOp) -> bool:
    """Does every step of the store's loops write a place of its own, for certain?"""
    loops = {r for r in ranges_of(store) if r.arg[1] != "grid"}
    offset = store.src[0].src[1]
    return not loops or (len(store.src) >= 2 and _spread(offset, loops) is not None)


def _spread(offset: UOp, loops: set[UOp]) -> int | None:
    """How many places an offset visits if it visits each once, in a mixed radix; else None."""
    steps = []
    for r in loops:
        step = coefficient(offset, r)
        if not step or any(b.op is not Ops.CONST for b in r.src):
            return None
        steps.append((abs(step), int(r.src[1].arg) - int(r.src[0].arg)))
    reach, count = 0, 1
    for step, n in sorted(steps):
        if step <= reach:
            return None
        reach, count = reach + step * max(n - 1, 0), count * n
    return count


def covers(sink: UOp, slot: int) -> bool:
    """Does one store of a kernel write every element of this parameter, and nothing read it before?

    Then what was in the memory does not matter.
    """
    whole = False
    for n in sink.toposort():
        if n.op is Ops.LOAD and n.src[0].src[0].op is Ops.PARAM:
            if n.src[0].src[0].arg[0] == slot:
                return False
        if n.op is Ops.STORE and len(n.src) == 2 and memory_of(n.src[0].src[0]).op is Ops.PARAM:
            param, offset = memory_of(n.src[0].src[0]), n.src[0].src[1]
            if param.arg[0] == slot and {a for a, _ in linear(offset)[1]} <= ranges_of(offset):
                whole |= _spread(offset, set(ranges_of(n))) == param.arg[1]
    return whole


def written(sink: UOp) -> list[int]:
    """The slots of the parameters that a kernel stores into."""
    bases = [memory_of(n.src[0].src[0]) for n in sink.toposort() if n.op is Ops.STORE]
    return sorted({b.arg[0] for b in bases if b.op is Ops.PARAM})
