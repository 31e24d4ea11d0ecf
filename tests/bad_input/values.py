"""Mistakes in operands, values and indices."""

from __future__ import annotations

from polygrad.errors import ArgumentError, DTypeError, IndexError_, ShapeError

from .mistake import Chapter, Mistake

PRELUDE = """\
x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
n = Tensor([1, 2, 3])
"""

MISTAKES = (
    Mistake(
        "a text as an operand",
        'x.add("1")',
        ArgumentError,
        "add takes a tensor or a number, not str.",
        "x.add(1)",
    ),
    Mistake(
        "a difference of bools",
        "(x > 2) - (x > 3)",
        DTypeError,
        "sub: bool tensors have no difference; use ^ for exclusive or.",
        "(x > 2) ^ (x > 3)",
    ),
    Mistake(
        "an 8-bit float with another float",
        'x.cast("float8_e4m3fn") + x',
        DTypeError,
        "float8_e4m3fn and float32 have no common dtype: 8-bit floats do not promote. Cast one, for"
        " example to float32 with .float().",
        'x.cast("float8_e4m3fn").float() + x',
    ),
    Mistake(
        "the next number of an 8-bit float",
        'x.cast("float8_e5m2").nextafter(0.0)',
        DTypeError,
        "nextafter takes floats of 16 bits or more, not float8_e5m2.",
        "x.nextafter(0.0)",
    ),
    Mistake(
        "more decimals than there are",
        "x.round(100)",
        ArgumentError,
        "round: decimals are from -30 to 30, not 100.",
        "x.round(3)",
    ),
    Mistake(
        "decimals of integers",
        "n.round(-1)",
        DTypeError,
        "round takes no decimals below 0 of int32; cast to a float first.",
        "n.float().round(-1)",
    ),
    Mistake(
        "minus a bool",
        "-(x > 2)",
        DTypeError,
        "neg: bool tensors have no negative; use ~ for not.",
        "~(x > 2)",
    ),
    Mistake(
        "bits of floats",
        "x & 1",
        DTypeError,
        "bitwise_and takes integers, not float32.",
        "n & 1",
    ),
    Mistake(
        "the complement of floats",
        "~x",
        DTypeError,
        "bitwise_not takes integers or bools, not float32.",
        "~n",
    ),
    Mistake(
        "a shift of floats",
        "x << 1",
        DTypeError,
        "lshift takes integers, not float32.",
        "n << 1",
    ),
    Mistake(
        "integers to a negative power",
        "n ** -1",
        ArgumentError,
        "pow: integers to the power -1 are no integers; cast the tensor to a float first.",
        "n.float() ** -1",
    ),
    Mistake(
        "item of many elements",
        "x.item()",
        ShapeError,
        "item() takes a tensor with one element, not shape (2, 3); use .tolist() or .numpy().",
        "x[0, 0].item()",
    ),
    Mistake(
        "item of nothing",
        "x[:0].item()",
        ShapeError,
        "item() takes a tensor with one element, not shape (0, 3); use .tolist() or .numpy().",
    ),
    Mistake(
        "the truth of many elements",
        "bool(x)",
        ArgumentError,
        "the truth of a tensor of shape (2, 3) is ambiguous; use .any() or .all().",
        "bool(x.any())",
    ),
    Mistake(
        "a condition on many elements",
        """\
if x > 0:
    pass
""",
        ArgumentError,
        "the truth of a tensor of shape (2, 3) is ambiguous; use .any() or .all().",
        """\
if (x > 0).all():
    pass
""",
    ),
    Mistake(
        "float of many elements",
        "float(x)",
        ShapeError,
        "float() takes a tensor with one element, not shape (2, 3).",
        "float(x[0, 0])",
    ),
    Mistake(
        "int of many elements",
        "int(n)",
        ShapeError,
        "int() takes a tensor with one element, not shape (3,).",
        "int(n[0])",
    ),
    Mistake(
        "a format of many elements",
        'f"{x:.2f}"',
        ShapeError,
        "the format '.2f' takes a tensor with one element, not shape (2, 3).",
        'f"{x.mean():.2f}"',
    ),
    Mistake(
        "a format of no number",
        """\
mean = x.mean().realize()
f"{mean:q}"
""",
        ArgumentError,
        "the format 'q' is none of a number; try '.3f' or '.2e'.",
        'f"{mean:.3f}"',
    ),
    Mistake(
        "numpy writing to a tensor",
        "np.copyto(x, 1.0)",
        ArgumentError,
        "numpy.copyto writes to arrays, not to a tensor; give it a = x.numpy(), then x.assign(a).",
        "x[:] = 1.0",
    ),
    Mistake(
        "numpy with a tensor as out",
        "np.sum(np.ones((3, 2, 3)), axis=0, out=x)",
        ArgumentError,
        "numpy.sum writes to arrays, not to a tensor; give it a = x.numpy(), then x.assign(a).",
        'x.assign(np.sum(np.ones((3, 2, 3), "float32"), axis=0))',
    ),
    Mistake(
        "the length of a number",
        "len(x.sum())",
        DTypeError,
        "a 0-d tensor has no length.",
        "len(x)",
    ),
    Mistake(
        "a loop over a number",
        "list(x.sum())",
        DTypeError,
        "a 0-d tensor cannot be iterated.",
        "list(x)",
    ),
    Mistake(
        "a float as an index of a list",
        "[10, 20][x[0, 0]]",
        DTypeError,
        "only an integer tensor is an index, not float32.",
        "[10, 20][n[0]]",
    ),
    Mistake(
        "a tensor among texts",
        '"a" in x',
        ArgumentError,
        "eq takes a tensor or a number, not str.",
        "1 in x",
    ),
    Mistake(
        "an index outside",
        "x[2]",
        IndexError_,
        "index 2 is outside axis 0 of shape (2, 3).",
        "x[1]",
    ),
    Mistake(
        "a negative index outside",
        "x[-3]",
        IndexError_,
        "index -3 is outside axis 0 of shape (2, 3).",
        "x[-2]",
    ),
    Mistake(
        "too many indices",
        "x[0, 0, 0]",
        IndexError_,
        "3 indices are too many for shape (2, 3).",
        "x[0, 0]",
    ),
    Mistake(
        "two ellipses",
        "x[..., ...]",
        IndexError_,
        "an index has one Ellipsis at most.",
        "x[...]",
    ),
    Mistake(
        "a float as an index",
        "x[1.0]",
        ArgumentError,
        "an index is made of integers, slices and arrays, not 1.0.",
        "x[1]",
    ),
    Mistake(
        "a text as an index",
        'x["a"]',
        ArgumentError,
        "an index is made of integers, slices and arrays, not 'a'.",
    ),
    Mistake(
        "a list with an index outside",
        "x[[0, 2]]",
        IndexError_,
        "index 2 is outside axis 0 of shape (2, 3).",
        "x[[0, 1]]",
    ),
    Mistake(
        "floats as an index",
        "x[Tensor([1.0])]",
        DTypeError,
        "an index holds integers or bools, not float32.",
        "x[Tensor([1])]",
    ),
    Mistake(
        "a mask of another length",
        "x[Tensor([True, False, True])]",
        IndexError_,
        "a mask of size 3 does not fit axis 0 of shape (2, 3).",
        "x[Tensor([True, False])]",
    ),
    Mistake(
        "index arrays of unlike lengths",
        "x[[0, 1], [0, 1, 2]]",
        ShapeError,
        "index: shapes (2,) and (3,) do not broadcast: axis -1 is 2 and 3.",
        "x[[0, 1], [0, 1]]",
    ),
    Mistake(
        "a slice with step 0",
        "x[::0]",
        ArgumentError,
        "an index slice(None, None, 0): slice step cannot be zero.",
        "x[::1]",
    ),
    Mistake(
        "a value that does not fit",
        "x[0] = Tensor([1.0, 2.0])",
        ShapeError,
        "setitem: a value of shape (2,) does not fit (3,).",
        "x[0] = Tensor([1.0, 2.0, 3.0])",
    ),
    Mistake(
        "an assignment outside",
        "x[2] = 1",
        IndexError_,
        "index 2 is outside axis 0 of shape (2, 3).",
        "x[1] = 1",
    ),
    Mistake(
        "a text assigned",
        'x[0] = "1"',
        ArgumentError,
        "setitem takes a tensor or a number, not str.",
        "x[0] = 1",
    ),
    Mistake(
        "a number too large assigned",
        "n[0] = 2**40",
        ArgumentError,
        "setitem: 1099511627776 does not fit int32 (-2147483648 to 2147483647); cast the tensor"
        " to int64 first.",
        "n[0] = 2**20",
    ),
    Mistake(
        "in place, a float into integers",
        "n += 1.5",
        DTypeError,
        "+=: a result of float32 does not fit int32; use x = x + y instead, or cast.",
        "n = n + 1.5",
    ),
    Mistake(
        "in place, a quotient of integers",
        "n /= 2",
        DTypeError,
        "/=: a result of float32 does not fit int32; use x = x / y instead, or cast.",
        "n //= 2",
    ),
    Mistake(
        "gather by floats",
        "x.gather(0, x)",
        DTypeError,
        "gather: an index holds integers, not float32.",
        "x.gather(1, Tensor([[0], [1]]))",
    ),
    Mistake(
        "gather by an index too wide",
        "x.gather(0, Tensor([[0, 0, 0, 0]]))",
        ShapeError,
        "gather: index (1, 4) must be no larger than (2, 3) beside axis 0.",
        "x.gather(0, Tensor([[0, 0, 0]]))",
    ),
    Mistake(
        "take outside",
        "x.take([7], 0)",
        IndexError_,
        "index 7 is outside axis 0 of shape (2, 3).",
        "x.take([1], 0)",
    ),
    Mistake(
        "scatter of too few values",
        "x.scatter(0, Tensor([[0, 0]]), Tensor([[1.0]]))",
        ShapeError,
        "scatter: values (1, 1) are smaller than the index (1, 2).",
        "x.scatter(0, Tensor([[0, 0]]), 1.0)",
    ),
    Mistake(
        "scatter by another rule",
        'x.scatter(0, Tensor([[0, 0]]), 1.0, reduce="ad")',
        ArgumentError,
        "scatter: no reduce named 'ad'. Did you mean 'add'? Valid: add, sum, multiply, prod,"
        " amax, amin.",
        'x.scatter(0, Tensor([[0, 0]]), 1.0, reduce="add")',
    ),
    Mistake(
        "masked_select",
        "x.masked_select(Tensor([True, False]))",
        ShapeError,
        "masked_select: shapes (2, 3) and (2,) do not broadcast: axis -1 is 3 and 2.",
        "x.masked_select(x > 2)",
    ),
    Mistake(
        "assign of another shape",
        "x.assign(Tensor([1.0]))",
        ShapeError,
        "assign: shape (1,) does not fit (2, 3).",
        "x.assign(x * 2)",
    ),
    Mistake(
        "assign of another dtype",
        "x.assign(Tensor([[1, 2, 3], [4, 5, 6]]))",
        DTypeError,
        "assign: a value of int32 does not fit float32; use .cast('float32').",
        'x.assign(Tensor([[1, 2, 3], [4, 5, 6]]).cast("float32"))',
    ),
    Mistake(
        "assign of a text",
        'x.assign("1")',
        ArgumentError,
        "Tensor takes numbers, nested lists and arrays, not str.",
        "x.assign([[1, 2, 3], [4, 5, 6]])",
    ),
    Mistake(
        "copy_from of another shape",
        "x.copy_from([1.0])",
        ShapeError,
        "copy_from: shape (1,) does not fit (2, 3).",
        "x.copy_from([[1, 2, 3], [4, 5, 6]])",
    ),
)

CHAPTER = Chapter(
    "Operands, values, indices",
    "What a tensor takes as an operand, gives to Python, and admits as an index.",
    MISTAKES,
    PRELUDE,
)
