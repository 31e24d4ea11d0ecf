"""Python's collector of cycles, left alone while nothing but what stays is made.

To capture and compile a graph makes nodes by the hundred thousand and lets most of them live until
it ends, so that each full collection walks all of them and finds nothing: an eighth of the time for
a decoder of 48 layers. To import modules and to open a device makes what lives as long as the
process: it joins the oldest objects at once, where else the first collection that comes would walk
it for nothing. What nobody holds goes by its count of references meanwhile.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No collection of cycles inside, unless another thread that came first ends before."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@contextmanager
def lasting() -> Iterator[None]:
    """`paused`, for what stays as long as the process."""
    with paused():
        yield
        if not gc.get_freeze_count():  # nobody else's frozen objects are let loose
            gc.freeze()
            gc.unfreeze()
