"""Sums of products with re-use: matmul, batched matmul, convolution and their gradients."""

from __future__ import annotations

from ...target import Target
from ..kernel import Kernel


def apply(kernel: Kernel, target: Target) -> Kernel | None:
    return None
