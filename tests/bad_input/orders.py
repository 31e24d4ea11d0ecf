"""Mistakes in orders, statistics, factorizations and bigger layers."""

from __future__ import annotations

from polygrad.errors import ArgumentError, DTypeError, ShapeError

from .mistake import Chapter, Mistake

PRELUDE = """\
x = Tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
v = Tensor([1.0, 2.0, 3.0])
"""

MISTAKES = (
    Mistake(
        "sort along an axis that is not there",
        "x.sort(2)",
        ArgumentError,
        "sort: axis 2 is outside a tensor of 2 axes.",
        "x.sort(1)",
    ),
    Mistake(
        "topk of more than there are",
        "x.topk(4)",
        ArgumentError,
        "topk: k is 4, axis 1 of (2, 3) has 3 elements.",
        "x.topk(3)",
    ),
    Mistake(
        "a scan of tensors of different lengths",
        "associative_scan(lambda a, b: a, [x, v])",
        ShapeError,
        "associative_scan: shapes (2, 3) and (3,) have different lengths along axis 0.",
        "associative_scan(lambda a, b: b, [x, v], axis=-1)",
    ),
    Mistake(
        "a scan by a function that loses an axis",
        "associative_scan(lambda a, b: (a + b).sum(-1), x, axis=1)",
        ShapeError,
        "associative_scan: fn gave (2,) for (2, 1); it keeps the shapes.",
        "associative_scan(lambda a, b: a + b, x, axis=1)",
    ),
    Mistake(
        "a scan by a function of another dtype",
        "associative_scan(lambda a, b: a < b, v)",
        DTypeError,
        "associative_scan: fn gave bool for float32.",
        "associative_scan(lambda a, b: a.minimum(b), v)",
    ),
    Mistake(
        "a scan of numbers",
        "associative_scan(lambda a, b: a + b, [1, 2, 3])",
        ArgumentError,
        "associative_scan: elems is a tensor, or tensors in lists, dicts or the like.",
        "associative_scan(lambda a, b: a + b, Tensor([1, 2, 3]))",
    ),
    Mistake(
        "searchsorted beside another shape",
        "x.searchsorted(Tensor.ones(3, 2))",
        ShapeError,
        "searchsorted: values (3, 2) do not stand beside sorted (2, 3).",
        "v.searchsorted(x)",
    ),
    Mistake(
        "quantile outside [0, 1]",
        "x.quantile(1.5)",
        ArgumentError,
        "quantile: fractions lie between 0 and 1, not 1.5.",
        "x.quantile(0.5)",
    ),
    Mistake(
        "quantile of nothing",
        "Tensor.ones(0).quantile(0.5)",
        ArgumentError,
        "quantile: there is nothing along the axis of (0,).",
    ),
    Mistake(
        "randperm of floats",
        'Tensor.randperm(4, dtype="float32")',
        DTypeError,
        "randperm: the order is of integers, not float32.",
        "Tensor.randperm(4)",
    ),
    Mistake(
        "kthvalue beyond the length",
        "x.kthvalue(4)",
        ArgumentError,
        "kthvalue: k is 4, axis 1 of (2, 3) has 3 elements.",
        "x.kthvalue(3)",
    ),
    Mistake(
        "a norm of matrices that is none",
        "x.matrix_norm(3)",
        ArgumentError,
        "matrix_norm: no norm 3. Valid: 'fro', 'nuc', 1, -1, 2, -2, inf, -inf.",
        "x.matrix_norm(2)",
    ),
    Mistake(
        "a norm of the matrices of one axis",
        "x.matrix_norm(axis=(0,))",
        ShapeError,
        "matrix_norm takes two axes, not (0,) of shape (2, 3).",
        "x.norm(axis=0)",
    ),
    Mistake(
        "bincount of floats",
        "v.bincount()",
        ShapeError,
        "bincount takes a vector of integers, not float32 (3,).",
        "v.int().bincount()",
    ),
    Mistake(
        "bincount with other weights",
        "v.int().bincount(Tensor.ones(2))",
        ShapeError,
        "bincount: weights (2,) do not fit (3,).",
        "v.int().bincount(Tensor.ones(3))",
    ),
    Mistake(
        "histogram of no bins",
        "x.histogram(0)",
        ArgumentError,
        "histogram: bins is an integer of at least 1, not 0.",
        "x.histogram(2)",
    ),
    Mistake(
        "histogram of a range that falls",
        "x.histogram(2, range=(1.0, 0.0))",
        ArgumentError,
        "histogram: the range (1.0, 0.0) does not rise.",
        "x.histogram(2, range=(0.0, 1.0))",
    ),
    Mistake(
        "multinomial of more than there are",
        "v.multinomial(4)",
        ArgumentError,
        "multinomial: 4 of 3 elements cannot be drawn all different.",
        "v.multinomial(2)",
    ),
    Mistake(
        "cov of a cube",
        "Tensor.ones(2, 2, 2).cov()",
        ShapeError,
        "cov takes a matrix of variables in rows, not shape (2, 2, 2).",
        "x.cov()",
    ),
    Mistake(
        "cdist of other widths",
        "x.cdist(Tensor.ones(2, 4))",
        ShapeError,
        "cdist: rows of (2, 3) and (2, 4) have no distance.",
        "x.cdist(Tensor.ones(2, 3))",
    ),
    Mistake(
        "cumsum along an axis that is not there",
        "x.cumsum(2)",
        ArgumentError,
        "cumsum: axis 2 is outside a tensor of 2 axes.",
        "x.cumsum(1)",
    ),
    Mistake(
        "logspace of a base below 0",
        "Tensor.logspace(0, 1, 3, base=-1)",
        ArgumentError,
        "logspace: base is a positive number, not -1.",
        "Tensor.logspace(0, 1, 3, base=10)",
    ),
    Mistake(
        "cholesky of a matrix that is not square",
        "x.cholesky()",
        ShapeError,
        "cholesky takes square matrices in the last two axes, not shape (2, 3).",
        "(x @ x.T).cholesky()",
    ),
    Mistake(
        "the inverse of a vector",
        "v.inverse()",
        ShapeError,
        "inverse takes square matrices in the last two axes, not shape (3,).",
        "(x @ x.T).inverse()",
    ),
    Mistake(
        "solve with other rows",
        "(x @ x.T).solve(v)",
        ShapeError,
        "solve: matrices (2, 2) and right sides (3,) do not match: 2 rows are expected.",
        "(x @ x.T).solve(Tensor([1.0, 2.0]))",
    ),
    Mistake(
        "qr of a vector",
        "v.qr()",
        ShapeError,
        "qr takes matrices in the last two axes, not shape (3,).",
        "x.qr()",
    ),
    Mistake(
        "qr in another mode",
        'x.qr(mode="full")',
        ArgumentError,
        "qr: no mode named 'full'. Valid: reduced, complete.",
        'x.qr(mode="complete")',
    ),
    Mistake(
        "rearrange without an arrow",
        'x.rearrange("a b")',
        ArgumentError,
        "rearrange: 'a b' has no '->'.",
        'x.rearrange("a b -> b a")',
    ),
    Mistake(
        "rearrange of other axes",
        'x.rearrange("a b c -> c b a")',
        ShapeError,
        "rearrange: 'a b c' names 3 axes of shape (2, 3).",
        'x.rearrange("a b -> b a")',
    ),
    Mistake(
        "rearrange with a new name",
        'x.rearrange("a b -> a c")',
        ArgumentError,
        "rearrange: 'a b -> a c' must name each axis once on both sides.",
        'x.rearrange("a b -> (a b)")',
    ),
    Mistake(
        "rearrange with an open bracket",
        'x.rearrange("a b -> (a b")',
        ArgumentError,
        "rearrange: 'a b -> (a b' has an open bracket.",
        'x.rearrange("a b -> (a b)")',
    ),
    Mistake(
        "rot90 in no plane",
        "x.rot90(axes=(0, 0))",
        ArgumentError,
        "rot90: axes (0, 0) are not two axes.",
        "x.rot90(axes=(0, 1))",
    ),
    Mistake(
        "roll with too few axes",
        "x.roll((1, 1), axis=0)",
        ArgumentError,
        "roll: 2 shifts for 1 axes.",
        "x.roll((1, 1), axis=(0, 1))",
    ),
    Mistake(
        "a custom kernel that takes other tensors",
        "x.custom_kernel(v, fxn=lambda a: a)",
        ArgumentError,
        "custom_kernel: fxn: too many positional arguments. It takes: a.",
    ),
    Mistake(
        "a custom kernel that returns no stores",
        "x.custom_kernel(fxn=lambda a: a)",
        ArgumentError,
        "custom_kernel: fxn returns .sink(arg=KernelInfo(...)) of its stores, not Placeholder.",
    ),
    Mistake(
        "an LSTM without gates",
        "nn.LSTM(3, 0)",
        ArgumentError,
        "LSTM: hidden_size=0 is less than 1.",
        "nn.LSTM(3, 4)",
    ),
    Mistake(
        "heads that do not divide",
        "nn.MultiheadAttention(6, 4)",
        ArgumentError,
        "MultiheadAttention: num_heads=4 must divide embed_dim=6.",
        "nn.MultiheadAttention(6, 3)",
    ),
    Mistake(
        "Muon of a vector",
        "nn.optim.Muon([v])",
        ArgumentError,
        "muon trains matrices, not a parameter of shape (3,); give that one to another optimizer"
        " of an OptimizerGroup.",
        "nn.optim.Muon([x])",
    ),
    Mistake(
        "a parameter in two optimizers",
        "nn.optim.OptimizerGroup(nn.optim.SGD([v]), nn.optim.Adam([v]))",
        ArgumentError,
        "an OptimizerGroup trains each parameter by one optimizer only.",
        "nn.optim.OptimizerGroup(nn.optim.SGD([v]), nn.optim.Muon([x]))",
    ),
    Mistake(
        "scatter_reduce by an unknown way",
        """\
i = Tensor([[0, 1, 2], [1, 1, 0]])
x.scatter_reduce(0, i, x, "maximum")
""",
        ArgumentError,
        "scatter_reduce: no reduce named 'maximum'. Valid: add, sum, multiply, prod, amax, amin.",
        'x.scatter_reduce(0, i, x, "amax")',
    ),
    Mistake(
        "index_add of another number of rows",
        "x.index_add(0, Tensor([0, 1, 1]), x)",
        ShapeError,
        "index_add: source (2, 3) and index (3,) do not fit axis 0 of (2, 3).",
        "x.index_add(0, Tensor([0, 1]), x)",
    ),
    Mistake(
        "index_put of values that do not fit",
        "x.index_put((Tensor([0, 1]),), Tensor.ones(3, 3))",
        ShapeError,
        "index_put: shapes (2, 3) and (3, 3) do not broadcast: axis -2 is 2 and 3.",
        "x.index_put((Tensor([0, 1]),), Tensor.ones(2, 3))",
    ),
    Mistake(
        "an index of floats",
        """\
i = Tensor([[0, 1, 2], [1, 1, 0]])
x.take_along_axis(x, 1)
""",
        DTypeError,
        "take_along_axis: an index holds integers, not float32.",
        "x.take_along_axis(i, 1)",
    ),
    Mistake(
        "cummax along an axis that is not there",
        "x.cummax(2)",
        ArgumentError,
        "cummax: axis 2 is outside a tensor of 2 axes.",
        "x.cummax(1)",
    ),
    Mistake(
        "a temperature below 0",
        "x.sample_logits(temperature=-1)",
        ArgumentError,
        "sample_logits: temperature is a finite number of 0 or more, not -1.",
        "x.sample_logits(temperature=1)",
    ),
    Mistake(
        "a mask of another shape",
        "x.masked_select(Tensor([True, False]))",
        ShapeError,
        "masked_select: shapes (2, 3) and (2,) do not broadcast: axis -1 is 3 and 2.",
        "x.masked_select(x > 0)",
    ),
    Mistake(
        "a base of 0",
        "Tensor.logspace(0, 1, 3, base=0)",
        ArgumentError,
        "logspace: base is a positive number, not 0.",
        "Tensor.logspace(0, 1, 3, base=2)",
    ),
    Mistake(
        "distances of rows of other widths",
        "x.cdist(Tensor.ones(4, 2))",
        ShapeError,
        "cdist: rows of (2, 3) and (4, 2) have no distance.",
        "x.cdist(Tensor.ones(4, 3))",
    ),
    Mistake(
        "cov of more than a matrix",
        "Tensor.ones(2, 3, 4).cov()",
        ShapeError,
        "cov takes a matrix of variables in rows, not shape (2, 3, 4).",
        "Tensor.ones(2, 3).cov()",
    ),
    Mistake(
        "places for another plane",
        """\
i = Tensor([[0, 1, 2], [1, 1, 0]])
x.max_unpool2d(i[:1])
""",
        ShapeError,
        "max_unpool2d: indices (1, 3) do not fit (2, 3).",
        "x.max_unpool2d(i)",
    ),
)

CHAPTER = Chapter(
    "Orders, statistics, factorizations",
    "Functions of whole axes and of matrices.",
    MISTAKES,
    PRELUDE,
)
