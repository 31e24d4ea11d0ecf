"""For people who test devices and the programs that use them.

`isolated_registry` gives a test its own world of plugins; `python -m polygrad.testing.fuzz`
compares devices on random programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .. import device, registry
from ..hooks import installed as hooks
from ..plugin import Descriptor

__all__ = ["isolated_registry"]


@contextmanager
def isolated_registry(*descriptors: Descriptor) -> Iterator[None]:
    """Only `descriptors` are installed inside the block; devices opened in it are closed after it.

    >>> with isolated_registry():
    ...     device.names()
    ()
    """
    with registry.isolated(*descriptors), hooks.isolated(), device.isolated():
        yield
