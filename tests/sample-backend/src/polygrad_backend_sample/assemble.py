"""The assembler: text to bytecode, and bytecode back to what the machine steps through.

An instruction is one byte of operation, a byte each of dtype and lanes, a byte that counts the
operands, and the operands: whole numbers of four bytes, floats of eight. A loop and a branch hold
the number of the instruction that closes them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from polygrad.contract import Binary, Source
from polygrad.errors import CompileError

MAGIC = b"SMPL1\n"
NAMES = [
    "const", "grid", "variable", "local", "load", "store", "loop", "end", "if", "endif", "add",
    "sub", "mul", "neg", "min", "max", "div", "sqrt", "idiv", "imod", "shl", "shr", "and", "or",
    "xor", "not", "where", "cmplt", "cmple", "cmpeq", "cmpne", "cast", "bitcast", "broadcast",
    "vector", "extract", "shuffle", "lanes",
]  # fmt: skip
KINDS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "")
CLOSES = {"end": "loop", "endif": "if"}
PLACE = {"p": 0, "m": 1}


class Code(NamedTuple):
    """One instruction: `out` is its register, `operands` whole numbers, `value` a constant."""

    name: str
    kind: str
    lanes: int
    out: int
    operands: tuple[int, ...]
    value: tuple[float, ...] = ()


class Module(NamedTuple):
    name: str
    registers: int
    params: int
    code: list[Code]


class Assembler:
    """The device's compiler."""

    key = "sample-as-1"

    def __call__(self, source: Source) -> Binary:
        text = source.code if isinstance(source.code, str) else source.code.decode()
        modules: list[list[str]] = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("program "):
                modules.append([])
            elif not modules:
                raise CompileError(f"line {number}: {line!r} stands before any program")
            modules[-1].append(line)
        return Binary(MAGIC + b"".join(map(_module, modules)), source.entries)


def _module(lines: list[str]) -> bytes:
    try:
        _, name, registers, params, *_ = lines[0].split()
        code = [_instruction(line) for line in lines[1:]]
        _match(code)
        body = b"".join(map(_packed, code))
        head = struct.pack("<IIII", len(name), int(registers), int(params), len(code))
        return head + name.encode() + struct.pack("<I", len(body)) + body
    except (ValueError, IndexError, KeyError, struct.error) as error:
        raise CompileError(f"sample-as: program {lines[0][:60]!r}: {error}") from error


def _instruction(line: str) -> Code:
    left, equals, right = line.rpartition(" = ")
    out = int(left[1:]) if equals else -1
    name, *words = right.split()
    if name not in NAMES:
        raise ValueError(f"no instruction {name!r} in {line!r}")
    kind, lanes = "", 1
    if name not in ("if", "end", "endif"):
        kind, _, count = words.pop(0).partition("x")
        lanes = int(count or 1)
    if kind not in KINDS:
        raise ValueError(f"no dtype {kind!r} in {line!r}")
    if name == "const":
        values = words[0].split(",")
        read = float.fromhex if kind == "float32" else int
        return Code(name, kind, lanes, out, (), tuple(read(v) for v in values))
    return Code(name, kind, lanes, out, tuple(n for w in words for n in _operands(w)))


def _operands(word: str) -> list[int]:
    """A register's number; a place as (space, number); a dtype or an operation by its position."""
    if word in KINDS:
        return [KINDS.index(word)]
    if word in NAMES:
        return [NAMES.index(word)]
    if word[0] in PLACE and word[1:].isdigit():
        return [PLACE[word[0]], int(word[1:])]
    return [int(part) for part in word.removeprefix("r").split(",")]


def _match(code: list[Code]) -> None:
    """Tell loops and branches where they end, and their ends where they begin."""
    opened: list[int] = []
    for i, one in enumerate(code):
        if one.name in ("loop", "if"):
            opened.append(i)
        elif one.name in CLOSES:
            start = opened.pop()
            if code[start].name != CLOSES[one.name]:
                raise ValueError(f"instruction {i} closes a {code[start].name}")
            code[start] = code[start]._replace(operands=(*code[start].operands, i))
            code[i] = one._replace(operands=(start,))
    if opened:
        raise ValueError(f"instruction {opened[-1]} is never closed")


def _packed(one: Code) -> bytes:
    head = struct.pack(
        "<BBBBiB", NAMES.index(one.name), KINDS.index(one.kind), one.lanes, len(one.operands),
        one.out, len(one.value),
    )  # fmt: skip
    rest = struct.pack(f"<{len(one.operands)}i", *one.operands)
    return head + rest + struct.pack(f"<{len(one.value)}d", *one.value)


def disassemble(binary: bytes) -> list[Module]:
    """The programs of a binary."""
    if not binary.startswith(MAGIC):
        raise CompileError("sample: this is no binary of the sample machine")
    at, modules = len(MAGIC), []
    while at < len(binary):
        length, registers, params, count = struct.unpack_from("<IIII", binary, at)
        name = binary[at + 16 : at + 16 + length].decode()
        at += 20 + length
        code = []
        for _ in range(count):
            op, kind, lanes, operands, out, values = struct.unpack_from("<BBBBiB", binary, at)
            at += 9
            numbers = struct.unpack_from(f"<{operands}i", binary, at)
            at += 4 * operands
            value = struct.unpack_from(f"<{values}d", binary, at)
            at += 8 * values
            code.append(Code(NAMES[op], KINDS[kind], lanes, out, numbers, value))
        modules.append(Module(name, registers, params, code))
    return modules
