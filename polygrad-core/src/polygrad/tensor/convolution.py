"""Convolution."""

from __future__ import annotations

from .linalg import Linalg


class Convolution(Linalg):
    __slots__ = ()
