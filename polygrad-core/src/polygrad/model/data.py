"""Batches: what `fit` feeds to each step, as the bytes of each input.

`data` is a mapping of names to arrays whose first axis counts samples, or an iterable of such
mappings, each one batch. Samples are visited in order, or in an order drawn anew for each epoch
with `shuffle`; nothing is padded, and an incomplete last batch is an error unless `remainder` says
what to do with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, NamedTuple, Protocol

from ..errors import ArgumentError, ShapeError, UnknownName, no_such, shown
from ..uop.sizes import most
from .signature import Spec, Values, check_names, check_shape, fits, host_array

Specs = Mapping[str, Spec]
REMAINDERS = ("error", "drop", "keep")


class Batch(dict[str, memoryview]):
    """The bytes of each input, and the values of the variables in their shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: Values = {}


class Batches(Protocol):
    """A source of batches. `steps` are those of one epoch, None where it cannot be known."""

    @property
    def steps(self) -> int | None: ...

    size: int  # samples in a batch

    def epoch(self, number: int) -> Iterator[Batch]: ...


def batches(
    data: Any, specs: Specs, batch_size: int | None, remainder: str, shuffle: bool | int
) -> Batches:
    """The source that `data` and the arguments of `fit` describe; raises before any step."""
    if remainder not in REMAINDERS:
        raise UnknownName(no_such("remainder", remainder, REMAINDERS))
    if not isinstance(shuffle, int):
        raise ArgumentError(f"fit: shuffle is True, False or a seed, not {shown(shuffle)}.")
    if not isinstance(data, Mapping):
        if not isinstance(data, Iterable):
            raise ArgumentError(
                f"fit: data is a mapping of names to arrays, or an iterable of such,"
                f" not {shown(data)}."
            )
        return _Stream(data, specs)
    check_names(data, specs, "fit")
    if batch_size is None:
        return _Whole(data, specs)
    return _Sliced(data, specs, batch_size, remainder, shuffle)


def one(data: Any, specs: Specs) -> Batch:
    """A single batch, checked against the declared shapes."""
    if not isinstance(data, Mapping):
        raise ArgumentError(f"fit: a batch maps names to arrays, not {shown(data)}.")
    check_names(data, specs, "fit")
    batch = Batch()
    for name, spec in specs.items():
        view, shape = host_array(f"fit: {name!r}", data[name], spec.dtype)
        check_shape(f"fit: {name!r}", shape, spec, batch.sizes)
        batch[name] = view
    return batch


def _samples(specs: Specs) -> int:
    return next((most(s.shape[0]) for s in specs.values() if s.shape), 1)


class _Whole:
    """The whole data at each step."""

    steps = 1

    def __init__(self, data: Mapping[str, Any], specs: Specs) -> None:
        self.size = _samples(specs)
        try:
            self.batch = one(data, specs)
        except ShapeError as e:
            raise ShapeError(f"{e} Give batch_size= to visit the data in parts.") from None

    def epoch(self, number: int) -> Iterator[Batch]:
        yield self.batch


class _Stream:
    """Batches that somebody else makes."""

    def __init__(self, data: Iterable[Any], specs: Specs) -> None:
        self.data, self.specs, self.size = data, specs, _samples(specs)
        self.steps = len(data) if isinstance(data, Sized) else None
        self.once = iter(data) is data
        if isinstance(data, Sequence) and data:
            one(data[0], specs)  # the rest when its turn comes

    def epoch(self, number: int) -> Iterator[Batch]:
        if self.once and number > 0:
            raise ArgumentError(
                "fit: a generator gives its batches once; pass a list, or an object whose"
                " __iter__ starts anew, for several epochs."
            )
        for batch in self.data:
            yield one(batch, self.specs)


class _Column(NamedTuple):
    """All samples of one input, `row` bytes and `shape` each."""

    data: memoryview
    row: int
    shape: tuple[int, ...]

    def part(self, rows: Sequence[int]) -> memoryview:
        """The bytes of some samples; neighbours are not copied."""
        row = self.row
        if isinstance(rows, range):
            return self.data[rows.start * row : rows.stop * row]
        return memoryview(b"".join([self.data[i * row : (i + 1) * row] for i in rows]))


class _Sliced:
    """Arrays cut into batches of one size; the last may be smaller where the shapes vary."""

    def __init__(
        self,
        data: Mapping[str, Any],
        specs: Specs,
        size: int,
        remainder: str,
        shuffle: bool | int,
    ) -> None:
        self.size, self.shuffle, self.specs = size, shuffle, specs
        self.columns, self.count = _columns(data, specs)
        self.steps, rest = divmod(self.count, self._checked_size(specs))
        self.used = self.steps * size
        if rest and remainder == "keep" and self._admits(rest):
            self.steps, self.used = self.steps + 1, self.count
        elif rest and remainder != "drop":
            raise ArgumentError(self._partial(rest, remainder))
        if not self.steps:
            raise ArgumentError(f"fit: {self.count} samples make no batch of {size}.")

    def _checked_size(self, specs: Specs) -> int:
        if type(self.size) is not int or self.size < 1:
            raise ArgumentError(f"fit: batch_size={self.size!r} is no whole number of 1 or more.")
        for name, spec in specs.items():
            if not fits((self.size,), spec.shape[:1]):
                raise ArgumentError(
                    f"fit: batch_size={self.size}, but {name!r} is declared {spec}:"
                    f" its batches have {spec.shape[0]} samples."
                )
        return self.size

    def _admits(self, rest: int) -> bool:
        return all(fits((rest,), s.shape[:1]) for s in self.specs.values())

    def _partial(self, rest: int, remainder: str) -> str:
        text = f"fit: {self.count} samples leave {rest} over in batches of {self.size}"
        if remainder == "keep":
            return (
                f"{text}, which the declared shapes do not admit; remainder='drop' leaves them out."
            )
        return f"{text}; remainder='drop' leaves them out of each epoch."

    def epoch(self, number: int) -> Iterator[Batch]:
        order: Sequence[int] = range(self.count)
        if self.shuffle is not False:
            seed = "" if self.shuffle is True else f"{self.shuffle}/"
            order = random.Random(f"{seed}{number}").sample(order, self.count)
        for start in range(0, self.used, self.size):
            rows = order[start : start + self.size]
            batch = Batch()
            for name, column in self.columns.items():
                batch[name] = column.part(rows)
                shape, spec = (len(rows), *column.shape), self.specs[name]
                check_shape(f"fit: {name!r}", shape, spec, batch.sizes)
            yield batch


def _columns(data: Mapping[str, Any], specs: Specs) -> tuple[dict[str, _Column], int]:
    columns: dict[str, _Column] = {}
    counts: dict[str, int] = {}
    for name, spec in specs.items():
        what = f"fit: {name!r}"
        view, shape = host_array(what, data[name], spec.dtype)
        if not shape or not spec.shape or not fits(shape[1:], spec.shape[1:]):
            raise ShapeError(
                f"{what} is declared {spec}, got samples in an array of shape {shape}."
            )
        counts[name] = shape[0]
        columns[name] = _Column(view, view.nbytes // max(shape[0], 1), shape[1:])
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{n!r} {c}" for n, c in counts.items())
        raise ShapeError(f"fit: the inputs have different numbers of samples: {shown}.")
    return columns, next(iter(counts.values()), 0)
