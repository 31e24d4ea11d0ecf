"""Transform lists as data: a stored list, applied again, gives the kernel that it was taken from.

A list comes from a cache or from a file, so nothing about it is believed: every entry goes through
its verb, which checks it, and `illegal` looks at what came out before anything is printed. A list
can make a kernel slow; it cannot make it wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ..uop.linear import ranges_of
from ..uop.ops import Ops, UOp, size
from . import hints, row_programs
from . import transform as verbs
from .kernel import Kernel, extent, length, misplaced
from .recipes import RECIPES
from .recipes.blocks import in_blocks, unblocked
from .recipes.contraction import ungated
from .transform import ScheduleError

LANGUAGE: Final = 1  # of the entries' meaning; a stored list of another one is not used
LONGEST: Final = 200  # entries of a list
PRINTED: Final = 512  # steps of printed-out loops around one value, lanes aside
MOST_LANES: Final = 64

Entry = tuple[Any, ...]  # the name of a verb and its numbers, as in `Kernel.log`


class Choice(NamedTuple):
    """How one kernel shall run: the recipe that it began with, and the list of verbs."""

    recipe: str
    verbs: tuple[Entry, ...]


def replay(kernel: Kernel, choice: Choice) -> Kernel:
    """The canonical kernel as `choice` has it, long float sums in blocks. Raises ScheduleError."""
    for entry in choice.verbs:
        kernel = applied(kernel, entry)
    return finished(replace(kernel, recipe=choice.recipe))


def finished(kernel: Kernel) -> Kernel:
    """What every list ends with: sums in blocks, and a look at the whole. Raises ScheduleError."""
    made = in_blocks(kernel)
    wrong = illegal(made)
    if wrong:
        raise ScheduleError(wrong)
    return made


def applied(kernel: Kernel, entry: Entry) -> Kernel:
    """One entry of a list. Raises ScheduleError."""
    name, *numbers = entry
    if name not in _VERBS:
        raise ScheduleError(f"{name!r} is no verb")
    return _VERBS[name](kernel, numbers)


# ---- one function per kind of entry


def _range(kernel: Kernel, number: int, verb: str) -> UOp:
    found = next((r for r in kernel.order if r.arg[0] == number), None)
    if found is None:
        raise ScheduleError(f"{verb}: there is no range {number}")
    return found


def _takes(count: int, name: str, numbers: Sequence[int]) -> None:
    if len(numbers) != count:
        raise ScheduleError(f"{name}: {count} numbers are expected, got {len(numbers)}")


def _on_ranges(
    name: str, verb: Callable[..., Kernel], ranges: int, more: int = 0
) -> Callable[[Kernel, Sequence[int]], Kernel]:
    """An entry of `ranges` ranges followed by `more` plain numbers."""

    def apply(kernel: Kernel, numbers: Sequence[int]) -> Kernel:
        _takes(ranges + more, name, numbers)
        loops = [_range(kernel, n, name) for n in numbers[:ranges]]
        return verb(kernel, *loops, *numbers[ranges:])

    return apply


def _reorder(kernel: Kernel, numbers: Sequence[int]) -> Kernel:
    return verbs.reorder(kernel, [_range(kernel, n, "reorder") for n in numbers])


def _stage(kernel: Kernel, numbers: Sequence[int]) -> Kernel:
    """The first reduction over this range whose values the stores need again."""
    _takes(2, "stage", numbers)
    reduced, loop = (_range(kernel, n, "stage") for n in numbers)
    for node in kernel.reductions:
        if node.src[1:] == (reduced,):
            try:
                return row_programs.stage(kernel, node, loop)
            except ScheduleError:
                continue  # the values of another one may be meant
    raise ScheduleError(f"stage: no reduction over range {numbers[0]} can be staged")


def _stream(kernel: Kernel, numbers: Sequence[int]) -> Kernel:
    _takes(1, "stream", numbers)
    return verbs.stream(kernel, numbers[0])


def _prefetch(kernel: Kernel, numbers: Sequence[int]) -> Kernel:
    _takes(3, "prefetch", numbers)
    load, loop, steps = numbers
    return hints.prefetch(kernel, load, _range(kernel, loop, "prefetch"), steps)


def _ask(kernel: Kernel, numbers: Sequence[int]) -> Kernel:
    if len(numbers) < 3:
        raise ScheduleError(f"ask: 3 numbers or more are expected, got {len(numbers)}")
    load, *loops = numbers
    return hints.ask(kernel, load, *(_range(kernel, n, "ask") for n in loops))


def _ungate(kernel: Kernel, numbers: Sequence[int]) -> Kernel:
    made = ungated(kernel)
    if made is kernel:
        raise ScheduleError("ungate: no factor of a product has a condition to lose")
    return made


_VERBS: Final[Mapping[str, Callable[[Kernel, Sequence[int]], Kernel]]] = {
    "split": _on_ranges("split", verbs.split, 1, 1),
    "block": _on_ranges("block", verbs.block, 1, 1),
    "cover": _on_ranges("cover", verbs.cover, 1, 1),
    "pad": _on_ranges("pad", verbs.pad, 1, 1),
    "peel": _on_ranges("peel", verbs.peel, 1, 1),
    "peel_whole": _on_ranges("peel_whole", verbs.peel_whole, 1, 1),
    "fuse": _on_ranges("fuse", verbs.fuse, 2),
    "reorder": _reorder,
    "grid": _on_ranges("grid", verbs.bind, 1),
    "vector": _on_ranges("vector", verbs.vectorize, 1),
    "unroll": _on_ranges("unroll", verbs.unroll, 1),
    "partial": _on_ranges("partial", verbs.accumulate, 1),
    "subtotal": _on_ranges("subtotal", verbs.subtotals, 1),
    "stage": _stage,
    "delay": _on_ranges("delay", row_programs.delay, 3),
    "stream": _stream,
    "prefetch": _prefetch,
    "ask": _ask,
    "ungate": _ungate,
}


# ---- the whole


def illegal(kernel: Kernel) -> str:
    """What is wrong with a transformed kernel; an empty string where nothing is."""
    late = misplaced(kernel)
    if late is not None:
        return f"a loop stands around a reader of {late.op.name} but not around it"
    vectors = frozenset(kernel.of_kind("vector"))
    if any(length(r) > MOST_LANES for r in vectors):
        return f"a vector has more than {MOST_LANES} lanes"
    printed = {r for r in kernel.order if kernel.kind(r) in ("unroll", "partial")}
    for node in kernel.nodes:
        inside = ranges_of(node)
        if node.op is Ops.REDUCE:
            inside = inside.union(ranges_of(node.src[0]), node.src[1:])
        if len(inside & vectors) > 1:
            return f"two vector ranges meet in {node.op.name}"
        if size([extent(r) for r in inside & printed]) > PRINTED:
            return f"more than {PRINTED} steps are printed out"
        if node.op is Ops.STORE and node.arg == "nt" and not verbs.by_vectors(kernel, node):
            return "a store past the caches is no longer of whole vectors"
    return "a long sum is printed out whole" if unblocked(kernel) else ""


# ---- as JSON


def written(choice: Choice) -> dict[str, Any]:
    return {"recipe": choice.recipe, "verbs": [list(entry) for entry in choice.verbs]}


def read(value: Any) -> Choice:
    """The Choice of a JSON value. Raises ValueError for anything that is none."""
    if not isinstance(value, dict) or set(value) != {"recipe", "verbs"}:
        raise ValueError("a choice has a recipe and verbs")
    recipe, listed = value["recipe"], value["verbs"]
    if recipe not in (*RECIPES, ""):
        raise ValueError("the recipe is unknown")
    if not isinstance(listed, list) or len(listed) > LONGEST or not all(map(_is_entry, listed)):
        raise ValueError("the verbs are no list of names with numbers")
    return Choice(recipe, tuple(map(tuple, listed)))


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, list) or not 1 <= len(entry) <= LONGEST or entry[0] not in _VERBS:
        return False
    return all(type(n) is int and 0 <= n < 1 << 31 for n in entry[1:])
