"""Code for other processors: `polygrad compile --target cpu:x86_64-v3 net.pgb`.

A level of x86-64 is a processor to LLVM, and the table below says which of the features that code
generation asks about it has (x86-64 psABI, "Micro-Architecture Levels"). Without a name the code is
for this machine.
"""

from __future__ import annotations

from typing import Any

from polygrad.contract import Binary, Source
from polygrad.errors import ArgumentError, CompileError, no_such
from polygrad.plugin import CrossTools

from .render import LlvmRenderer, host_renderer
from .target import host_target, make_target

_V3 = ("sse4.1", "avx2", "fma", "f16c")
# arch -> (LLVM's triple, LLVM's processor, features)
MACHINES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "x86_64": ("x86_64-unknown-linux-gnu", "x86-64", ()),
    "x86_64-v2": ("x86_64-unknown-linux-gnu", "x86-64-v2", ("sse4.1",)),
    "x86_64-v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", _V3),
    "x86_64-v4": (
        "x86_64-unknown-linux-gnu",
        "x86-64-v4",
        (*_V3, "avx512f", "avx512vl", "avx512bw", "avx512dq"),
    ),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", ()),
}


class CrossCompiler:
    """LLVM text to a relocatable ELF object for one of `MACHINES`."""

    def __init__(self, triple: str, processor: str) -> None:
        import llvmlite
        import llvmlite.binding as llvm

        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        self.llvm = llvm
        self.key = f"llvmlite-{llvmlite.__version__}-{triple}-{processor}"
        self.machine: Any = llvm.Target.from_triple(triple).create_target_machine(
            cpu=processor, opt=2, reloc="pic"
        )

    def __call__(self, source: Source) -> Binary:
        text = source.code if isinstance(source.code, str) else source.code.decode()
        try:
            module = self.llvm.parse_assembly(text)
            module.triple, module.data_layout = self.machine.triple, str(self.machine.target_data)
            return Binary(self.machine.emit_object(module), source.entries)
        except RuntimeError as error:
            raise CompileError(f"LLVM refused a generated program: {error}\n{text}") from error


def cross(arch: str) -> CrossTools:
    """Renderer and compiler for a machine that need not be here. Raises ArgumentError."""
    if not arch:
        target = host_target()
        from .compile import toolchain

        return CrossTools(target, host_renderer(target), toolchain()[0])
    if arch not in MACHINES:
        raise ArgumentError(no_such("machine of the cpu device", arch, MACHINES))
    triple, processor, features = MACHINES[arch]
    target = make_target(arch, frozenset(features))
    halves = "f16c" in features
    return CrossTools(target, LlvmRenderer(target, halves), CrossCompiler(triple, processor))
