"""The Target itself: the least machine, and numbers that fit together."""

from __future__ import annotations

from collections.abc import Iterator

from ...dtype import dtypes
from ...target import Target
from ...uop.ops import Ops
from .check import Check, Subject, expect

LEAST = ("LOAD", "STORE", "ADD", "SUB", "MUL", "CMPLT", "CMPLE", "CMPEQ", "CMPNE", "WHERE", "CAST")


def least_machine(subject: Subject) -> None:
    target = subject.target
    for name in LEAST:
        for dtype in (dtypes.float32, dtypes.int32):
            listed = target.supports(Ops[name], dtype)
            expect(listed, f"the target lists no {name} of {dtype.name}")
    for op in (Ops.DIV, Ops.SQRT):
        expect(target.supports(op, dtypes.float32), f"the target lists no {op.name} of float32")
    for op in (Ops.AND, Ops.OR, Ops.XOR, Ops.NOT):
        for dtype in (dtypes.int32, dtypes.uint32, dtypes.bool):
            expect(target.supports(op, dtype), f"the target lists no {op.name} of {dtype.name}")
    expect(target.max_buffers >= 4, "a kernel needs at least 4 buffers")


def sizes(subject: Subject) -> None:
    t = subject.target
    expect(t.align > 0 and t.align & (t.align - 1) == 0, f"align {t.align} is no power of two")
    expect(t.cores >= 1 and t.registers >= 1 and t.cache_bytes, "cores, registers, caches")
    vector = t.vector_bytes
    expect(vector == 0 or vector & (vector - 1) == 0, f"vector_bytes {vector} is no power of two")
    if vector:
        wide = vector in t.memory_bytes
        expect(wide, f"memory_bytes {t.memory_bytes} lacks a whole vector of {vector}")
    expect(all(n > 0 for n in (*t.max_grid, *t.max_block)), "max_grid and max_block")
    expect(t.name and t.arch, "name and arch")


def same_name(subject: Subject) -> None:
    name = subject.name.partition(":")[0]
    expect(subject.target.name == name, f"the target is called {subject.target.name!r}")
    expect(subject.device.name == subject.name, f"the device is called {subject.device.name!r}")
    same = subject.device.renderer.target is subject.device.target
    expect(same, "the renderer has another Target than the device")


def checks(target: Target) -> Iterator[Check]:
    for function in (least_machine, sizes, same_name):
        yield Check(f"limits/{function.__name__}", function)
