"""Make a failing program small: at most some two hundred tries, each kept if it still fails alike.

Moves, boldest first: keep one output; end at an earlier node; replace a node by an input, or by a
source of its own shape and dtype; replace a dimension everywhere by a smaller one; give inputs
plainer data; turn every float dtype into float32. What is not valid is not tried on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .fuzz_generate import trim
from .fuzz_grammar import Node, Program, known
from .fuzz_judge import FLOATS, Known

TRIES = 200


def reduce(program: Program, fails: Callable[[Program], bool], tries: int = TRIES) -> Program:
    """The smallest program found that still `fails`."""
    left = tries
    improved = True
    while improved and left > 0:
        improved = False
        for candidate in _smaller(program):
            if not _valid(candidate) or candidate == program:
                continue
            left -= 1
            if fails(candidate):
                program, improved = candidate, True
                break
            if left <= 0:
                break
    return program


def _valid(program: Program) -> bool:
    try:
        return all(k.value.size < 100_000 for k in known(program))
    except (ValueError, IndexError, TypeError, OverflowError):
        return False


def _smaller(p: Program) -> Iterator[Program]:
    yield from _outputs(p)
    yield from _cuts(p)
    values = known(p)
    yield from _inputs(p, values)
    yield from _sources(p, values)
    yield from _flat(p, values)
    yield from _dims(p)
    yield from _plain(p)


def _outputs(p: Program) -> Iterator[Program]:
    """One output, a half of them, all but one."""
    n = len(p.outputs)
    if n < 2:
        return
    kept: list[tuple[int, ...]] = [(o,) for o in p.outputs] if n < 4 else []
    kept += [p.outputs[: n // 2], p.outputs[n // 2 :]]
    kept += [p.outputs[:i] + p.outputs[i + 1 :] for i in range(n)]
    for outputs in dict.fromkeys(kept):
        yield trim(p._replace(outputs=outputs))


def _cuts(p: Program) -> Iterator[Program]:
    """End at node i: halves first, then one by one."""
    n = len(p.nodes)
    if len(p.outputs) > 3:
        return
    for i in dict.fromkeys((n // 4, n // 2, 3 * n // 4, *range(n - 1, -1, -1))):
        if 0 <= i < n and p.nodes[i].op != "input" and (i,) != p.outputs:
            yield trim(p._replace(outputs=(i,)))


def _replaced(p: Program, i: int, node: Node) -> Program:
    return trim(p._replace(nodes=(*p.nodes[:i], node, *p.nodes[i + 1 :])))


def _inputs(p: Program, values: list[Known]) -> Iterator[Program]:
    for i in range(len(p.nodes) - 1, -1, -1):
        if p.nodes[i].op == "input" or not p.nodes[i].src:
            continue
        k = values[i]
        for kind in ("integers", "normal"):
            args = {"dtype": k.dtype, "shape": list(k.shape), "kind": kind, "seed": i}
            yield _replaced(p, i, Node("input", (), args))


def _sources(p: Program, values: list[Known]) -> Iterator[Program]:
    """Let those that read node i read one of its sources instead."""
    for i in range(len(p.nodes) - 1, -1, -1):
        for s in p.nodes[i].src:
            if values[s].shape == values[i].shape and values[s].dtype == values[i].dtype:
                nodes = tuple(n._replace(src=_renamed(n.src, i, s)) for n in p.nodes)
                yield trim(Program(nodes, _renamed(p.outputs, i, s)))


def _renamed(numbers: tuple[int, ...], old: int, new: int) -> tuple[int, ...]:
    return tuple(new if s == old else s for s in numbers)


def _flat(p: Program, values: list[Known]) -> Iterator[Program]:
    """Inputs and reshapes with one axis, so that dimensions can shrink on both sides."""
    for i, node in enumerate(p.nodes):
        flat = [int(values[i].value.size)]
        if node.op in ("input", "reshape") and list(node.args["shape"]) != flat:
            yield _replaced(p, i, node._replace(args={**node.args, "shape": flat}))


def _dims(p: Program) -> Iterator[Program]:
    dims = {n for node in p.nodes for n in _numbers(node.args.get("shape", ()))}
    for big in sorted(dims, reverse=True):
        for small in (1, 2, 3, big // 2, big - 1):
            if 0 < small < big:
                yield Program(
                    tuple(n._replace(args=_shrunk(n.args, big, small)) for n in p.nodes), p.outputs
                )


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int) and value > 1:
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from _numbers(v)


def _shrunk(args: dict[str, Any], big: int, small: int) -> dict[str, Any]:
    def change(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [change(v) for v in value]
        return small if value == big and isinstance(value, int) else value

    return {k: change(v) if k in ("shape", "index", "n") else v for k, v in args.items()}


def _plain(p: Program) -> Iterator[Program]:
    for i, node in enumerate(p.nodes):
        if node.op == "input" and node.args["kind"] not in ("integers", "normal"):
            for kind in ("integers", "normal"):
                yield _replaced(p, i, node._replace(args={**node.args, "kind": kind}))
    used = {n.args["dtype"] for n in p.nodes if n.args.get("dtype") in FLOATS}
    if used - {"float32"}:
        yield Program(
            tuple(
                n._replace(args={**n.args, "dtype": "float32"})
                if n.args.get("dtype") in FLOATS
                else n
                for n in p.nodes
            ),
            p.outputs,
        )
