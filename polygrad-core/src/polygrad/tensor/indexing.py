"""Indexing."""

from __future__ import annotations

from .random import Random


class Indexing(Random):
    __slots__ = ()
