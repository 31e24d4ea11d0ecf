"""The lines of a function being printed, in any language.

Unrolled loops print the same index arithmetic many times over: what was printed in this block or
one around it is known by its name.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from polygrad.dtype import DType
from polygrad.uop.ops import Ops


class Value(NamedTuple):
    """What an instruction made: its name in the text, or a constant's text, and its dtype."""

    name: str
    dtype: DType


class Emit(Protocol):
    """Prints one operation of the contract on values."""

    def __call__(self, op: Ops, dtype: DType, *values: Value, arg: object = None) -> Value: ...


class Lines:
    """`entry` stands at the function's head, `lines` after it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.entry: list[str] = []
        self._count = 0
        self._known: dict[str, str] = {}  # what was printed -> its name
        self._scopes: list[list[str]] = [[]]  # per open loop or branch: what became known in it

    def emit(self, text: str) -> None:
        self.lines.append(text)

    def hint(self, text: str) -> None:
        """A statement that adds nothing where it was printed before."""
        if text not in self._known:
            self.emit(self.learn(text, text))

    def learn(self, text: str, name: str) -> str:
        """What prints as `text` is called `name` until the scope ends."""
        self._known[text] = name
        self._scopes[-1].append(text)
        return name

    def enter(self) -> None:
        """A loop or branch begins: what is printed inside is not known after it."""
        self._scopes.append([])

    def leave(self) -> None:
        for text in self._scopes.pop():
            del self._known[text]
