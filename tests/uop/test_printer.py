"""Nodes as text: bounded on one line, everything in a listing."""

from __future__ import annotations

from polygrad.dtype import dtypes
from polygrad.uop.ops import Ops, UOp
from polygrad.uop.printer import LENGTH, show


def test_index_expressions_read_like_arithmetic() -> None:
    i, n = UOp.range(0, 6, 0), UOp.variable("n", 1, 9)
    assert repr((i * 2 + n) // 3) == "<((n + (r0 * 2)) // 3): index>"
    assert repr(i < 3) == "<(r0 < 3): bool>"


def test_tensors_show_their_shape() -> None:
    x = UOp.buffer(dtypes.float32, (2, 3), "cpu")
    text = repr(x.permute((1, 0)).reduce(Ops.ADD, (0,)))
    assert text == f"<reduce(permute(buffer{x.arg[0]}, (1, 0)), (ADD, (0,))): float32 (2,)>"


def test_the_text_of_any_graph_is_short() -> None:
    u = UOp.variable("x", 0, 1, dtypes.float32)
    wide = [UOp.alu(Ops.SIN, u)]
    for _ in range(60):
        wide.append(UOp.alu(Ops.POW, wide[-1], wide[-1]))
    assert len(repr(wide[-1])) < LENGTH + 40


def test_a_listing_has_each_node_once_with_its_sources() -> None:
    i = UOp.range(0, 6, 0)
    lines = show([i * 4, i * 4 + 1]).splitlines()
    assert len(lines) == 7
    assert lines[-1].split() == ["%6", "add", "index", "[1,", "21]", "%4", "%5"]
