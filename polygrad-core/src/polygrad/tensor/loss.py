"""Losses."""

from __future__ import annotations

from .convolution import Convolution


class Loss(Convolution):
    __slots__ = ()
