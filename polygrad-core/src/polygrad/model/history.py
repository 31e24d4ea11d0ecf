"""What `fit` gives back, and what it shows meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from .._lazy import optional
from ..errors import public


class Step(NamedTuple):
    """What a callback of `fit` is told after each step."""

    number: int  # from 1, over all epochs
    epoch: int  # from 1
    loss: float


@public
class History(Sequence[float]):
    """The loss of each step; `validation` losses and `seconds` of each epoch."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.validation: list[float] = []
        self.seconds: list[float] = []

    @overload
    def __getitem__(self, i: int) -> float: ...
    @overload
    def __getitem__(self, i: slice) -> list[float]: ...
    def __getitem__(self, i: int | slice) -> float | list[float]:
        return self.losses[i]

    def __len__(self) -> int:
        return len(self.losses)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, History):
            return self.losses == other.losses
        return self.losses == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if not self.losses:
            return "History(no step)"
        first, last = self.losses[0], self.losses[-1]
        return f"History({len(self)} steps, loss {first:.4g} -> {last:.4g})"

    def plot(self, ax: Any = None) -> Any:
        """Draw the losses with matplotlib; returns the axes. Raises PackageMissing without it."""
        if ax is None:
            ax = optional("matplotlib.pyplot", "plot()").gca()
        ax.plot(range(1, len(self) + 1), self.losses, label="loss")
        if self.validation:
            every = len(self) // len(self.validation)
            steps = range(every, len(self) + 1, every)
            ax.plot(steps[: len(self.validation)], self.validation, "o-", label="validation")
        ax.set_xlabel("step")
        ax.legend()
        return ax


class Progress:
    """A bar (tqdm, where installed) or a line per epoch on a terminal; silent anywhere else."""

    def __init__(self, wanted: bool, epochs: int, steps: int | None, batch: int) -> None:
        self.epochs, self.steps, self.batch = epochs, steps, batch
        self.shown = wanted and (_terminal() or _notebook())
        self.bar: Any = None
        self.last = 0.0
        if self.shown:
            total = None if steps is None else epochs * steps
            self.bar = _tqdm(total)

    def step(self, at: Step) -> None:
        """Called after each step; shows ten times a second at most."""
        if self.bar is not None:
            self.bar.update(1)
            now = time.perf_counter()
            if now - self.last >= 0.1:
                self.last = now
                rate = self.bar.format_dict.get("rate") or 0.0
                shown = {"epoch": f"{at.epoch}/{self.epochs}", "loss": f"{at.loss:.4f}"}
                self.bar.set_postfix(
                    shown | {"samples/s": f"{rate * self.batch:.0f}"}, refresh=False
                )

    def epoch(self, number: int, history: History) -> None:
        """Called after each epoch, which counts from 1."""
        if self.shown and self.bar is None and history:
            more = f"  validation {history.validation[-1]:.4f}" if history.validation else ""
            line = f"epoch {number}/{self.epochs}  loss {history[-1]:.4f}{more}"
            print(f"{line}  {history.seconds[-1]:.2f} s", file=sys.stderr)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _tqdm(total: int | None) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit="step", dynamic_ncols=True)
