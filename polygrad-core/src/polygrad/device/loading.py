"""Loading what a compiler made: every kernel becomes a program, or an error says which did not.

A compiler may accept half a source, and a driver that misses a symbol says so in words of its own.
Whoever loads a Binary comes through here, so that such an error names device, kernel and symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..contract import Binary, LinearProgram, Source
from ..errors import CompileError, DeviceContractError, PolygradError, one, pass_on, told
from ..plugin import Device, Program

SHOWN = 3  # kernels named in an error; a module may have hundreds


def load(device: Device, binary: Binary) -> Mapping[str, Program]:
    """The program of each entry of `binary`, by kernel. Raises CompileError."""
    entries = binary.entries
    try:
        programs = device.load(binary)
    except (PolygradError, MemoryError):
        raise
    except BaseException as error:
        pass_on(error)
        raise CompileError(
            f"device {device.name!r}: load() raised {told(error)}, for {_named(entries)}.{_HINT}"
        ) from error
    if not isinstance(programs, Mapping):
        raise DeviceContractError(
            f"device {device.name!r}: load() gave {_a(programs)}, expected kernel names and"
            " programs."
        )
    missing = {name: symbol for name, symbol in entries.items() if name not in programs}
    if missing:
        raise CompileError(
            f"device {device.name!r}: load() gave no program for {_named(missing)}: its compiler"
            f" accepted the source without it.{_HINT}"
        )
    for name in entries:
        if not callable(programs[name]):
            raise DeviceContractError(
                f"device {device.name!r}: load() gave {_a(programs[name])} for kernel {name!r},"
                " expected a program, which can be called."
            )
    return programs


def made(device: Device, programs: Sequence[LinearProgram]) -> Mapping[str, Program]:
    """`programs` rendered, compiled and loaded, without any cache."""
    return load(device, compiled(device, rendered(device, programs)))


def rendered(device: Device, programs: Sequence[LinearProgram]) -> Source:
    """What the renderer makes of `programs`. Raises DeviceContractError where it is no source of
    them, or the renderer's own error."""
    made = device.renderer.render(programs)
    _expect(f"device {device.name!r}: render()", made, Source, [p.name for p in programs])
    return made


def compiled(device: Device, source: Source) -> Binary:
    """What the compiler makes of `source`. Raises DeviceContractError where it is no binary of all
    its kernels, or the compiler's own error."""
    made = device.compiler(source)
    _expect(f"device {device.name!r}: its compiler", made, Binary, source.entries)
    return made


def _expect(who: str, made: object, kind: type[Source | Binary], names: Iterable[str]) -> None:
    """Raise DeviceContractError unless `made` is of the kind and has an entry for each name."""
    code = bytes if kind is Binary else (str, bytes)
    if not isinstance(made, kind):
        raise DeviceContractError(f"{who} gave {_a(made)}, expected {one(kind.__name__)}.")
    if not isinstance(made.code, code) or not isinstance(made.entries, Mapping):
        raise DeviceContractError(
            f"{who} gave a {kind.__name__} of {_a(made.code)} and {_a(made.entries)}, expected"
            f" {'' if kind is Binary else 'str or '}bytes and a mapping of names."
        )
    lacking = [name for name in names if name not in made.entries]
    if lacking:
        some = ", ".join(f"kernel {name!r}" for name in lacking[:SHOWN])
        raise DeviceContractError(
            f"{who} gave a {kind.__name__} without an entry for {some}: each kernel has one."
        )


def _a(value: object) -> str:
    return one(type(value).__name__)


_HINT = "\nPOLY_DUMP_KERNELS=1 POLY_CACHE=0 compiles anew and prints the source."


def _named(entries: Mapping[str, str]) -> str:
    """`kernel 'k_1' (symbol 'k_1')`, the first few of them."""
    some = [f"kernel {n!r} (symbol {s!r})" for n, s in list(entries.items())[:SHOWN]]
    more = [f"{len(entries) - SHOWN} more"] if len(entries) > SHOWN else []
    return ", ".join([*some, *more]) or "a source without kernels"
