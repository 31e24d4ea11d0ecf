"""The table of mistakes, in the order of the page."""

from __future__ import annotations

from . import (
    authors,
    axes,
    devices,
    files,
    gradients,
    jits,
    layers,
    losses,
    making,
    models,
    orders,
    products,
    runtimes,
    shapes,
    sizes,
    values,
)
from .mistake import Chapter

CHAPTERS: tuple[Chapter, ...] = (
    shapes.CHAPTER,
    products.CHAPTER,
    axes.CHAPTER,
    sizes.CHAPTER,
    making.CHAPTER,
    values.CHAPTER,
    losses.CHAPTER,
    orders.CHAPTER,
    gradients.CHAPTER,
    devices.CHAPTER,
    runtimes.CHAPTER,
    jits.CHAPTER,
    layers.CHAPTER,
    models.CHAPTER,
    authors.CHAPTER,
    files.CHAPTER,
)
