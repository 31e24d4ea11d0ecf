"""Search: is there a faster transform list than the recipe's?

It begins with what the recipes propose: for this machine, and for machines that differ from it
(half the vector, fewer registers, other caches), as every number of a recipe comes from its
Target; also with the recipes that would have come next. From the `width` fastest of them it goes
to their neighbours in the space of verbs: another factor, a verb less, two loops exchanged, a verb
more; and on from the fastest of those, until nothing is faster or time is up.

Each list is checked by its verbs like any other. What it gives is compiled, validated and timed by
a `Bench`, which the engine passes in: this floor runs nothing. Long float sums are cut in blocks
after every list, so a faster kernel is never a less exact one.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from ..target import Target
from .cost import printed
from .kernel import Kernel, extent, length, static
from .lists import Choice, Entry, applied, finished
from .recipes import RECIPES, propose
from .transform import ScheduleError, bindable

GAIN: Final = 0.98  # part of the best time below which a change is a step forward
WORTH: Final = 0.95  # part of the recipe's time below which a winner is worth its other bits
FEWER: Final = (0.75, 0.5)  # registers of other machines
FACTORS: Final = (2, 4, 8)  # of a split that a neighbour adds
SHORT: Final = 16  # steps of a loop that a neighbour may print out
LONG_TEXT: Final = 1500  # instructions that any candidate may have
LONGER: Final = 2  # times the recipe's own: those too
LEAST_VECTOR: Final = 8  # bytes
_FACTORED: Final = ("split", "block", "cover")
_KINDS: Final = ("grid", "unroll", "partial", "vector", "stream", "stage")

Verbs = tuple[Entry, ...]


class Bench(Protocol):
    """Runs kernels that compute the same thing."""

    def measure(self, kernel: Kernel, best: float) -> float | None:
        """Seconds of one run; those of a first impression if it is clearly slower than `best`.
        None if it cannot be compiled, or gives another result than the recipe's."""

    def duel(self, first: Kernel, second: Kernel) -> tuple[float, float]:
        """Seconds of both, measured in turns."""


class Found(NamedTuple):
    """The result of a search. No `choice`: the recipe's own list is the fastest."""

    choice: Choice | None
    before: float  # seconds of the recipe's list
    after: float  # seconds of the chosen one
    tried: int  # lists that ran
    refused: int  # lists that could not be compiled or gave wrong results


class _Candidate(NamedTuple):
    choice: Choice
    kernel: Kernel
    seconds: float


def search(canonical: Kernel, target: Target, width: int, bench: Bench, seconds: float) -> Found:
    """The fastest list within reach. Raises RuntimeError if the recipe's own does not run."""
    return _Search(canonical, target, width, bench, time.monotonic() + seconds).run()


class _Search:
    def __init__(
        self, canonical: Kernel, target: Target, width: int, bench: Bench, ends: float
    ) -> None:
        self.canonical, self.target, self.bench = canonical, target, bench
        self.width, self.ends = width, ends
        self.seen: set[Verbs] = set()
        self.ran: set[Verbs] = set()
        self.best = float("inf")
        self.longest: int | None = None  # instructions of a candidate: to compile costs time too
        self.tried = self.refused = 0

    def run(self) -> Found:
        beam = sorted(self.timed(self.starts()), key=_seconds)
        first = next((c for c in beam if c.choice == self.own), None)
        if first is None:
            raise RuntimeError("the recipe's own list did not run")
        beam = beam[: self.width]
        while True:
            before = beam[0].seconds
            near = self.timed(n for c in beam for n in self.near(c))
            beam = sorted((*beam, *near), key=_seconds)[: self.width]
            if beam[0].seconds >= GAIN * before or self.over:
                return self.found(first, beam[0])

    def found(self, first: _Candidate, best: _Candidate) -> Found:
        """The better of the recipe's list and the fastest one, both measured anew."""
        if best.choice == first.choice:
            return Found(None, first.seconds, first.seconds, self.tried, self.refused)
        before, after = self.bench.duel(first.kernel, best.kernel)
        if after >= WORTH * before:
            return Found(None, before, before, self.tried, self.refused)
        return Found(best.choice, before, after, self.tried, self.refused)

    @property
    def over(self) -> bool:
        return time.monotonic() > self.ends

    # ---- candidates

    def starts(self) -> Iterator[Choice]:
        """What recipes propose here, on other machines, and without the recipe that fits first."""
        own = propose(self.canonical, self.target)
        self.own = Choice(own.recipe, own.log)
        yield self.own
        for without in _fewer():
            for machine in (self.target, *machines(self.target)):
                try:
                    made = propose(self.canonical, machine, without)
                except ScheduleError:
                    continue  # the recipe's verbs do not fit a kernel that is not its own
                yield Choice(made.recipe, made.log)

    def near(self, candidate: _Candidate) -> Iterator[Choice]:
        recipe, verbs = candidate.choice
        kernel = replace(self.canonical, recipe=recipe)
        for entry in verbs:
            kernel = applied(kernel, entry)
        for changed in neighbours(kernel, verbs):
            yield Choice(recipe, changed)

    def timed(self, choices: Iterable[Choice]) -> list[_Candidate]:
        """Those that are new, legal and right, with their times."""
        out = []
        for choice in choices:
            if choice.verbs in self.seen or (self.over and self.seen):
                continue
            self.seen.add(choice.verbs)
            kernel = self.legal(choice)
            if kernel is None or kernel.log in self.ran:  # a verb may have had nothing to do
                continue
            self.ran.add(kernel.log)
            seconds = self.bench.measure(kernel, self.best)
            self.tried += 1
            if seconds is None:
                self.refused += 1
                continue
            self.best = min(self.best, seconds)
            out.append(_Candidate(choice, kernel, seconds))
        return out

    def legal(self, choice: Choice) -> Kernel | None:
        kernel = replace(self.canonical, recipe=choice.recipe)
        try:
            for entry in choice.verbs:
                kernel = applied(kernel, entry)
            made = finished(kernel)
        except ScheduleError:
            return None
        if self.longest is None:  # the first is the recipe's
            self.longest = max(LONG_TEXT, LONGER * printed(made))
        return made if printed(made) <= self.longest else None


