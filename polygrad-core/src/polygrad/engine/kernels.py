"""Programs of one device: a canonical kernel becomes a loaded program once.

A kernel's identity is its `SINK`: nodes are hash-consed, so equal kernels are the same object and
twelve equal layers are lowered and compiled once. Names of variables play no part: they are
numbered first. All kernels that a schedule needs and that are new go to the toolchain as one
module, through the disk cache.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import settings
from ..contract import Binary, LinearProgram, Source
from ..device import loading
from ..hooks import installed as hooks
from ..plugin import Device
from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import rewrite, substitute
from . import tuning, witness
from .runtime import current

if TYPE_CHECKING:
    from ..codegen.lists import Choice
    from ..files.diskcache import DiskCache
    from ..hooks.specs import CompileEvent

CAPACITY = 4096  # kernels kept per device; the least recently used is forgotten first


class Kernel(NamedTuple):
    """A program for people (`linear`) and for the machine (`program`)."""

    linear: LinearProgram
    program: Any


class Kernels:
    """The kernels of one opened device. Safe from several threads."""

    def __init__(self, device: Device) -> None:
        self._device = weakref.ref(device)  # the table below is keyed weakly by the device
        self.lock = threading.RLock()
        self.known: OrderedDict[Wanted, Kernel] = OrderedDict()
        self.judged: OrderedDict[Wanted, Kernel] = OrderedDict()  # with POLY_KERNELS=provider
        self.judges = hooks.epoch  # which plugins were there

    @property
    def device(self) -> Device:
        found = self._device()
        assert found is not None  # who asks for its kernels holds it
        return found

    def get(self, sinks: Sequence[UOp]) -> list[Kernel]:
        """One kernel per canonical sink, in order; new ones are compiled together."""
        with self.lock:
            rules = hooks.rules("kernel", self.device.target)
            if rules:  # named and kept as what the rules make of them
                sinks = [rewrite(s, rules) for s in sinks]
            chosen = tuning.choices(self.device, sinks)
            wanted = [(s, chosen.get(s)) for s in sinks]
            new = [w for w in dict.fromkeys(wanted) if w not in self.known]
            if new:
                self._compile(new)
            for one in wanted:
                self.known.move_to_end(one)
            found = [self.known[w] for w in wanted]
            while len(self.known) > CAPACITY:
                self.known.popitem(last=False)
            if settings.get("POLY_KERNELS") == "provider":
                found = [self._best(w, k) for w, k in zip(wanted, found, strict=True)]
            return found

    def _compile(self, wanted: Sequence[Wanted]) -> None:
        compiled = hooks.observer("polygrad_kernel_compiled")
        start = perf_counter()
        names = [tuning.name_of(content_name(sink), choice) for sink, choice in wanted]
        found = self._from_disk(names)
        linear, programs = found or self._from_source(wanted, names)
        for one, program in zip(wanted, linear, strict=True):
            self.known[one] = Kernel(program, programs[program.name])
        if compiled is not None:
            source = "compiled" if found is None else "disk"
            compiled(event=_compile_event(self.device, linear, source, start))

    def _best(self, one: Wanted, own: Kernel) -> Kernel:
        """Where plugins offer other programs, the best; found once while the same are there."""
        from . import providers

        if self.judges != hooks.epoch:
            self.judges, self.judged = hooks.epoch, OrderedDict()
        if one not in self.judged:
            self.judged[one] = Kernel(*providers.best(self.device, one[0], *own, self._load))
            while len(self.judged) > CAPACITY:
                self.judged.popitem(last=False)
        return self.judged[one]

    def _load(self, linear: LinearProgram) -> Any:
        return build(self.device, [linear])[linear.name]

    def _from_disk(self, names: Sequence[str]) -> Made | None:
        cache = cache_of(self.device)
        if cache is None or settings.get("POLY_SPEC") or settings.get("POLY_DUMP_KERNELS"):
            return None  # these look at what is generated
        from . import stored

        found = stored.load(cache, self.device, names)
        if found is None:
            return None
        current().counters.disk_hits += 1
        return found[0], loading.load(self.device, found[1])

    def _from_source(self, wanted: Sequence[Wanted], names: Sequence[str]) -> Made:
        from ..codegen import compile_kernel

        target = self.device.target
        linear = [
            compile_kernel(sink, target, name, choice)
            for (sink, choice), name in zip(wanted, names, strict=True)
        ]
        current().counters.kernels_lowered += len(wanted)
        return linear, build(self.device, linear)


Wanted = tuple[UOp, "Choice | None"]  # a canonical sink, and a list in place of the recipe's
Made = tuple[list[LinearProgram], Mapping[str, Any]]
_of_device: weakref.WeakKeyDictionary[Device, Kernels] = weakref.WeakKeyDictionary()
_table_lock = threading.Lock()


def of(device: Device) -> Kernels:
    """The one `Kernels` of an opened device."""
    with _table_lock:
        found = _of_device.get(device)
        if found is None:
            found = _of_device[device] = Kernels(device)
        return found


def forget() -> None:
    """Let go of every kernel that no Plan keeps."""
    with _table_lock:
        some = list(_of_device.values())
    for kernels in some:
        with kernels.lock:
            kernels.known.clear()
            kernels.judged.clear()


def build(device: Device, programs: Sequence[LinearProgram]) -> Mapping[str, Any]:
    """Render, compile (or find on disk) and load `programs` as one module."""
    unique = list({p.name: p for p in programs}.values())
    looking = witness.present
    if looking is None:
        return _built(device, unique)
    looking.makes(device, unique)
    made = _built(device, unique)
    looking.made(device, unique)
    return made


def _built(device: Device, programs: Sequence[LinearProgram]) -> Mapping[str, Any]:
    source = loading.rendered(device, programs)
    if settings.get("POLY_DUMP_KERNELS"):
        _dump(programs, source)
    cache = cache_of(device)
    if cache is None:
        current().counters.kernels_compiled += len(programs)
        return loading.load(device, loading.compiled(device, source))
    from . import keys, stored

    key = keys.of_source(device, source)
    code = cache.get(key)
    if code is None:
        current().counters.kernels_compiled += len(programs)
        binary = loading.compiled(device, source)
        cache.put(key, binary.code)
    else:
        current().counters.disk_hits += 1
        binary = Binary(code, source.entries)
    if binary.entries == source.entries:
        stored.save(cache, device, programs, key, source.entries)
    return loading.load(device, binary)


def _compile_event(
    device: Device, programs: Sequence[LinearProgram], source: str, start: float
) -> CompileEvent:
    from ..hooks.specs import CompileEvent

    names, notes = tuple(p.name for p in programs), tuple(p.note for p in programs)
    return CompileEvent(device.name, names, notes, source, start, perf_counter() - start)


def _dump(programs: Sequence[LinearProgram], source: Source) -> None:
    """What was generated, on standard error: a line about each kernel, then the text of all."""
    for p in programs:
        grid = "x".join(str(g[0]) if len(g) == 1 else str(g) for g in p.grid) or "1"
        size = f"{p.flops} flops, {p.bytes} bytes"
        print(f"# kernel {p.name}: {p.note} | grid {grid}, {size}", file=sys.stderr)
    binary = isinstance(source.code, bytes)
    text = f"# {len(source.code)} bytes of machine code" if binary else source.code
    print(text, file=sys.stderr)


def cache_of(device: Device) -> DiskCache | None:
    """The disk cache, None if there is none, if the device's compiler says that none is needed, or
    if nobody can tell what makes the device's code."""
    if not device.compiler.key:
        return None
    from ..files import diskcache
    from . import keys

    cache = diskcache.default()
    return cache if cache is not None and keys.known(device) else None


# ---- canonical form and name


def canonical(sink: UOp, variables: Sequence[UOp]) -> UOp:
    """`sink` with its variables named v0, v1, … in the order given."""
    renamed = {
        v: UOp(Ops.VARIABLE, v.dtype, (), (f"v{i}", *v.arg[1:3])) for i, v in enumerate(variables)
    }
    return substitute(sink, renamed) if renamed else sink


def content_name(sink: UOp) -> str:
    """`k_` and a hash of what the kernel is: the same in every process."""
    numbers: dict[UOp, int] = {}
    text = hashlib.blake2b(digest_size=10)
    for node in toposort((sink,)):
        numbers[node] = len(numbers)
        sources = [numbers[s] for s in node.src]
        text.update(f"{node.op.name} {node.dtype.name} {node.arg!r} {sources};".encode())
    return f"k_{text.hexdigest()}"
