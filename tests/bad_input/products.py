"""Mistakes in products, convolutions and pooling."""

from __future__ import annotations

from polygrad.errors import ArgumentError, ShapeError

from .mistake import Chapter, Mistake

PRELUDE = """\
x = Tensor.ones(2, 3)
image = Tensor.ones(1, 2, 8, 8)
weight = Tensor.ones(4, 2, 3, 3)
"""

MISTAKES = (
    Mistake(
        "matmul",
        "x @ Tensor.ones(4, 5)",
        ShapeError,
        "matmul: shapes (2, 3) and (4, 5) do not match: the last axis is 3, the second last one"
        " of the other 4.",
        "x @ Tensor.ones(3, 5)",
    ),
    Mistake(
        "matmul by a matrix that fits when transposed",
        "x @ x",
        ShapeError,
        "matmul: shapes (2, 3) and (2, 3) do not match: the last axis is 3, the second last one"
        " of the other 2. other.T would fit.",
        "x @ x.T",
    ),
    Mistake(
        "matmul by a vector",
        "x @ Tensor.ones(2)",
        ShapeError,
        "matmul: shapes (2, 3) and (2,) do not match: the last axis is 3, the only one of the"
        " other 2.",
        "x @ Tensor.ones(3)",
    ),
    Mistake(
        "matmul by a number",
        "x @ 5",
        ShapeError,
        "matmul: shapes (2, 3) and () do not match: a 0-d tensor has no axis to sum over; use *.",
        "x * 5",
    ),
    Mistake(
        "matmul of unlike batches",
        "Tensor.ones(2, 2, 3) @ Tensor.ones(3, 3, 4)",
        ShapeError,
        "matmul: shapes (2, 2, 3) and (3, 3, 4): their batches (2,) and (3,) do not broadcast.",
        "Tensor.ones(2, 2, 3) @ Tensor.ones(1, 3, 4)",
    ),
    Mistake(
        "dot",
        "x.dot(Tensor.ones(2))",
        ShapeError,
        "dot: shapes (2, 3) and (2,) do not match: the last axis is 3, the only one of the"
        " other 2.",
        "x.dot(Tensor.ones(3))",
    ),
    Mistake(
        "addmm",
        "x.addmm(x, Tensor.ones(4, 5))",
        ShapeError,
        "addmm: shapes (2, 3) and (4, 5) do not match: the last axis is 3, the second last one"
        " of the other 4.",
        "Tensor.ones(2, 5).addmm(x, Tensor.ones(3, 5))",
    ),
    Mistake(
        "bmm of unlike batches",
        "Tensor.ones(2, 2, 3).bmm(Tensor.ones(3, 3, 4))",
        ShapeError,
        "bmm: shapes (2, 2, 3) and (3, 3, 4): their batches (2,) and (3,) do not broadcast.",
        "Tensor.ones(2, 2, 3).bmm(Tensor.ones(2, 3, 4))",
    ),
    Mistake(
        "outer of matrices",
        "x.outer(x)",
        ShapeError,
        "outer takes two vectors, not shapes (2, 3) and (2, 3).",
        "x[0].outer(x[1])",
    ),
    Mistake(
        "linear",
        "x.linear(Tensor.ones(4, 5))",
        ShapeError,
        "linear: shapes (2, 3) and (4, 5) do not match: the last axis is 3, the second last one"
        " of the other 4.",
        "x.linear(Tensor.ones(3, 5))",
    ),
    Mistake(
        "the bias of linear",
        "x.linear(Tensor.ones(3, 5), Tensor.ones(4))",
        ShapeError,
        "linear: shapes (2, 5) and (4,) do not broadcast: axis -1 is 5 and 4.",
        "x.linear(Tensor.ones(3, 5), Tensor.ones(5))",
    ),
    Mistake(
        "einsum with unlike sizes",
        'Tensor.einsum("ij,jk->ik", x, x)',
        ShapeError,
        "einsum: 'ij,jk->ik' with shapes (2, 3), (2, 3): label 'j' is 3 and 2.",
        'Tensor.einsum("ij,kj->ik", x, x)',
    ),
    Mistake(
        "einsum with too few operands",
        'Tensor.einsum("ij,jk", x)',
        ArgumentError,
        "einsum: 'ij,jk' names 2 operands, 1 were given.",
        'Tensor.einsum("ij,jk", x, x.T)',
    ),
    Mistake(
        "einsum with a new label",
        'Tensor.einsum("ij->k", x)',
        ArgumentError,
        "einsum: 'k' of 'ij->k' repeats a label or names a new one.",
        'Tensor.einsum("ij->j", x)',
    ),
    Mistake(
        "einsum with too many labels",
        'Tensor.einsum("ijk->k", x)',
        ShapeError,
        "einsum: 'ijk' of 'ijk->k' does not fit shape (2, 3).",
        'Tensor.einsum("ij->j", x)',
    ),
    Mistake(
        "einsum with labels that are no letters",
        'Tensor.einsum("i1->i", x)',
        ArgumentError,
        "einsum: 'i1->i' has labels that are no letters.",
    ),
    Mistake(
        "tensordot",
        "x.tensordot(x, 1)",
        ShapeError,
        "tensordot: axes [1] of (2, 3) and [0] of (2, 3) differ.",
        "x.tensordot(x.T, 1)",
    ),
    Mistake(
        "cross",
        "x.T.cross(x.T)",
        ShapeError,
        "cross takes vectors of three, not (3, 2) and (3, 2).",
        "x.cross(x)",
    ),
    Mistake(
        "conv2d of other channels",
        "image.conv2d(Tensor.ones(4, 3, 3, 3))",
        ShapeError,
        "conv2d: input (1, 2, 8, 8) has 2 channels, weight (4, 3, 3, 3) takes 3.",
        "image.conv2d(weight)",
    ),
    Mistake(
        "conv2d with a window larger than the image",
        "image.conv2d(Tensor.ones(4, 2, 9, 9))",
        ShapeError,
        "conv2d: a window of 9 does not fit an axis of 8 padded by (0, 0) (input (1, 2, 8, 8)).",
        "image.conv2d(Tensor.ones(4, 2, 9, 9), padding=1)",
    ),
    Mistake(
        "conv2d of another rank",
        "image.conv2d(Tensor.ones(4, 2, 3))",
        ShapeError,
        "conv2d: input (1, 2, 8, 8) and weight (4, 2, 3) must have the same number of axes, at"
        " least 3.",
        "image.conv2d(weight)",
    ),
    Mistake(
        "the bias of conv2d",
        "image.conv2d(weight, Tensor.ones(3))",
        ShapeError,
        "conv2d: bias has shape (3,), the result 4 channels.",
        "image.conv2d(weight, Tensor.ones(4))",
    ),
    Mistake(
        "groups that do not divide",
        "image.conv2d(weight, groups=3)",
        ShapeError,
        "conv2d: input (1, 2, 8, 8) has 2 channels, weight (4, 2, 3, 3) takes 6 in 3 groups.",
        "image.conv2d(Tensor.ones(4, 1, 3, 3), groups=2)",
    ),
    Mistake(
        "a stride of 0",
        "image.conv2d(weight, stride=0)",
        ArgumentError,
        "conv2d: stride is an integer of at least 1, or 2 of them, not 0.",
        "image.conv2d(weight, stride=2)",
    ),
    Mistake(
        "padding by name",
        'image.conv2d(weight, padding="smae")',
        ArgumentError,
        "conv2d: no padding named 'smae'. Did you mean 'same'? Valid: same, valid.",
        'image.conv2d(weight, padding="same")',
    ),
    Mistake(
        "conv1d",
        "Tensor.ones(1, 2, 8).conv1d(Tensor.ones(4, 3, 3))",
        ShapeError,
        "conv1d: input (1, 2, 8) has 2 channels, weight (4, 3, 3) takes 3.",
        "Tensor.ones(1, 3, 8).conv1d(Tensor.ones(4, 3, 3))",
    ),
    Mistake(
        "conv_transpose2d",
        "image.conv_transpose2d(Tensor.ones(3, 2, 3, 3))",
        ShapeError,
        "conv_transpose2d: input (1, 2, 8, 8) has 2 channels, weight (3, 2, 3, 3) takes 3.",
        "image.conv_transpose2d(Tensor.ones(2, 3, 3, 3))",
    ),
    Mistake(
        "a pooling window larger than the image",
        "image.max_pool2d(9)",
        ShapeError,
        "max_pool2d: a window of 9 does not fit an axis of 8 padded by (0, 0) (input (1, 2, 8,"
        " 8)).",
        "image.max_pool2d(8)",
    ),
    Mistake(
        "a pooling window of more axes than there are",
        "image.avg_pool2d((2, 2, 2, 2, 2))",
        ShapeError,
        "avg_pool2d: shape (1, 2, 8, 8) has fewer axes than the window (2, 2, 2, 2, 2).",
        "image.avg_pool2d((2, 2))",
    ),
    Mistake(
        "attention of other widths",
        "x.scaled_dot_product_attention(Tensor.ones(2, 4), Tensor.ones(2, 4))",
        ShapeError,
        "scaled_dot_product_attention: queries (2, 3) and keys (2, 4) differ in their last axis.",
        "x.scaled_dot_product_attention(x, x)",
    ),
    Mistake(
        "attention of keys and values at other positions",
        "x.scaled_dot_product_attention(Tensor.ones(4, 3), Tensor.ones(5, 3))",
        ShapeError,
        "scaled_dot_product_attention: keys (4, 3) and values (5, 3) differ in their positions"
        " (the second last axis).",
        "x.scaled_dot_product_attention(Tensor.ones(4, 3), Tensor.ones(4, 3))",
    ),
    Mistake(
        "a pool of no parts",
        """\
c = Tensor.ones(1, 1, 4, 4)
c.adaptive_avg_pool2d(0)
""",
        ArgumentError,
        "adaptive_avg_pool2d: output_size is an integer of at least 1, or 2 of them, not 0.",
        "c.adaptive_avg_pool2d(3)",
    ),
    Mistake(
        "a volume for conv3d that is none",
        """\
c = Tensor.ones(1, 1, 4, 4)
c.conv3d(Tensor.ones(1, 1, 2, 2, 2))
""",
        ShapeError,
        "conv3d takes 5 axes: input (1, 1, 4, 4), weight (1, 1, 2, 2, 2).",
        "c.unsqueeze(2).conv3d(Tensor.ones(1, 1, 1, 2, 2))",
    ),
    Mistake(
        "a bias for other channels",
        """\
c = Tensor.ones(1, 1, 4, 4)
c.conv2d(Tensor.ones(4, 1, 2, 2), Tensor.ones(3))
""",
        ShapeError,
        "conv2d: bias has shape (3,), the result 4 channels.",
        "c.conv2d(Tensor.ones(4, 1, 2, 2), Tensor.ones(4))",
    ),
    Mistake(
        "a cross product of two numbers",
        "Tensor.ones(2).cross(Tensor.ones(2))",
        ShapeError,
        "cross takes vectors of three, not (2,) and (2,).",
        "Tensor.ones(3).cross(Tensor.ones(3))",
    ),
    Mistake(
        "heads that are no multiple",
        "Tensor.ones(3, 4, 2).scaled_dot_product_attention(Tensor.ones(2, 4, 2), "
        "Tensor.ones(2, 4, 2), enable_gqa=True)",
        ShapeError,
        "scaled_dot_product_attention: the heads of queries (3, 4, 2) are no multiple of "
        "those of keys (2, 4, 2).",
        "Tensor.ones(4, 4, 2).scaled_dot_product_attention(Tensor.ones(2, 4, 2), "
        "Tensor.ones(2, 4, 2), enable_gqa=True)",
    ),
)

CHAPTER = Chapter(
    "Products, convolutions, pooling",
    "Inner sizes must agree; batches broadcast.",
    MISTAKES,
    PRELUDE,
)
