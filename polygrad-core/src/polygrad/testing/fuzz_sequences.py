"""Operations that mean something together: each sequence is drawn as one.

Row 1 of the regime wants fused reductions, updates in place, padding of what is not 0 and index
arithmetic in plenty; drawn one by one their operations would seldom meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import fuzz_grammar as grammar
from .fuzz_builder import INTEGERS, Builder
from .fuzz_propose import Proposal, axes_of, factors, is_integer, is_state

Steps = Iterator[Proposal | None]


def normalise(b: Builder) -> Steps:
    """max, subtract, exp, sum, divide by hand: reductions that fusion should put in one kernel."""
    x = b.pick(lambda k: len(k.shape) > 0 and k.is_float and 0 not in k.shape)
    if x is None:
        return
    axis = (b.number(0, len(b.values[x].shape) - 1),)
    yield "max", (x,), {"axis": axis, "keepdim": True}
    yield "sub", (x, len(b.nodes) - 1), {}
    e = len(b.nodes)
    yield "exp", (e - 1,), {}
    yield "sum", (e,), {"axis": axis, "keepdim": True}
    yield "div", (e, len(b.nodes) - 1), {}


def there_and_back(b: Builder) -> Steps:
    """Integers through a narrower type: what does not fit must be lost."""
    x = b.pick(is_integer)
    if x is not None:
        yield "cast", (x,), {"dtype": str(b.one(("int8", "uint8", "int16", "bool")))}
        yield "cast", (len(b.nodes) - 1,), {"dtype": str(b.one(INTEGERS))}


def bounded(b: Builder) -> Steps:
    """A value of known bounds, and what those bounds decide or just do not."""
    x = b.pick(is_integer)
    if x is None:
        return
    c = b.number(2, 9)
    yield "mod_c", (x,), {"c": c}
    at = len(b.nodes) - 1
    if b.chance(0.7):
        yield b.one(("mod_c", "floordiv_c")), (at,), {"c": max(c + b.number(-1, 1), 1)}
    else:
        yield b.one(("lt_c", "eq_c", "max_c")), (at,), {"c": c + b.number(-2, 0)}


def counted(b: Builder) -> Steps:
    """Arithmetic with positions: masks, triangles, offsets, where the algebra of indices works."""
    x = b.pick(lambda k: len(k.shape) > 0 and k.shape[-1] > 0)
    if x is None:
        return
    dtype = str(b.one(("int32", "int64", "int8", "float32")))
    yield "arange", (), {"n": min(b.values[x].shape[-1], 127), "dtype": dtype}
    at = len(b.nodes) - 1
    if b.chance(0.6):
        name = b.one(("mod_c", "floordiv_c", "mul_c", "sub_c", "c_sub", "add_c"))
        n = b.values[at].value.size  # near it intervals decide
        yield name, (at,), {"c": b.one((max(n - 1, 1), n, min(n + 1, 127), b.number(1, 9)))}
    if b.chance(0.4):
        yield "reshape", (len(b.nodes) - 1,), {"shape": [-1, 1]}
    other = x if b.chance(0.5) else at
    yield b.one(list(grammar.BINARY)), (len(b.nodes) - 1, other), {}


def update(b: Builder) -> Steps:
    """Read a state, give it a new value made of itself, perhaps read the old value again."""
    targets = [i for i in b.pool if is_state(b, i) and b.values[i].value.size > 1]
    if not targets:
        return
    x = int(b.one(targets))
    shape = b.values[x].shape
    if b.chance(0.5):
        yield b.one(("add_c", "mul_c", "sub_c")), (x,), {"c": 2}
    if b.chance(0.5):
        yield "flip", (x,), {"axes": axes_of(b, len(shape))}
    else:
        turned = [[None, None, -1], *[[None, None, None] for _ in shape[1:]]]
        yield "slice", (x,), {"index": turned}
    made = len(b.nodes) - 1
    if b.chance(0.6):
        yield b.one(("add", "sub", "maximum")), (made, x), {}
    if b.chance(0.3):
        yield "sum", (x,), {"axis": [0], "keepdim": True}
        made = len(b.nodes) - 2
    else:
        made = len(b.nodes) - 1
    yield "assign", (x, made), {}


def padded(b: Builder) -> Steps:
    """What is not 0 at 0, inside padding: the zeros around must not go through it."""
    x = b.pick(lambda k: k.is_float and 0 < len(k.shape) < 5)
    if x is None:
        return
    if b.chance(0.5):
        yield b.one(("add_c", "c_sub", "sub_c")), (x,), {"c": 1.5}
    else:
        yield b.one(("exp", "cos", "sigmoid", "exp2")), (x,), {}
    if b.chance(0.3):
        yield b.one(("mul", "add")), (len(b.nodes) - 1, x), {}
    pads = [[b.number(0, 2), b.number(0, 2)] for _ in b.values[x].shape]
    yield "pad", (len(b.nodes) - 1,), {"pads": pads, "value": 0}


def decision(b: Builder) -> Steps:
    """A comparison with ties, turned round as often as not, and what hangs on it."""
    x = b.pick(lambda k: is_integer(k) and k.value.size > 0)
    x = b.input(dtype=str(b.one(INTEGERS))) if x is None else x
    y = None if x is None else b.input(b.values[x].shape, b.values[x].dtype)
    if x is None or y is None:
        return
    yield b.one(("lt", "le", "gt", "ge", "eq", "ne")), (x, y), {}
    if b.chance(0.6):
        yield b.one(("invert", "logical_not")), (len(b.nodes) - 1,), {}
    if b.chance(0.5):
        yield "where", (len(b.nodes) - 1, x, y), {}


def journey(b: Builder) -> Steps:
    """One tensor through several movements, so that their index arithmetic meets."""
    at = b.pick(lambda k: k.value.size > 8)
    for _ in range(b.number(2, 5)):
        if at is None:
            return
        k = b.values[at]
        rank = len(k.shape)
        step = b.one(("reshape", "reshape", "permute", "flip", "slice", "pad"))
        if step == "reshape":
            yield step, (at,), {"shape": factors(b, k.value.size)}
        elif step == "permute":
            yield step, (at,), {"axes": [int(a) for a in b.rng.permutation(rank)]}
        elif rank and step == "flip":
            yield step, (at,), {"axes": axes_of(b, rank)}
        elif rank and step == "slice":
            part = [[b.number(0, min(n // 2, 5)), n, b.number(1, 2)] for n in k.shape]
            yield step, (at,), {"index": part}
        elif rank and step == "pad":
            pads = [[b.number(0, 3), b.number(0, 3)] for _ in k.shape]
            yield step, (at,), {"pads": pads, "value": 0}
        at = len(b.nodes) - 1


# Parts of a layer over floats, then over integers: operations with a weight, without one, and those
# that keep values small, of which each layer has one.
_WITH_WEIGHT = (
    ("add", "sub", "mul", "maximum", "matmul", "matmul", "matmul"),
    ("add", "sub", "mul", "maximum", "matmul", "matmul"),
)
_ALONE = (("relu", "sin", "abs", "neg", "add_c", "mul_c", "flip"), ("add_c", "neg", "flip"))
_SMALL = (("tanh", "sigmoid", "softmax", "layer_norm", "cos", "clip"), ("mod_c", "floordiv_c"))
_FIXED: dict[str, dict[str, Any]] = {
    "flip": {"axes": [1]},
    "softmax": {"axis": 1},
    "layer_norm": {"axis": 1},
    "clip": {"low": -1.0, "high": 2.0},
}
_ODD = ("", "", "", "longer", "number", "shared")  # what is odd about a layer


def layers(b: Builder) -> Steps:
    """A small block several times in a row over weights of its own, which is scheduled once for
    all; often one layer has a part more, another number, or the first one's weights."""
    whole = int(b.chance(0.2))
    dtype, shape = "int32" if whole else b.main, (b.number(1, 9), int(b.one((2, 7, 8, 16))))
    x = b.input(shape, dtype)
    if x is None:
        return
    parts = [b.one(_WITH_WEIGHT[whole]), b.one(_SMALL[whole])]
    for _ in range(b.number(0, 2)):
        parts.insert(b.number(0, 1), b.one((*_WITH_WEIGHT[whole], *_ALONE[whole])))
    c = b.number(2, 9) if whole else float(b.one((0.5, -1.5, 0.1)))
    times, residual = int(b.one((3, 6, 7, 8, 8, 9, 10, 12))), b.chance(0.3)
    at, how = b.number(1, times - 1), b.one(_ODD)
    weights: list[int] = []
    for layer in range(times):
        odd, begin = how if layer == at else "", x
        own = iter(weights if odd == "shared" else ())
        for op in [*parts, "neg"] if odd == "longer" else parts:
            weight = None
            if op in _WITH_WEIGHT[0]:
                size = (shape[1], shape[1]) if op == "matmul" else shape
                weight = next(own, None) or b.input(size, dtype)
                if weight is None:
                    return
                weights.append(weight)
            number = {"c": c + 1 if odd == "number" else c} if op.endswith("_c") else {}
            yield op, (x,) if weight is None else (x, weight), _FIXED.get(op, number)
            x = len(b.nodes) - 1
        if residual:
            yield "add", (begin, x), {}
            x = len(b.nodes) - 1
