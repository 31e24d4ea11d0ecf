"""Mistakes with gradients."""

from __future__ import annotations

from polygrad.errors import ArgumentError, DTypeError, GradientError, ShapeError

from .mistake import Chapter, Mistake

PRELUDE = "w = Tensor([1.0, 2.0], requires_grad=True)"

MISTAKES = (
    Mistake(
        "backward from many numbers",
        "(w * w).backward()",
        GradientError,
        "backward starts from one number, not shape (2,); use .sum().backward() or pass gradient=.",
        "(w * w).sum().backward()",
    ),
    Mistake(
        "a text where True or False belongs",
        'Tensor([1.0], requires_grad="yes")',
        ArgumentError,
        "requires_grad is True, False or None, not 'yes'.",
        "Tensor([1.0], requires_grad=True)",
    ),
    Mistake(
        "backward from integers",
        "Tensor([1, 2]).sum().backward()",
        GradientError,
        "backward: int64 has no gradient; only floats do.",
        "w.sum().backward()",
    ),
    Mistake(
        "backward with nothing to reach",
        "Tensor([1.0], requires_grad=False).sum().backward()",
        GradientError,
        "backward: no leaf tensors require grad: none is a float, or all are detached or were"
        " assigned to since.",
        "w.sum().backward()",
    ),
    Mistake(
        "backward through detach",
        "w.detach().sum().backward()",
        GradientError,
        "backward: nothing flows to any leaf.",
        "w.sum().backward()",
    ),
    Mistake(
        "a seed of another shape",
        "w.sum().backward(gradient=Tensor([1.0, 1.0]))",
        ShapeError,
        "backward: gradient has shape (2,), the tensor ().",
        "w.sum().backward(gradient=Tensor(1.0))",
    ),
    Mistake(
        "the gradient of a stranger",
        "w.sum().gradient(Tensor([1.0]))",
        GradientError,
        "gradient: the tensor does not depend on target 0 (shape (1,)).",
        "w.sum().gradient(w)",
    ),
    Mistake(
        "the gradient of integers",
        "w.sum().gradient(Tensor([1]))",
        GradientError,
        "gradient: a target of int32 has none; only floats do.",
        "w.sum().gradient(w)",
    ),
    Mistake(
        "integers that require a gradient",
        "Tensor([1, 2], requires_grad=True)",
        DTypeError,
        "only float tensors take gradients, not int32.",
        "Tensor([1.0, 2.0], requires_grad=True)",
    ),
    Mistake(
        "integers marked later",
        "Tensor([1, 2]).requires_grad_()",
        DTypeError,
        "only float tensors take gradients, not int32.",
        "Tensor([1, 2]).float().requires_grad_()",
    ),
)

CHAPTER = Chapter(
    "Gradients",
    "Gradients flow from one number to floats.",
    MISTAKES,
    PRELUDE,
)
