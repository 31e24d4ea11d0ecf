"""Random valid tensor programs: proposals drawn until there are enough nodes, then outputs chosen.

Values made recently, and values that nobody reads yet, are preferred as sources, so chains grow
deep and nodes are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import fuzz_grammar as grammar
from . import fuzz_propose as p
from . import fuzz_sequences as s
from .fuzz_builder import Builder
from .fuzz_grammar import Program
from .fuzz_judge import Known

_WEIGHTED: tuple[tuple[float, Callable[[Builder], Any]], ...] = (
    (5, p.unary), (1.5, p.invert), (5, p.pair(list(grammar.BINARY), lambda k: True)),
    (1, p.pair(list(grammar.WHOLE_BINARY), p.is_integer)),
    (1, p.pair(list(grammar.BITS_BINARY), p.is_bits)), (3, p.constant), (1.3, p.whole_constant),
    (6, p.reduction), (7, p.along), (2, p.reshape), (2, p.permute), (1, p.flip), (2.5, p.sliced),
    (1, p.expand), (1.5, p.pad), (1.5, p.join), (1.5, p.cast), (1.5, p.where), (0.5, p.clip),
    (2.5, p.matmul), (1, p.take), (0.7, p.gather), (0.7, p.pool), (0.5, p.conv), (0.5, p.leaf),
    (1, p.assign), (0.5, p.index_add), (1.5, p.arranged), (8, s.normalise),
    (0.7, s.there_and_back), (1.5, s.counted), (1, s.update), (0.8, s.padded), (1, s.decision),
    (1.5, s.journey), (0.7, s.bounded), (0.5, s.layers),
)  # fmt: skip
PROPOSERS = [propose for _, propose in _WEIGHTED]
CHANCES = np.array([weight for weight, _ in _WEIGHTED]) / sum(weight for weight, _ in _WEIGHTED)


def _grow(b: Builder) -> None:
    propose = PROPOSERS[int(b.rng.choice(len(PROPOSERS), p=CHANCES))]
    made = propose(b)
    steps = made if isinstance(made, Iterator) else [made]
    for proposal in steps:
        if proposal is None:
            return
        op, src, args = proposal
        if (
            b.put(op, src, **{k: list(v) if isinstance(v, tuple) else v for k, v in args.items()})
            is None
        ):
            return


def generate(seed: int, without: frozenset[str] = frozenset()) -> Program:
    """The program of this seed: 3 to 40 nodes, more where layers repeat, and 1 to 3 outputs that
    share nodes.

    `without` names operations that it must not use.
    """
    return grown(seed, without)[0]


def grown(seed: int, without: frozenset[str] = frozenset()) -> tuple[Program, list[Known]]:
    """The same with what the judge knows of each node, as it found out on the way."""
    rng = np.random.default_rng(seed)
    b = Builder(rng, without)
    wanted = 3 + int(min(rng.exponential(15.0), 37))
    while b.input() is None:
        pass
    for _ in range(20 * wanted):
        if len(b.nodes) >= wanted:
            break
        _grow(b)
    program = Program(tuple(b.nodes), _outputs(b))
    kept = _needed(program)
    return _only(program, kept), [b.values[i] for i in kept]


def _outputs(b: Builder) -> tuple[int, ...]:
    """What nobody reads, the newest first; now and then something from the middle."""
    computed = [i for i in b.pool if b.nodes[i].op not in ("input", "full", "arange")]
    ends = [i for i in reversed(computed) if i in b.unread]
    outputs = ends[: b.number(1, 3)] or b.pool[-1:]
    if computed and b.chance(0.3):
        outputs = [*outputs[:2], int(b.one(computed))]
    return tuple(dict.fromkeys(outputs))


def trim(program: Program) -> Program:
    """Without what no output needs."""
    return _only(program, _needed(program))


def _needed(program: Program) -> list[int]:
    """The nodes that outputs need. An assignment is needed by whoever reads its target later."""
    needed = set(program.outputs)
    for i in range(len(program.nodes) - 1, -1, -1):
        if i in needed:
            needed.update(program.nodes[i].src)
    return sorted(needed)


def _only(program: Program, kept: list[int]) -> Program:
    """The program of the nodes `kept` alone."""
    numbers = {old: new for new, old in enumerate(kept)}
    nodes = tuple(
        program.nodes[old]._replace(src=tuple(numbers[s] for s in program.nodes[old].src))
        for old in kept
    )
    return Program(nodes, tuple(numbers[o] for o in program.outputs))
