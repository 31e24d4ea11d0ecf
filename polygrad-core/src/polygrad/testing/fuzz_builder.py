"""A random program under construction: what may be read next, and what is worth keeping.

Each node is evaluated with the judge as it is added, so shapes, dtypes and magnitudes are always
known: a proposal that is not valid, too large, or mostly infinite or undecidable is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import fuzz_grammar as grammar
from .fuzz_grammar import Node
from .fuzz_judge import FLOATS, Known

DIMS = (0, 1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 64, 65, 129)
LARGEST_TENSOR = 2500  # elements
LARGEST_WORK = 120_000  # multiply-adds of one contraction
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_KINDS = ("normal", "positive", "integers", "quarters", "special")
_LIMIT = {"float16": 1e3, "bfloat16": 1e6, "float32": 1e9, "float64": 1e12}


class Builder:
    """A program under construction."""

    def __init__(self, rng: np.random.Generator, without: frozenset[str] = frozenset()) -> None:
        self.rng, self.without = rng, without
        self.nodes: list[Node] = []
        self.values: list[Known] = []
        self.pool: list[int] = []  # what may still be read: not what an assignment replaced
        self.unread: set[int] = set()
        self.main = str(rng.choice(FLOATS, p=(0.08, 0.07, 0.7, 0.15)))
        self.special = rng.random() < 0.1

    # ---- choices

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def one(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, fits: Callable[[Known], bool] = lambda k: True) -> int | None:
        """A source, the newer the likelier; often one that nobody reads yet."""
        found = [i for i in self.pool if fits(self.values[i])]
        if not found:
            return None
        if self.chance(0.6):
            found = [i for i in found if i in self.unread] or found
        return found[-1 - min(int(self.rng.exponential(3.0)), len(found) - 1)]

    def dtype(self) -> str:
        if self.chance(0.7):
            return self.main
        return str(self.one((*FLOATS, *INTEGERS, "bool")))

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.number(0, 4) if rank is None else rank
        while True:
            dims = [int(self.one(DIMS)) for _ in range(rank)]
            if 0 in dims and self.chance(0.9):
                continue
            if math.prod(dims) <= LARGEST_TENSOR:
                return tuple(dims)

    # ---- growth

    def put(self, op: str, src: tuple[int, ...] = (), **args: Any) -> int | None:
        """Add a node if the judge finds it worth having; its number, or None."""
        if op in self.without:
            return None
        node = Node(op, src, args)
        try:
            value = grammar.step(node, self.values)
        except (ValueError, IndexError):
            return None
        if not self._worth(value, [self.values[s] for s in src]):
            return None
        self.nodes.append(node)
        self.values.append(value)
        if grammar.OPS[op].statement:
            self.pool.remove(src[0])
        self.pool.append(len(self.nodes) - 1)
        self.unread.difference_update(src)
        self.unread.add(len(self.nodes) - 1)
        return len(self.nodes) - 1

    def _worth(self, k: Known, sources: list[Known]) -> bool:
        if k.value.size > LARGEST_TENSOR or len(k.shape) > 6:
            return False
        if not k.value.size:
            return True
        if np.isinf(k.error).mean() > 0.1:
            return False
        if not k.is_float:
            return True
        finite = np.isfinite(k.value)
        if finite.mean() < (0.6 if self.special else 0.9):
            return False
        if not finite.any():
            return False
        size = np.abs(k.value[finite]).max()
        # What is all rounding error tests nothing.
        noise = k.error[finite] > 0.25 * np.abs(k.value[finite]) + 1e-3 * size
        return bool(size <= _LIMIT[k.dtype] and noise.mean() < 0.5)

    def input(self, shape: Sequence[int] | None = None, dtype: str | None = None) -> int | None:
        dtype = dtype or self.dtype()
        kinds = _KINDS if self.special else _KINDS[:-1]
        return self.put(
            "input",
            dtype=dtype,
            shape=list(self.shape() if shape is None else shape),
            kind=str(self.one(kinds)),
            seed=self.number(0, 999),
        )

    def partner(self, i: int) -> int | None:
        """Something that broadcasts with `i`: from the pool, or a new input."""
        shape = self.values[i].shape

        def fits(k: Known) -> bool:
            try:
                joint = np.broadcast_shapes(shape, k.shape)
            except ValueError:
                return False
            return math.prod(joint) <= LARGEST_TENSOR

        found = self.pick(fits) if self.chance(0.7) else None
        if found is not None:
            return found
        cut = self.number(0, len(shape)) if self.chance(0.3) else 0
        thin = [1 if self.chance(0.3) else n for n in shape[cut:]]
        return self.input(thin, self.values[i].dtype if self.chance(0.7) else None)
