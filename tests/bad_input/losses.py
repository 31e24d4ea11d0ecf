"""Mistakes in losses and norms."""

from __future__ import annotations

from polygrad.errors import ArgumentError, ShapeError

from .mistake import Chapter, Mistake

PRELUDE = "scores = Tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])"

MISTAKES = (
    Mistake(
        "labels of another number",
        "scores.cross_entropy(Tensor([1, 2, 0]))",
        ShapeError,
        "cross_entropy: scores (2, 3) with classes in axis 1 take class numbers of shape (2,),"
        " got int32 (3,).",
        "scores.cross_entropy(Tensor([1, 2]))",
    ),
    Mistake(
        "probabilities of another shape",
        "scores.cross_entropy(Tensor.ones(2, 4))",
        ShapeError,
        "cross_entropy: scores (2, 3) take probabilities of that shape, got (2, 4).",
        "scores.cross_entropy(Tensor.ones(2, 3))",
    ),
    Mistake(
        "another reduction",
        'scores.cross_entropy(Tensor([1, 2]), reduction="men")',
        ArgumentError,
        "cross_entropy: no reduction named 'men'. Did you mean 'mean'? Valid: mean, sum, none.",
        'scores.cross_entropy(Tensor([1, 2]), reduction="mean")',
    ),
    Mistake(
        "smoothing outside [0, 1]",
        "scores.cross_entropy(Tensor([1, 2]), label_smoothing=2)",
        ArgumentError,
        "cross_entropy: label_smoothing lies in [0, 1], not 2.",
        "scores.cross_entropy(Tensor([1, 2]), label_smoothing=0.2)",
    ),
    Mistake(
        "weights for other classes",
        "scores.nll_loss(Tensor([1, 2]), weight=Tensor.ones(2))",
        ShapeError,
        "nll_loss: weight has shape (2,), there are 3 classes.",
        "scores.nll_loss(Tensor([1, 2]), weight=Tensor.ones(3))",
    ),
    Mistake(
        "a target of another shape",
        "scores.mse_loss(Tensor.ones(3))",
        ShapeError,
        "mse_loss: shapes (2, 3) and (3,) differ.",
        "scores.mse_loss(Tensor.ones(2, 3))",
    ),
    Mistake(
        "probabilities of another number",
        "scores.binary_crossentropy(Tensor.ones(3))",
        ShapeError,
        "binary_crossentropy: shapes (2, 3) and (3,) differ.",
        "scores.sigmoid().binary_crossentropy(Tensor.ones(2, 3))",
    ),
    Mistake(
        "kl_div of another shape",
        "scores.kl_div(Tensor.ones(3))",
        ShapeError,
        "kl_div: shapes (2, 3) and (3,) differ.",
        "scores.kl_div(Tensor.ones(2, 3))",
    ),
    Mistake(
        "layernorm over an axis that is not there",
        "scores.layernorm(2)",
        ArgumentError,
        "layernorm: axis 2 is outside a tensor of 2 axes.",
        "scores.layernorm(1)",
    ),
    Mistake(
        "batchnorm by other vectors",
        "scores.batchnorm(None, None, Tensor.ones(4), Tensor.ones(3))",
        ShapeError,
        "batchnorm: a vector of shape (4,) does not fit axis 1 of (2, 3).",
        "scores.batchnorm(None, None, Tensor.ones(3), Tensor.ones(3))",
    ),
    Mistake(
        "groups that do not divide the channels",
        "scores.group_norm(2)",
        ShapeError,
        "group_norm: shape (2, 3) does not fall into 2 groups.",
        "scores.group_norm(3)",
    ),
    Mistake(
        "softplus of beta 0",
        "scores.softplus(beta=0)",
        ArgumentError,
        "softplus: beta is a number other than 0.",
        "scores.softplus(beta=1)",
    ),
    Mistake(
        "a quantile above 1",
        """\
x = Tensor.ones(2, 3)
x.pinball_loss(x, 90)
""",
        ArgumentError,
        "pinball_loss: quantile lies in [0, 1], not 90.",
        "x.pinball_loss(x, 0.9)",
    ),
    Mistake(
        "huber of another shape",
        """\
x = Tensor.ones(2, 3)
x.huber_loss(x[0])
""",
        ShapeError,
        "huber_loss: shapes (2, 3) and (3,) differ.",
        "x.huber_loss(x)",
    ),
    Mistake(
        "batchmean of a number",
        """\
x = Tensor.ones(2, 3)
x.sum().kl_div(x.sum(), "batchmean")
""",
        ShapeError,
        "kl_div: a 0-d tensor has no samples to take the batchmean of.",
        'x.kl_div(x, "batchmean")',
    ),
    Mistake(
        "ctc of one axis",
        """\
x = Tensor.ones(2, 3)
x.ctc_loss(Tensor([[1]]), Tensor([1]), Tensor([1]))
""",
        ShapeError,
        "ctc_loss takes log-probabilities (T, N, classes) and targets (N, S), got (2, 3) and "
        "(1, 1).",
        "x.unsqueeze(0).ctc_loss(Tensor([[1], [1]]), Tensor([1, 1]), Tensor([1, 1]))",
    ),
    Mistake(
        "probabilities as logits of other shape",
        """\
x = Tensor.ones(2, 3)
x.binary_crossentropy_logits(x.T)
""",
        ShapeError,
        "binary_crossentropy_logits: shapes (2, 3) and (3, 2) differ.",
        "x.binary_crossentropy_logits(x)",
    ),
)

CHAPTER = Chapter(
    "Losses and norms",
    "Targets have the shape of the scores, or of the scores without the axis of classes.",
    MISTAKES,
    PRELUDE,
)
