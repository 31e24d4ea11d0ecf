"""Mistakes in shapes."""

from __future__ import annotations

from polygrad.errors import ArgumentError, ShapeError

from .mistake import Chapter, Mistake

PRELUDE = """\
x = Tensor.ones(2, 3)
y = Tensor.ones(4)
"""

MISTAKES = (
    Mistake(
        "an operator",
        "x + y",
        ShapeError,
        "add: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x + y[:3]",
    ),
    Mistake(
        "an operator with a list",
        "x - [1, 2]",
        ShapeError,
        "sub: shapes (2, 3) and (2,) do not broadcast: axis -1 is 3 and 2.",
        "x - [1, 2, 3]",
    ),
    Mistake(
        "an array on the left",
        "np.zeros(4) + x",
        ShapeError,
        "add: shapes (4,) and (2, 3) do not broadcast: axis -1 is 4 and 3.",
        "np.zeros(3) + x",
    ),
    Mistake(
        "an operator with an unfitting matrix",
        "x * x.T",
        ShapeError,
        "mul: shapes (2, 3) and (3, 2) do not broadcast: axis -2 is 2 and 3.",
        "x * x",
    ),
    Mistake(
        "division",
        "x / y",
        ShapeError,
        "div: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x / y[:3]",
    ),
    Mistake(
        "floor division",
        "x // y",
        ShapeError,
        "floor_divide: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x // y[:3]",
    ),
    Mistake(
        "a power",
        "x ** y",
        ShapeError,
        "pow: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x ** y[:3]",
    ),
    Mistake(
        "a comparison",
        "x < y",
        ShapeError,
        "lt: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x < y[:3]",
    ),
    Mistake(
        "an equality",
        "x == y",
        ShapeError,
        "eq: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x == y[:3]",
    ),
    Mistake(
        "in place, an operand that would grow it",
        """\
z = Tensor.ones(3)
z += x
""",
        ShapeError,
        "+=: the result (2, 3) does not fit shape (3,).",
        "z += x[0]",
    ),
    Mistake(
        "where",
        "(x > 0).where(y, x)",
        ShapeError,
        "where: shapes (4,) and (2, 3) do not broadcast: axis -1 is 4 and 3.",
        "(x > 0).where(0, x)",
    ),
    Mistake(
        "maximum",
        "x.maximum(y)",
        ShapeError,
        "maximum: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x.maximum(y[:3])",
    ),
    Mistake(
        "clamp by a tensor",
        "x.clamp(y)",
        ShapeError,
        "clamp: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x.clamp(y[:3])",
    ),
    Mistake(
        "lerp",
        "x.lerp(y, 0.5)",
        ShapeError,
        "lerp: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x.lerp(x, 0.5)",
    ),
    Mistake(
        "masked_fill",
        "x.masked_fill(y > 0, 0)",
        ShapeError,
        "masked_fill: shapes (2, 3) and (4,) do not broadcast: axis -1 is 3 and 4.",
        "x.masked_fill(x > 0, 0)",
    ),
    Mistake(
        "reshape",
        "x.reshape(4)",
        ShapeError,
        "reshape: (2, 3) has 6 elements, which do not make (4,) (4 elements).",
        "x.reshape(6)",
    ),
    Mistake(
        "reshape with two unknown sizes",
        "x.reshape(-1, -1)",
        ShapeError,
        "reshape: (2, 3) has 6 elements, which do not make (-1, -1).",
        "x.reshape(-1, 2)",
    ),
    Mistake(
        "reshape to a size that does not divide",
        "x.reshape(4, -1)",
        ShapeError,
        "reshape: (2, 3) has 6 elements, which do not make (4, -1).",
        "x.reshape(3, -1)",
    ),
    Mistake(
        "reshape with a size that could be anything",
        "Tensor.ones(0, 3).reshape(0, -1)",
        ShapeError,
        "reshape: (0, 3) to (0, -1): -1 could be any size.",
        "Tensor.ones(0, 3).reshape(0, 3)",
    ),
    Mistake(
        "expand of an axis that is not 1",
        "x.expand(4, 3)",
        ShapeError,
        "expand: (2, 3) does not expand to (4, 3): only axes of size 1 grow.",
        "x.reshape(2, 1, 3).expand(2, 4, 3)",
    ),
    Mistake(
        "unflatten",
        "x.unflatten(1, (2, 2))",
        ShapeError,
        "unflatten: an axis of size 3 does not split into (2, 2).",
        "x.unflatten(1, (3, 1))",
    ),
    Mistake(
        "shrink",
        "x.shrink(((0, 3), (0, 3)))",
        ShapeError,
        "shrink: ((0, 3), (0, 3)) lies outside shape (2, 3).",
        "x.shrink(((0, 2), (0, 3)))",
    ),
    Mistake(
        "pad_to",
        "x.pad_to(1, 3)",
        ShapeError,
        "pad_to: (2, 3) does not pad to (1, 3).",
        "x.pad_to(4, 3)",
    ),
    Mistake(
        "pad",
        "x.pad((1, 2, 3))",
        ShapeError,
        "pad: padding is a pair of integers for each of at most 2 axes, not (1, 2, 3).",
        "x.pad((1, 2))",
    ),
    Mistake(
        "pad by reflection",
        'x.pad((4, 4), mode="reflect")',
        ShapeError,
        "pad: reflecting (4, 4) needs more than 3 elements on axis 1.",
        'x.pad((2, 2), mode="reflect")',
    ),
    Mistake(
        "split",
        "x.split([1, 1], axis=1)",
        ShapeError,
        "split: sizes (1, 1) do not add up to axis 1 of (2, 3).",
        "x.split([1, 2], axis=1)",
    ),
    Mistake(
        "cat",
        "x.cat(Tensor.ones(2, 4))",
        ShapeError,
        "cat: shapes (2, 3) and (2, 4) differ beyond axis 0.",
        "x.cat(Tensor.ones(2, 4), axis=1)",
    ),
    Mistake(
        "cat of another rank",
        "x.cat(y)",
        ShapeError,
        "cat: shapes (2, 3) and (4,) differ beyond axis 0.",
        "x.cat(Tensor.ones(1, 3))",
    ),
    Mistake(
        "stack",
        "Tensor.stack([x, x.T])",
        ShapeError,
        "stack: shapes (2, 3) and (3, 2) differ.",
        "Tensor.stack([x, x])",
    ),
    Mistake(
        "diagonal of a vector",
        "y.diagonal()",
        ArgumentError,
        "diagonal: axis 1 is outside a tensor of 1 axes.",
        "x.diagonal()",
    ),
    Mistake(
        "triu of a vector",
        "y.triu()",
        ShapeError,
        "triu takes at least two axes, not shape (4,).",
        "x.triu()",
    ),
    Mistake(
        "unfold",
        "x.unfold(1, 4)",
        ShapeError,
        "unfold: size 4, step 1 do not fit axis 1 of (2, 3).",
        "x.unfold(1, 3)",
    ),
    Mistake(
        "an extreme of nothing",
        "Tensor.ones(0, 3).max()",
        ShapeError,
        "max of no elements: shape (0, 3) has axes (0, 1) empty.",
        "Tensor.ones(0, 3).sum()",
    ),
    Mistake(
        "the position of an extreme of nothing",
        "Tensor.ones(0, 3).argmax(0)",
        ShapeError,
        "argmax of no elements: shape (0, 3) has axes (0,) empty.",
    ),
    Mistake(
        "glu of an odd axis",
        "x.glu()",
        ShapeError,
        "glu: axis 1 of shape (2, 3) does not split into halves.",
        "Tensor.ones(2, 4).glu()",
    ),
)

CHAPTER = Chapter(
    "Shapes that do not fit",
    "Operands broadcast as numpy's do. The message shows every full shape.",
    MISTAKES,
    PRELUDE,
)
