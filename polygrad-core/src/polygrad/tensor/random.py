"""Random."""

from __future__ import annotations

from .creation import Creation


class Random(Creation):
    __slots__ = ()
