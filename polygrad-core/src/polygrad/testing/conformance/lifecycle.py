"""Opening, closing, copying, threads, forks; and what the renderer and the compiler promise."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...contract import Source
from ...device import loading
from ...dtype import dtypes
from ...errors import CompileError, DeviceForked, UnsupportedOp
from ...target import Target
from ...uop.ops import Ops
from ..assembler import Assembler
from .check import Check, Subject, expect, expect_equal, expect_raises
from .programs import branch, row_sums


def close_twice(subject: Subject) -> None:
    """A device of its own number, opened beside the one under test, closed twice."""
    extra = type(subject.device).open(0, {})
    try:
        extra.allocator.free(extra.allocator.alloc(64))
    finally:
        extra.close()
        extra.close()
    expect_equal(len(subject.run(*_sample())), 2, "buffers after another device was closed")


def _sample() -> tuple[Any, ...]:
    sample = row_sums()
    return (sample.program, *sample.contents)


def pickles(subject: Subject) -> None:
    """A device is pickled by name; the copy is the same object."""
    device = subject.device
    expect(pickle.loads(pickle.dumps(device)) is device, "a pickled device is another object")
    expect(copy.copy(device) is device, "a copied device is another object")


def threads(subject: Subject) -> None:
    """Eight threads render, compile and launch at once."""
    wanted = subject.run(*_sample())
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: subject.run(*_sample()), range(32)):
            expect(got == wanted, "a launch from a thread gives something else")


def forked(subject: Subject) -> None:
    """In a fork the device refuses to be used."""
    if not hasattr(os, "fork"):
        return
    import warnings

    subject.device.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads
        process = os.fork()
    if process == 0:
        status = 1
        try:
            subject.device.synchronize()
        except DeviceForked:
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(process, 0)
    expect_equal(ended, 0, "the status of a fork that uses the device")


def refuses(subject: Subject) -> None:
    """A program with an operation that the target does not list is no crash but UnsupportedOp."""
    lacking = [op for op in (Ops.SIN, Ops.EXP2, Ops.LOG2) if op not in subject.target.ops]
    if not lacking:
        return
    a = Assembler("k_refused")
    x, zero = a.param(dtypes.float32, 1, "rw"), a.number(0)
    a.store(x, zero, a.emit(lacking[0], dtypes.float32, (a.load(x, zero),)))
    device = subject.device
    with expect_raises(UnsupportedOp, what=f"rendering {lacking[0].name}"):
        loading.made(device, [a.build()])


def broken_source(subject: Subject) -> None:
    """Text that means nothing is a CompileError, with what the tool says."""
    device = subject.device
    if not device.compiler.key:
        return  # nothing is compiled: the text is what runs
    good = device.renderer.render([branch().program])
    code: Any = good.code
    broken = code[: len(code) // 2] + ("\n)]}" if isinstance(code, str) else b"\xff\x00\xff")
    with expect_raises(CompileError, what="compiling half of a source"):
        loading.load(device, device.compiler(Source(broken, good.entries)))


def keys(subject: Subject) -> None:
    """Keys are text, and equal for equal devices: kernels on disk are found by them."""
    device = subject.device
    expect(isinstance(device.renderer.key, str) and device.renderer.key, "renderer.key is empty")
    again = type(device).open(0, {})
    try:
        expect_equal(again.renderer.key, device.renderer.key, "renderer.key of a second device")
        expect_equal(again.compiler.key, device.compiler.key, "compiler.key of a second device")
    finally:
        again.close()


def same_binary(subject: Subject) -> None:
    """The same source compiles to the same bytes, and another process may load them."""
    device = subject.device
    program = branch().program
    with subject.explained(program):
        source = loading.rendered(device, [program])
        first, second = (loading.compiled(device, source) for _ in range(2))
        expect(first.code == second.code, "the same source compiles to different bytes")
        expect_equal(dict(first.entries), dict(second.entries), "the entries of a binary")


def checks(target: Target) -> Iterator[Check]:
    for function in (
        close_twice, pickles, threads, forked, refuses, broken_source, keys, same_binary,
    ):  # fmt: skip
        yield Check(f"lifecycle/{function.__name__}", function)
