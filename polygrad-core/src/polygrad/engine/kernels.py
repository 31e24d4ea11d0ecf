"""Programs of one device: a canonical kernel becomes a loaded program once.

A kernel's identity is its `SINK`: nodes are hash-consed, so equal kernels are the same object and
twelve equal layers are lowered and compiled once. Names of variables play no part: they are
numbered first. All kernels that a schedule needs and that are new go to the toolchain as one
module, through the disk cache.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..contract import Binary, LinearProgram, Source
from ..plugin import Device
from ..uop.ops import Ops, UOp, toposort
from ..uop.rewrite import substitute
from .counters import counters

CAPACITY = 4096  # kernels kept per device; the least recently used is forgotten first


class Kernel(NamedTuple):
    """A program for people (`linear`) and for the machine (`program`)."""

    linear: LinearProgram
    program: Any


class Kernels:
    """The kernels of one opened device. Safe from several threads."""

    def __init__(self, device: Device) -> None:
        self.device = weakref.proxy(device)  # the table below is keyed weakly by the device
        self.lock = threading.RLock()
        self.known: OrderedDict[UOp, Kernel] = OrderedDict()

    def get(self, sinks: Sequence[UOp]) -> list[Kernel]:
        """One kernel per canonical sink, in order; new ones are compiled together."""
        with self.lock:
            new = [s for s in dict.fromkeys(sinks) if s not in self.known]
            if new:
                self._compile(new)
            for sink in sinks:
                self.known.move_to_end(sink)
            found = [self.known[s] for s in sinks]
            while len(self.known) > CAPACITY:
                self.known.popitem(last=False)
            return found

    def _compile(self, sinks: Sequence[UOp]) -> None:
        from ..codegen import compile_kernel

        target = self.device.target
        linear = [compile_kernel(s, target, content_name(s)) for s in sinks]
        counters.kernels_lowered += len(sinks)
        programs = build(self.device, linear)
        for sink, one in zip(sinks, linear, strict=True):
            self.known[sink] = Kernel(one, programs[one.name])


_of_device: weakref.WeakKeyDictionary[Device, Kernels] = weakref.WeakKeyDictionary()
_table_lock = threading.Lock()


def of(device: Device) -> Kernels:
    """The one `Kernels` of an opened device."""
    with _table_lock:
        found = _of_device.get(device)
        if found is None:
            found = _of_device[device] = Kernels(device)
        return found


def build(device: Device, programs: Sequence[LinearProgram]) -> Mapping[str, Any]:
    """Render, compile (or find on disk) and load `programs` as one module."""
    unique = {p.name: p for p in programs}
    source = device.renderer.render(list(unique.values()))
    return device.load(_compiled(device, source, len(unique)))


def _compiled(device: Device, source: Source, count: int) -> Binary:
    from . import diskcache

    cache = diskcache.default() if device.compiler.key else None
    if cache is None:
        counters.kernels_compiled += count
        return device.compiler(source)
    key = diskcache.key_of(device, source)
    code = cache.get(key)
    if code is not None:
        counters.disk_hits += 1
        return Binary(code, source.entries)
    binary = device.compiler(source)
    counters.kernels_compiled += count
    if binary.entries == source.entries:  # entries are not stored
        cache.put(key, binary.code)
    return binary


# ---- canonical form and name


def canonical(sink: UOp, variables: Sequence[UOp]) -> UOp:
    """`sink` with its variables named v0, v1, … in the order given."""
    renamed = {
        v: UOp(Ops.VARIABLE, v.dtype, (), (f"v{i}", *v.arg[1:])) for i, v in enumerate(variables)
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