def _seconds(candidate: _Candidate) -> float:
    return candidate.seconds


def _fewer() -> Iterator[Collection[str]]:
    """No recipe left out, then the first, the first two, …"""
    names = list(RECIPES)
    return (names[:count] for count in range(len(names)))


def machines(target: Target) -> Iterator[Target]:
    """Machines like this one whose recipes may say something else."""
    vector = target.vector_bytes // 2
    while vector >= LEAST_VECTOR:
        yield replace(target, vector_bytes=vector)
        vector //= 2
    for part in FEWER:
        yield replace(target, registers=int(target.registers * part))
    for scale in (1 / 4, 4):
        yield replace(target, cache_bytes=tuple(int(c * scale) for c in target.cache_bytes))


# ---- the space of verbs


def neighbours(kernel: Kernel, verbs: Verbs) -> Iterator[Verbs]:
    """Lists one change away from `verbs`, which make `kernel`. Not all of them are legal."""
    yield from _refactored(verbs)
    yield from _without(verbs)
    yield from _exchanged(kernel, verbs)
    for more in _additions(kernel):
        yield (*verbs, *more)


def _refactored(verbs: Verbs) -> Iterator[Verbs]:
    """Twice or half a factor."""
    for i, entry in enumerate(verbs):
        if entry[0] in _FACTORED:
            name, loop, factor = entry
            for other in (factor * 2, factor // 2):
                if other > 1:
                    yield (*verbs[:i], (name, loop, other), *verbs[i + 1 :])


def _without(verbs: Verbs) -> Iterator[Verbs]:
    """A verb less, of those that make no new ranges; or the other way to print a reduction out."""
    for i, entry in enumerate(verbs):
        if entry[0] in _KINDS:
            yield (*verbs[:i], *verbs[i + 1 :])
        if entry[0] in ("unroll", "partial"):
            other = "partial" if entry[0] == "unroll" else "unroll"
            yield (*verbs[:i], (other, entry[1]), *verbs[i + 1 :])


def _exchanged(kernel: Kernel, verbs: Verbs) -> Iterator[Verbs]:
    """Two neighbouring loops in the other order; blocks and lanes have no place in it."""
    order = [r.arg[0] for r in kernel.order]
    last = verbs[-1] if verbs and verbs[-1][0] == "reorder" else None
    kept = verbs[:-1] if last else verbs
    for i, (a, b) in enumerate(zip(kernel.order, kernel.order[1:], strict=False)):
        if not {kernel.kind(a), kernel.kind(b)} & {"grid", "vector"}:
            swapped = (*order[:i], order[i + 1], order[i], *order[i + 2 :])
            yield (*kept, ("reorder", *swapped))


def _additions(kernel: Kernel) -> Iterator[Verbs]:
    """Verbs for a loop that is still an ordinary one."""
    free = kernel.fresh(2)
    for loop in kernel.order:
        if kernel.kind(loop) != "loop" or not static(loop):
            continue
        number, n = loop.arg[0], length(loop)
        reduced = loop in kernel.reduced
        kinds = ("unroll", "partial") if reduced else ("unroll",)
        if 1 < n <= SHORT:
            yield from (((kind, number),) for kind in kinds)
        for factor in FACTORS:
            if n % factor == 0 and n > factor:
                part = ("split", number, factor)
                yield from ((part, (kind, free + 1)) for kind in kinds)
        if loop in kernel.outputs and bindable(kernel, loop):
            yield (("grid", number),)
            yield from ((("block", number, b), ("grid", free)) for b in _blocks(extent(loop)))


def _blocks(n: int) -> Iterator[int]:
    """Sizes of blocks that leave a loop some of them."""
    block = 4
    while block * 4 <= n:
        yield block
        block *= 4
