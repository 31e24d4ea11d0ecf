"""LLVM text to machine code, in process through llvmlite.

Programs arrive tiled, vectorized and unrolled, so one pass (SROA: allocas to SSA values) and the
code generator are all that is worth its time: measured, LLVM's O1 and O2 pipelines triple the
compile time of a kernel and change its speed by less than the noise. The result is a relocatable
object, which may come from a disk cache: the key names everything it depends on.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

from polygrad.contract import Binary, Source
from polygrad.errors import CompileError
from polygrad.files import diskcache

from . import elf
from .host import host, let_go, loaded

# Characters of a module after which LLVM is most likely done: it takes 20 ms.
LONG = 1 << 15


class LlvmCompiler:
    """See `polygrad.plugin.Compiler`. Thread-safe: llvmlite holds one lock around LLVM anyway."""

    def __init__(self) -> None:
        import llvmlite

        self.host = host()
        cpu, features, version = self.host.processor, self.host.features, self.host.llvm
        self.key = f"llvmlite-{llvmlite.__version__}-llvm-{version}-{cpu}-{features}"
        self._lock = threading.Lock()

    @cached_property
    def llvm(self) -> Any:
        """llvmlite.binding: loaded when something is compiled, not before."""
        return loaded()

    @cached_property
    def target_machine(self) -> Any:
        return self._create(2)

    @cached_property
    def plain_machine(self) -> Any:
        """Kept: LLVM takes 1 ms to make it, and another for the first module that it meets."""
        return self._create(0)

    def __call__(self, source: Source) -> Binary:
        text = source.code if isinstance(source.code, str) else source.code.decode()
        code = self._object(text, self.target_machine)
        if len(text) >= LONG:
            let_go()
        return Binary(code, source.entries)

    def quickly(self, text: str) -> bytes:
        """An object whose code is plain but made in a quarter of the time; kept on disk."""
        kept = diskcache.default()
        if kept is None:
            return self._object(text, self.plain_machine)
        key = hashlib.sha256(f"{self.key}\0quickly\0{text}".encode()).digest()
        code = kept.get(key)
        if code is None:
            code = self._object(text, self.plain_machine)
            kept.put(key, code)
        return code

    def _create(self, level: int) -> Any:
        return self.llvm.Target.from_default_triple().create_target_machine(
            cpu=self.host.processor, features=self.host.features, opt=level,
            reloc="pic", codemodel="jitdefault", jit=True,
        )  # fmt: skip

    def _object(self, text: str, machine: Any) -> bytes:
        with self._lock:
            return self._emit(text, machine)

    def _emit(self, text: str, machine: Any) -> bytes:
        llvm = self.llvm
        try:
            module = llvm.parse_assembly(text)
            module.triple, module.data_layout = machine.triple, str(machine.target_data)
            tuning = llvm.create_pipeline_tuning_options(speed_level=1)
            builder = llvm.create_pass_builder(machine, tuning)
            passes = llvm.create_new_module_pass_manager()
            passes.add_sroa_pass()
            passes.run(module, builder)
            code: bytes = machine.emit_object(module)
        except RuntimeError as error:
            raise CompileError(f"LLVM refused a generated program: {error}\n{text}") from error
        return code


class Linker:
    """Objects in memory, ready to call; an object leaves memory with its `Linked`."""

    def __init__(self, compiler: LlvmCompiler) -> None:
        self._compiler = compiler
        self._lock = threading.Lock()
        self._count = 0

    @cached_property
    def _jit(self) -> Any:
        return self._compiler.llvm.create_lljit_compiler(self._compiler.target_machine)

    def link(self, code: bytes, symbols: Mapping[str, str]) -> Linked:
        """`symbols`: any name -> symbol. Their addresses come back under the names."""
        image = elf.load(code) if elf.usable() else None
        if image is None or not image.addresses.keys() >= set(symbols.values()):
            return self._link(code, symbols)
        return Linked({name: image.addresses[s] for name, s in symbols.items()}, image)

    def _link(self, code: bytes, symbols: Mapping[str, str]) -> Linked:
        """By LLVM, which knows all kinds of objects."""
        llvm = self._compiler.llvm
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol in symbols.values():
            builder.export_symbol(symbol)
        with self._lock:
            self._count += 1
            try:
                tracker = builder.link(self._jit, f"object{self._count}")
                return Linked({name: tracker[s] for name, s in symbols.items()}, tracker)
            except RuntimeError as error:
                raise CompileError(f"LLVM cannot link a program: {error}") from error


class Linked:
    """Addresses by name. The code stays in memory as long as this object, which holds `owner`."""

    def __init__(self, addresses: Mapping[str, int], owner: Any) -> None:
        self.addresses, self._owner = addresses, owner


@cache
def toolchain() -> tuple[LlvmCompiler, Linker]:
    """The compiler and the linker of this process."""
    compiler = LlvmCompiler()
    return compiler, Linker(compiler)
