"""Where random draws get their numbers from: one key and one counter per runtime.

Element i of a draw is threefry of (key, base + i), and each draw moves the base on by its length,
so the same seed gives the same numbers on every device. Key and base enter the graph as scalars
given at each run, never as constants: drawing again compiles nothing.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

MASK = (1 << 64) - 1


class Draw(NamedTuple):
    """The words of the key and the number of the first element."""

    key0: int
    key1: int
    base: int


class Draws:
    """The generator state of a runtime: 64 bits of key, 64 bits of counter."""

    def __init__(self, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Start anew with the key `seed` (any integer, taken modulo 2**64)."""
        with self._lock:
            self.key, self.counter = seed & MASK, 0

    def take(self, count: int) -> Draw:
        """Reserve `count` elements."""
        with self._lock:
            base = self.counter
            self.counter = (base + count) & MASK
            return Draw(self.key & 0xFFFFFFFF, self.key >> 32, base)

    def give_back(self, base: int, count: int) -> None:
        """Undo the `take` of a call that failed, unless others have taken since."""
        with self._lock:
            if self.counter == (base + count) & MASK:
                self.counter = base

    @property
    def state(self) -> tuple[int, int]:
        return self.key, self.counter

    @state.setter
    def state(self, state: tuple[int, int]) -> None:
        with self._lock:
            self.key, self.counter = state
