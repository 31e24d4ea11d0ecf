"""Mistakes in sizes that vary."""

from __future__ import annotations

from polygrad.errors import ArgumentError, IndexError_, ShapeError, StateError, VaryingSize

from .mistake import Chapter, Mistake

PRELUDE = """\
n, m = Variable("n", 1, 32), Variable("m", 1, 16)
x = Tensor.ones(32, 8)
y = x[: n.bind(5)]"""

_WAY_OUT = (
    " pad_to(…) makes a size constant at its bound (mask what lies beyond it), a slice by an"
    " integer at one value."
)

MISTAKES = (
    Mistake(
        "a value outside the bounds",
        "n.bind(33)",
        ArgumentError,
        "Variable 'n' is between 1 and 32, not 33.",
        "n.bind(32)",
    ),
    Mistake(
        "a value that is no integer",
        "n.bind(2.5)",
        ArgumentError,
        "Variable 'n': a value is an integer, not 2.5.",
        "n.bind(2)",
    ),
    Mistake(
        "bounds the wrong way round",
        'Variable("k", 8, 1)',
        ArgumentError,
        "Variable 'k': bounds are integers 0 <= min <= max < 2**31, not 8 and 1.",
        'Variable("k", 1, 8)',
    ),
    Mistake(
        "reading a variable without value",
        "x[:n].sum().item()",
        StateError,
        "the variable 'n' has no value: bind one, as n.bind(5).",
        "x[: n.bind(3)].sum().item()",
    ),
    Mistake(
        "sizes of two variables",
        "y + x[: m.bind(5)]",
        ShapeError,
        "add: shapes (n[1..32]=5, 8) and (m[1..16]=5, 8) do not broadcast: axis -2 is n[1..32]=5"
        " and m[1..16]=5.",
        "y + x[: n.bind(5)]",
    ),
    Mistake(
        "a size that varies and a number",
        "y + x[:5]",
        ShapeError,
        "add: shapes (n[1..32]=5, 8) and (5, 8) do not broadcast: axis -2 is n[1..32]=5 and 5.",
        "y + x[: y.shape[0]]",
    ),
    Mistake(
        "two values in one graph",
        "(y.sum(0) + x[: n.bind(6)].sum(0)).tolist()",
        ArgumentError,
        "the variable 'n' is bound to 5 and to 6 in one graph; use another variable for one of"
        " them, or realize() it before.",
        "(y.sum(0) + x[: m.bind(6)].sum(0)).tolist()",
    ),
    Mistake(
        "two variables of one name",
        'y.sum(0).add(x[: Variable("n", 1, 8).bind(5)].sum(0)).tolist()',
        ArgumentError,
        "two variables of one graph are named 'n'; rename one.",
    ),
    Mistake(
        "an index beyond the least size",
        "y[3]",
        IndexError_,
        "index 3 may lie outside axis 0 of shape (n[1..32]=5, 8); give its variable bounds that"
        " keep it inside.",
        "y[-1]",
    ),
    Mistake(
        "a variable beyond the axis",
        'x[Variable("i", 0, 40).bind(2)]',
        IndexError_,
        "index i[0..40]=2 may lie outside axis 0 of shape (32, 8); give its variable bounds that"
        " keep it inside.",
        'x[Variable("i", 0, 31).bind(2)]',
    ),
    Mistake(
        "sorting along an axis that varies",
        "y.sort(0)",
        VaryingSize,
        "sort: axis 0 of shape (n[1..32]=5, 8) varies, and whether n[1..32]=5 is less than 8 is not"
        f" known before it runs.{_WAY_OUT}",
        "x[:5].sort(0)",
    ),
    Mistake(
        "pieces of an axis that varies",
        "y.unbind(0)",
        VaryingSize,
        "unbind: axis 0 of shape (n[1..32]=5, 8) varies, and a constant is needed, not"
        f" n[1..32]=5.{_WAY_OUT}",
        "y.unbind(1)",
    ),
    Mistake(
        "an extreme of perhaps nothing",
        "y[1:].max(0)",
        ShapeError,
        "max of (n - 1)[0..31]=4 elements, which may be none: give the variable of shape"
        " ((n - 1)[0..31]=4, 8) a lower bound that leaves some.",
        "y.max(0)",
    ),
    Mistake(
        "a function compiled for another variable",
        "f = jit(lambda t: t.sum(0))\nf(y)\nf(x[: m.bind(5)])",
        ArgumentError,
        "jit of <lambda>: argument 't' is float32 (m[1..16], 8) on '{device}', but was captured as"
        " float32 (n[1..32], 8) on '{device}'.\nA jit function has one set of shapes, dtypes and"
        " devices; polygrad.compile captures again for each.",
        "f(x[: n.bind(20)])",
    ),
)

CHAPTER = Chapter(
    "Sizes that vary",
    "Axes whose size is a `Variable`: one compilation runs every value within its bounds.",
    MISTAKES,
    PRELUDE,
)
