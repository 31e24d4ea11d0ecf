"""Random legal transform lists in place of the recipes: they must change nothing.

`random_list` draws verbs of the schedule language for one kernel; a choice that is not legal is
skipped. `random_neighbour` draws what the search may come across. `random_transforms`,
`random_neighbours` and `without_recipes` make code generation use such lists, in a runtime of its
own. A kernel that comes out as the recipes' own runs by the program that was compiled for those:
most of what a recipe is not asked for it would not have taken.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cache

from .. import codegen, settings
from ..codegen import transform as verbs
from ..codegen.chain_stages import is_chain
from ..codegen.kernel import Kernel, canonical, extent, length, misplaced, static
from ..codegen.lists import Choice, applied, finished, replay
from ..codegen.ordered import is_ordered
from ..codegen.recipes import RECIPES, choose, propose
from ..codegen.row_programs import stage
from ..codegen.search import machines, neighbours
from ..engine import kernels, runtime
from ..plugin import Device
from ..target import Target
from ..uop.ops import UOp

Optimize = Callable[[UOp, Target], Kernel]

VERBS = (
    *("split", "block", "peel", "pad", "fuse", "reorder"),
    *("unroll", "lanes", "partial", "cover", "subtotals", "stage"),
)
SCALAR = tuple(v for v in VERBS if v != "lanes")  # for machines without vectors
VARYING = ("split", "block", "cover", "pad", "peel_whole")  # of a length known only when it runs


def random_list(
    kernel: Kernel, rng: random.Random, count: int, choices: Sequence[str] = VERBS
) -> Kernel:
    """`count` random verbs of `choices`, then some of the outputs bound to the grid.

    A verb alone may leave a loop order in which a reduction is read before it is there; recipes put
    that right with a `reorder` at the end, and here such a verb is undone.
    """
    for _ in range(count):
        with suppress(verbs.ScheduleError):
            made = random_verb(kernel, rng, choices)
            kernel = made if misplaced(made) is None else kernel
    for loop in kernel.outputs:
        free = kernel.kind(loop) == "loop" and verbs.bindable(kernel, loop)
        if free and rng.random() < 0.5:
            made = verbs.bind(kernel, loop)
            kernel = made if misplaced(made) is None else kernel
    return kernel


def random_verb(kernel: Kernel, rng: random.Random, choices: Sequence[str] = VERBS) -> Kernel:
    """One verb with random arguments. Raises ScheduleError where it is not legal."""
    plain = [r for r in kernel.order if kernel.kind(r) == "loop" and extent(r) > 1]
    if not plain:
        return kernel
    loop = rng.choice(plain)
    if not static(loop):
        return getattr(verbs, rng.choice(VARYING))(kernel, loop, rng.randint(2, 8))  # type: ignore[no-any-return]
    n = length(loop)
    verb = rng.choice(choices)
    if verb == "stage" and kernel.reductions:
        return stage(kernel, rng.choice(kernel.reductions), rng.choice(kernel.order))
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


def random_neighbour(kernel: Kernel, target: Target, rng: random.Random) -> Kernel:
    """A list that the search may come across: of a recipe for a machine like this one, perhaps
    without those that fit first, and up to three changes of it."""
    if target.grid_only:
        return choose(kernel, target)
    machine = rng.choice([target, *machines(target)])
    without = list(RECIPES)[: rng.choice((0, 0, 0, 1, 2))]
    own = propose(kernel, target)
    choice = Choice(own.recipe, own.log)
    with suppress(verbs.ScheduleError):
        other = propose(kernel, machine, without)
        replay(kernel, Choice(other.recipe, other.log))
        choice = Choice(other.recipe, other.log)
    for _ in range(rng.randint(0, 3)):
        made = replace(kernel, recipe=choice.recipe)
        for entry in choice.verbs:
            made = applied(made, entry)
        near = list(neighbours(made, choice.verbs))
        for changed in rng.sample(near, min(4, len(near))):
            with suppress(verbs.ScheduleError):
                replay(kernel, Choice(choice.recipe, changed))
                choice = Choice(choice.recipe, changed)
                break
    return replay(kernel, choice)


def without_recipes(names: Collection[str]) -> AbstractContextManager[None]:
    """Inside the block no kernel is offered to the recipes named; with none left its loops stay as
    they are."""

    def optimize(sink: UOp, target: Target) -> Kernel:
        kernel = canonical(sink)
        if target.grid_only:
            return choose(kernel, target)
        with suppress(verbs.ScheduleError):  # a recipe that comes later may not fit
            made = propose(kernel, target, names)
            return finished(made)
        return finished(kernel)

    return _optimizing(optimize)


def random_transforms(seed: int, count: int = 6) -> AbstractContextManager[None]:
    """Inside the block every kernel gets a random list drawn from `seed` and the kernel itself."""

    def optimize(sink: UOp, target: Target) -> Kernel:
        rng = random.Random(f"{seed} {kernels.content_name(sink)}")
        verbs_of = VERBS if target.vector_bytes else SCALAR
        return random_list(canonical(sink), rng, count, verbs_of)

    return _optimizing(optimize)


def random_neighbours(seed: int) -> AbstractContextManager[None]:
    """The same with lists that the search may come across."""

    def optimize(sink: UOp, target: Target) -> Kernel:
        rng = random.Random(f"{seed} {kernels.content_name(sink)}")
        return random_neighbour(canonical(sink), target, rng)

    return _optimizing(optimize)


@contextmanager
def _optimizing(optimize: Optimize) -> Iterator[None]:
    """Code generation with another chooser, in a runtime and a table of kernels of its own."""
    recipes, plain = codegen.optimize, kernels.of
    chosen = cache(optimize)
    tables: dict[Device, _ByLists] = {}

    def of(device: Device) -> kernels.Kernels:
        if device not in tables:
            tables[device] = _ByLists(device, plain(device), recipes, chosen)
        return tables[device]

    kernels.of = of
    try:
        with (
            settings.Context(POLY_CACHE=0),
            runtime.use(runtime.Runtime("fuzz")),
            _chooser(chosen),
        ):
            yield
    finally:
        kernels.of = plain


@contextmanager
def _chooser(optimize: Optimize) -> Iterator[None]:
    kept = codegen.optimize
    codegen.optimize = optimize  # type: ignore[assignment]
    try:
        yield
    finally:
        codegen.optimize = kept


class _ByLists(kernels.Kernels):
    """Kernels as `chosen` has them; those that the recipes make alike are taken from `plain`."""

    def __init__(
        self, device: Device, plain: kernels.Kernels, recipes: Optimize, chosen: Optimize
    ) -> None:
        super().__init__(device)
        self._plain, self._recipes, self._chosen = plain, recipes, chosen

    def _compile(self, wanted: Sequence[kernels.Wanted]) -> None:
        alike = [one for one in wanted if self._alike(one[0])]
        with _chooser(self._recipes):
            self.known.update(zip(alike, self._plain.get([s for s, _ in alike]), strict=True))
        other = [one for one in wanted if one not in self.known]
        if other:
            super()._compile(other)

    def _alike(self, sink: UOp) -> bool:
        target = self.device.target
        whole = codegen.prepared(sink, target)
        if is_ordered(whole) or is_chain(whole):  # of these nobody chooses the loops
            return True
        return self._chosen(whole, target) == self._recipes(whole, target)
