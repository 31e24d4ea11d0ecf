"""Random valid tensor programs: proposals drawn until there are enough nodes, then outputs chosen.

Values made recently, and values that nobody reads yet, are preferred as sources, so chains grow
deep and nodes are shared.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .fuzz_builder import Builder
from .fuzz_grammar import Program
from .fuzz_propose import CHANCES, PROPOSERS


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
    """The program of this seed: 3 to 40 nodes, 1 to 3 outputs that share nodes.

    `without` names operations that it must not use.
    """
    rng = np.random.default_rng(seed)
    b = Builder(rng, without)
    wanted = 3 + int(min(rng.exponential(15.0), 37))
    while b.input() is None:
        pass
    for _ in range(20 * wanted):
        if len(b.nodes) >= wanted:
            break
        _grow(b)
    return trim(Program(tuple(b.nodes), _outputs(b)))


def _outputs(b: Builder) -> tuple[int, ...]:
    """What nobody reads, the newest first; now and then something from the middle."""
    computed = [i for i in b.pool if b.nodes[i].op not in ("input", "full", "arange")]
    ends = [i for i in reversed(computed) if i in b.unread]
    outputs = ends[: b.number(1, 3)] or b.pool[-1:]
    if computed and b.chance(0.3):
        outputs = [*outputs[:2], int(b.one(computed))]
    return tuple(dict.fromkeys(outputs))


def trim(program: Program) -> Program:
    """Without what no output needs. An assignment is needed by whoever reads its target later."""
    needed = set(program.outputs)
    for i in range(len(program.nodes) - 1, -1, -1):
        if i in needed:
            needed.update(program.nodes[i].src)
    numbers = {old: new for new, old in enumerate(sorted(needed))}
    nodes = tuple(
        program.nodes[old]._replace(src=tuple(numbers[s] for s in program.nodes[old].src))
        for old in numbers
    )
    return Program(nodes, tuple(numbers[o] for o in program.outputs))
