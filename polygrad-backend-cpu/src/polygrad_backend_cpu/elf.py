"""Relocatable objects of x86-64 in memory: what a linker does for code that calls next to nothing.

LLVM links its own objects, but loading LLVM for that alone would be most of what a process takes
whose code lies in the disk cache. Ours are the simplest there are: code and constants that refer to
each other, and a few functions of the C library. Sections go into pages of their own, one after
another, with a table of the addresses of outside functions (the GOT) behind them; then the pages
become executable and stay as they are.

Comes in: an ELF object (System V ABI, chapter 4; its x86-64 supplement, section 4.4). Goes out: an
`Image`, or None for an object with anything that is not known here, which LLVM then links.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from struct import Struct, error
from typing import Final, NamedTuple

_HEADER: Final = Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = Struct("<IIQQQQIIQQ")
_SYMBOL: Final = Struct("<IBBHQQ")
_RELOCATION: Final = Struct("<QQq")
_MAGIC: Final = b"\x7fELF\x02\x01\x01"  # 64 bits, little endian, version 1
_OBJECT, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _REL = 1, 2, 4, 9  # types of sections
_WRITE, _ALLOC, _TLS = 1, 2, 0x400  # flags of sections
_UNDEFINED, _ABSOLUTE, _RESERVED = 0, 0xFFF1, 0xFF00  # sections of symbols


class Unknown(Exception):
    """The object has something that this linker does not know."""


class Section(NamedTuple):
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class Symbol(NamedTuple):
    name: str
    section: int
    value: int


class Place(NamedTuple):
    """What a relocation may ask for: S, A, P, GOT and G as the ABI names them."""

    symbol: Callable[[], int]
    addend: int
    position: int
    table: int
    entry: Callable[[], int]


# type -> (bytes, value): R_X86_64_64, _PC32, _PC64, _GOTOFF64, _GOT64, _GOTPC64
_RULES: Final[Mapping[int, tuple[int, Callable[[Place], int]]]] = {
    1: (8, lambda p: p.symbol() + p.addend),
    2: (4, lambda p: p.symbol() + p.addend - p.position),
    24: (8, lambda p: p.symbol() + p.addend - p.position),
    25: (8, lambda p: p.symbol() + p.addend - p.table),
    27: (8, lambda p: p.entry() + p.addend),
    29: (8, lambda p: p.table + p.addend - p.position),
}


class Image:
    """An object in executable memory, which goes with this."""

    def __init__(self, addresses: Mapping[str, int], pages: mmap.mmap) -> None:
        self.addresses, self._pages = addresses, pages


def usable() -> bool:
    """Whether objects of this machine are such as are known here."""
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def load(code: bytes) -> Image | None:
    """The object in memory, ready to call: addresses of its symbols by name."""
    try:
        return _Loader(code).image()
    except (Unknown, OSError, error, IndexError, ValueError):  # cut off, or no ELF at all
        return None


class _Loader:
    """One object on its way into memory."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        ident, kind, machine, _, _, _, start, _, _, _, _, each, count, _ = _HEADER.unpack_from(code)
        if not ident.startswith(_MAGIC) or (kind, machine) != (_OBJECT, _X86_64):
            raise Unknown
        self.sections = [self._section(start + i * each) for i in range(count)]
        self.symbols = list(self._symbols())
        self.at: dict[int, int] = {}  # section -> where it lies in the image
        end = 0
        for i, section in enumerate(self.sections):
            if section.flags & _ALLOC and section.size:
                if section.kind != _PROGBITS or section.flags & (_WRITE | _TLS):
                    raise Unknown
                end = -(-end // section.align) * section.align if section.align else end
                self.at[i] = end
                end += section.size
        self.table = -(-end // 8) * 8
        self.outside: dict[str, int] = {}  # function -> its place in the table
        for symbol in self.symbols:
            if symbol.section == _UNDEFINED and symbol.name:
                self.outside.setdefault(symbol.name, 8 * len(self.outside))
        self.size = self.table + 8 * len(self.outside)

    def _section(self, start: int) -> Section:
        _, kind, flags, _, offset, size, link, info, align, _ = _SECTION.unpack_from(
            self.code, start
        )
        return Section(kind, flags, offset, size, link, info, align)

    def _symbols(self) -> Iterator[Symbol]:
        for section in self.sections:
            if section.kind != _SYMTAB:
                continue
            names = self.sections[section.link]
            for start in range(section.offset, section.offset + section.size, _SYMBOL.size):
                name, _, _, home, value, _ = _SYMBOL.unpack_from(self.code, start)
                begin = names.offset + name
                text = self.code[begin : self.code.index(b"\0", begin)].decode()
                if home >= _RESERVED and home != _ABSOLUTE:
                    yield Symbol(text, -1, value)  # nothing may ask for it
                else:
                    yield Symbol(text, home, value)

    def image(self) -> Image:
        pages = mmap.mmap(
            -1, max(1, self.size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )  # fmt: skip
        base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        for i, start in self.at.items():
            section = self.sections[i]
            pages[start : start + section.size] = self.code[
                section.offset : section.offset + section.size
            ]
        for name, entry in self.outside.items():
            address = _address_of(name)
            start = self.table + entry
            pages[start : start + 8] = address.to_bytes(8, "little")
        self._relocate(pages, base)
        _make_executable(base, self.size)
        addresses = {
            s.name: base + self.at[s.section] + s.value
            for s in self.symbols
            if s.name and s.section in self.at
        }
        return Image(addresses, pages)

    def _relocate(self, pages: mmap.mmap, base: int) -> None:
        for section in self.sections:
            if section.kind == _REL and section.info in self.at:
                raise Unknown
            if section.kind != _RELA or section.info not in self.at:
                continue
            home = self.at[section.info]
            for start in range(section.offset, section.offset + section.size, _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(self.code, start)
                rule = _RULES.get(info & 0xFFFFFFFF)
                if rule is None:
                    raise Unknown
                width, value = rule
                at = home + offset
                place = self._place(self.symbols[info >> 32], addend, base + at, base)
                try:
                    raw = value(place).to_bytes(width, "little", signed=True)
                except OverflowError:
                    raise Unknown from None  # too far away
                pages[at : at + width] = raw

    def _place(self, symbol: Symbol, addend: int, position: int, base: int) -> Place:
        def value() -> int:
            if symbol.section == _ABSOLUTE:
                return symbol.value
            if symbol.section in self.at:
                return base + self.at[symbol.section] + symbol.value
            raise Unknown

        def entry() -> int:
            if symbol.name not in self.outside:
                raise Unknown
            return self.outside[symbol.name]

        return Place(value, addend, position, base + self.table, entry)


@cache
def _library() -> ctypes.CDLL:
    """Everything that this process has loaded, the C library among it."""
    return ctypes.CDLL(None, use_errno=True)


def _address_of(name: str) -> int:
    """Of an outside function; 0 for the table itself, which is no function."""
    if name == "_GLOBAL_OFFSET_TABLE_":
        return 0
    try:
        return ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise Unknown from None


def _make_executable(address: int, size: int) -> None:
    """From now on nobody can write there."""
    protect = _library().mprotect
    protect.argtypes, protect.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), int
    if protect(address, max(1, size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "mprotect")
