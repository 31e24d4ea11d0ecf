"""Random legal transform lists in place of the recipes: they must change nothing.

`random_list` draws verbs of the schedule language for one kernel; a choice that is not legal is
skipped. `random_transforms` makes code generation use such lists, in a runtime of its own, so that
nothing compiled before is found again.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import codegen, settings
from ..codegen import transform as verbs
from ..codegen.kernel import Kernel, canonical, extent, length, misplaced, static
from ..engine import kernels, runtime
from ..target import Target
from ..uop.ops import UOp

VERBS = (
    *("split", "block", "peel", "pad", "fuse", "reorder"),
    *("unroll", "lanes", "partial", "cover", "subtotals"),
)
VARYING = ("split", "block", "cover", "peel_whole")  # of a length known only when it runs


def random_list(kernel: Kernel, rng: random.Random, count: int) -> Kernel:
    """`count` random verbs, then some of the outputs bound to the grid.

    A verb alone may leave a loop order in which a reduction is read before it is there; recipes put
    that right with a `reorder` at the end, and here such a verb is undone.
    """
    for _ in range(count):
        with suppress(verbs.ScheduleError):
            made = random_verb(kernel, rng)
            kernel = made if misplaced(made) is None else kernel
    for loop in kernel.outputs:
        free = kernel.kind(loop) == "loop" and verbs.bindable(kernel, loop)
        if free and rng.random() < 0.5:
            made = verbs.bind(kernel, loop)
            kernel = made if misplaced(made) is None else kernel
    return kernel


def random_verb(kernel: Kernel, rng: random.Random) -> Kernel:
    """One verb with random arguments. Raises ScheduleError where it is not legal."""
    plain = [r for r in kernel.order if kernel.kind(r) == "loop" and extent(r) > 1]
    if not plain:
        return kernel
    loop = rng.choice(plain)
    if not static(loop):
        return getattr(verbs, rng.choice(VARYING))(kernel, loop, rng.randint(2, 8))  # type: ignore[no-any-return]
    n = length(loop)
    verb = rng.choice(VERBS)
    if verb == "cover":
        return verbs.cover(kernel, loop, rng.randint(2, n))
    if verb == "split":
        return verbs.split(kernel, loop, rng.choice([d for d in range(1, n + 1) if n % d == 0]))
    if verb == "block":
        return verbs.block(kernel, loop, rng.randint(1, n))
    if verb == "peel":
        return verbs.peel(kernel, loop, rng.randint(1, n - 1))
    if verb == "pad":
        return verbs.pad(kernel, loop, rng.randint(2, 6))
    if verb == "fuse":
        at = rng.randrange(len(kernel.order))
        return verbs.fuse(kernel, kernel.order[at - 1], kernel.order[at])
    if verb == "reorder":
        return verbs.reorder(kernel, rng.sample(kernel.order, len(kernel.order)))
    if verb == "unroll" and n <= 6:
        return verbs.unroll(kernel, loop)
    if verb == "lanes" and not kernel.of_kind("vector") and n in (2, 4, 8):
        return verbs.vectorize(kernel, loop)
    if verb == "partial" and n <= 6:
        return verbs.accumulate(kernel, loop)
    if verb == "subtotals":
        return verbs.subtotals(kernel, loop)
    return kernel


@contextmanager
def random_transforms(seed: int, count: int = 6) -> Iterator[None]:
    """Inside the block every kernel gets a random list drawn from `seed` and the kernel itself."""

    def optimize(sink: UOp, target: Target) -> Kernel:
        rng = random.Random(f"{seed} {kernels.content_name(sink)}")
        return random_list(canonical(sink), rng, count)

    kept = codegen.optimize, kernels._of_device
    codegen.optimize, kernels._of_device = optimize, weakref.WeakKeyDictionary()
    try:
        with settings.Context(POLY_CACHE=0), runtime.use(runtime.Runtime("fuzz")):
            yield
    finally:
        codegen.optimize, kernels._of_device = kept
