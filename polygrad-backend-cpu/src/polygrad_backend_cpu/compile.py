"""LLVM text to machine code, in process through llvmlite.

Programs arrive tiled, vectorized and unrolled, so one pass (SROA: allocas to SSA values) and the
code generator are all that is worth its time: measured, LLVM's O1 and O2 pipelines triple the
compile time of a kernel and change its speed by less than the noise. The result is a relocatable
object, which may come from a disk cache: the key names everything it depends on.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

from polygrad.contract import Binary, Source
from polygrad.errors import CompileError


@cache
def _machine() -> tuple[Any, str, str]:
    """(llvmlite.binding, host processor, host features), LLVM initialised for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the executor pauses by inline assembly
    return llvm, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


class LlvmCompiler:
    """See `polygrad.plugin.Compiler`. Thread-safe: llvmlite holds one lock around LLVM anyway."""

    def __init__(self) -> None:
        import llvmlite

        self.llvm, cpu, features = _machine()
        version = ".".join(map(str, self.llvm.llvm_version_info))
        self.key = f"llvmlite-{llvmlite.__version__}-llvm-{version}-{cpu}-{features}"
        self._processor = cpu, features
        self.target_machine = self._create(2)
        self._lock = threading.Lock()

    def __call__(self, source: Source) -> Binary:
        text = source.code if isinstance(source.code, str) else source.code.decode()
        return Binary(self._object(text, self.target_machine), source.entries)

    def quickly(self, text: str) -> bytes:
        """An object whose code is plain but made in a quarter of the time."""
        return self._object(text, self._create(0))

    def _create(self, level: int) -> Any:
        cpu, features = self._processor
        return self.llvm.Target.from_default_triple().create_target_machine(
            cpu=cpu, features=features, opt=level, reloc="pic", codemodel="jitdefault", jit=True
        )

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
        self.llvm = compiler.llvm
        self._jit = self.llvm.create_lljit_compiler(compiler.target_machine)
        self._lock = threading.Lock()
        self._count = 0

    def link(self, code: bytes, symbols: Mapping[str, str]) -> Linked:
        """`symbols`: any name -> symbol. Their addresses come back under the names."""
        builder = self.llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
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
    """Addresses by name. The code stays in memory as long as this object."""

    def __init__(self, addresses: Mapping[str, int], tracker: Any) -> None:
        self.addresses, self._tracker = addresses, tracker


@cache
def toolchain() -> tuple[LlvmCompiler, Linker]:
    """The compiler and the linker of this process."""
    compiler = LlvmCompiler()
    return compiler, Linker(compiler)
