"""Mistakes in axes and other arguments."""

from __future__ import annotations

from polygrad.errors import ArgumentError, ShapeError

from .mistake import Chapter, Mistake

PRELUDE = "x = Tensor.ones(2, 3)"

MISTAKES = (
    Mistake(
        "nothing to resample",
        "x[:, :0].interpolate((6,))",
        ShapeError,
        "interpolate: an axis of shape (2, 0) has nothing to resample.",
        "x[:0].interpolate((6,))",
    ),
    Mistake(
        "a class as an axis",
        "x.sum(int)",
        ArgumentError,
        "sum: an axis is an integer, not <class 'int'>.",
        "x.sum(0)",
    ),
    Mistake(
        "an axis that is not there",
        "x.sum(axis=2)",
        ArgumentError,
        "sum: axis 2 is outside a tensor of 2 axes.",
        "x.sum(axis=1)",
    ),
    Mistake(
        "one axis twice",
        "x.sum(axis=(0, 0))",
        ArgumentError,
        "sum: axes (0, 0) name one axis twice.",
        "x.sum(axis=(0, 1))",
    ),
    Mistake(
        "an axis that is no integer",
        'x.sum(axis="rows")',
        ArgumentError,
        "sum: an axis is an integer, not 'rows'.",
        "x.sum(axis=0)",
    ),
    Mistake(
        "both spellings of an axis",
        "x.sum(axis=0, dim=1)",
        ArgumentError,
        "sum: axis and dim are the same argument; give one.",
        "x.sum(dim=1)",
    ),
    Mistake(
        "permute without each axis",
        "x.permute(0, 0)",
        ArgumentError,
        "permute: (0, 0) does not name each axis of shape (2, 3) once.",
        "x.permute(1, 0)",
    ),
    Mistake(
        "transpose of an axis that is not there",
        "x.transpose(0, 2)",
        ArgumentError,
        "transpose: axis 2 is outside a tensor of 2 axes.",
        "x.transpose(0, 1)",
    ),
    Mistake(
        "movedim of unlike lists",
        "x.movedim((0, 1), (1,))",
        ArgumentError,
        "movedim: (0, 1) and (1,) do not pair up.",
        "x.movedim((0, 1), (1, 0))",
    ),
    Mistake(
        "flatten backwards",
        "x.flatten(1, 0)",
        ArgumentError,
        "flatten: start 1 lies behind end 0.",
        "x.flatten(0, 1)",
    ),
    Mistake(
        "repeat without a count for each axis",
        "x.repeat(2)",
        ArgumentError,
        "repeat: (2,) does not give a count for each axis of (2, 3).",
        "x.tile(2)",
    ),
    Mistake(
        "the axis of a number",
        "Tensor(1.0).unbind()",
        ShapeError,
        "unbind: a tensor of shape () has no axis.",
        "Tensor([1.0]).unbind()",
    ),
    Mistake(
        "softmax over an axis that is not there",
        "x.softmax(2)",
        ArgumentError,
        "softmax: axis 2 is outside a tensor of 2 axes.",
        "x.softmax(1)",
    ),
    Mistake(
        "a misspelt argument",
        "x.sum(axsi=1)",
        ArgumentError,
        "sum: no argument 'axsi'. Did you mean 'axis'? It takes: axis=None, keepdim=False,"
        " dtype=None, dim=None.",
        "x.sum(axis=1)",
    ),
    Mistake(
        "a missing argument",
        "x.matmul()",
        ArgumentError,
        "matmul: missing a required argument: 'other'. It takes: other, dtype=None.",
        "x.matmul(x.T)",
    ),
    Mistake(
        "too many arguments",
        "x.relu(0.1)",
        ArgumentError,
        "relu: too many positional arguments. It takes: nothing.",
        "x.leaky_relu(0.1)",
    ),
    Mistake(
        "a tensor expected",
        "x.linear(None)",
        ArgumentError,
        "linear: weight is a tensor, not None.",
        "x.linear(Tensor.ones(3, 4))",
    ),
    Mistake(
        "a number expected",
        'x.leaky_relu("steep")',
        ArgumentError,
        "leaky_relu: neg_slope is a number, not 'steep'.",
        "x.leaky_relu(0.1)",
    ),
    Mistake(
        "an integer expected",
        "x.chunk(1.5)",
        ArgumentError,
        "chunk: chunks is an integer, not 1.5.",
        "x.chunk(2)",
    ),
    Mistake(
        "a shape of floats",
        "x.reshape(6.0)",
        ArgumentError,
        "reshape: a size is an integer, not 6.0.",
        "x.reshape(6)",
    ),
    Mistake(
        "a shape of texts",
        'Tensor.zeros("3")',
        ArgumentError,
        "zeros: a size is an integer, not '3'.",
        "Tensor.zeros(3)",
    ),
    Mistake(
        "a negative size",
        "Tensor.zeros(2, -1)",
        ShapeError,
        "zeros: shape (2, -1) has a negative size.",
        "Tensor.zeros(2, 1)",
    ),
    Mistake(
        "more elements than a machine can number",
        "Tensor.zeros(2**40, 2**40)",
        ShapeError,
        "zeros: a tensor has fewer than 2**60 elements, not 1208925819614629174706176.",
        "Tensor.zeros(2**10, 2**10)",
    ),
    Mistake(
        "a mode that is not there",
        'x.pad((1, 1), mode="reflct")',
        ArgumentError,
        "pad: no mode named 'reflct'. Did you mean 'reflect'? Valid: constant, reflect,"
        " replicate, circular.",
        'x.pad((1, 1), mode="reflect")',
    ),
    Mistake(
        "an interpolation that is not there",
        'x.interpolate((6,), mode="liner")',
        ArgumentError,
        "interpolate: no mode named 'liner'. Did you mean 'linear'? Valid: linear,"
        " bilinear, trilinear, bicubic, nearest, nearest-exact.",
        'x.interpolate((6,), mode="linear")',
    ),
    Mistake(
        "an approximation that is not there",
        'x.gelu(approximate="tahn")',
        ArgumentError,
        "gelu: no approximate named 'tahn'. Did you mean 'tanh'? Valid: tanh, none.",
        'x.gelu(approximate="tanh")',
    ),
    Mistake(
        "a rounding mode that is not there",
        'x.div(2, rounding_mode="flor")',
        ArgumentError,
        "div: no rounding_mode named 'flor'. Did you mean 'floor'? Valid: floor, trunc.",
        'x.div(2, rounding_mode="floor")',
    ),
    Mistake(
        "a probability outside [0, 1]",
        "x.dropout(2)",
        ArgumentError,
        "dropout: a probability lies in [0, 1], not 2.",
        "x.dropout(0.2)",
    ),
    Mistake(
        "a piece beyond the axis",
        "x.narrow(1, 2, 2)",
        ShapeError,
        "narrow: 2 elements from 2 leave axis 1 of (2, 3).",
        "x.narrow(1, 1, 2)",
    ),
    Mistake(
        "windows wider than the axis",
        "x.unfold(1, 4)",
        ShapeError,
        "unfold: size 4, step 1 do not fit axis 1 of (2, 3).",
        "x.unfold(1, 3)",
    ),
    Mistake(
        "a negative repetition",
        "x.repeat_interleave(-1)",
        ArgumentError,
        "repeat_interleave: repeats is an integer of at least 0, not -1.",
        "x.repeat_interleave(2)",
    ),
    Mistake(
        "diagonals of one axis twice",
        "x.diagonal(0, 1, 1)",
        ShapeError,
        "diagonal: axes 1 and 1 of shape (2, 3) are not two axes.",
        "x.diagonal(0, 0, 1)",
    ),
    Mistake(
        "axes that do not pair up",
        "x.movedim((0, 1), 0)",
        ArgumentError,
        "movedim: (0, 1) and 0 do not pair up.",
        "x.movedim((0, 1), (1, 0))",
    ),
    Mistake(
        "an axis of odd size into halves",
        "x.glu()",
        ShapeError,
        "glu: axis 1 of shape (2, 3) does not split into halves.",
        "x.glu(0)",
    ),
    Mistake(
        "a norm along an axis that is not there",
        "x.norm(2, axis=2)",
        ArgumentError,
        "norm: axis 2 is outside a tensor of 2 axes.",
        "x.norm(2, axis=1)",
    ),
)

CHAPTER = Chapter(
    "Axes and arguments",
    "Names of arguments, axes, and numbers that count something.",
    MISTAKES,
    PRELUDE,
)
