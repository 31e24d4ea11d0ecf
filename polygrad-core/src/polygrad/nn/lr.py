"""Learning-rate schedules as data: kind and numbers, so that they can be kept in a file.

`resolve(schedule, step)` gives the rate of the 1-based `step`. A number is a constant schedule. An
optimizer that was given a schedule follows it by itself; a `LR_Scheduler` sets the rate by hand.

>>> schedule = warmup(0.1, 100, cosine_decay(0.1, 0.001, 900))
>>> resolve(schedule, 100)
0.1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ArgumentError, UnknownName, no_such, public, shown

__all__ = [
    "LRSchedulerGroup",
    "LR_Scheduler",
    "OneCycleLR",
    "Schedule",
    "constant",
    "cosine_decay",
    "linear_decay",
    "multi_step",
    "one_cycle",
    "resolve",
    "resolve_lr",
    "step",
    "warmup",
]

Schedule = Mapping[str, Any]


def constant(value: float) -> Schedule:
    """`value` at every step.

    >>> resolve(constant(0.1), 5)
    0.1
    """
    return {"kind": "constant", "value": value}


def linear_decay(peak: float, final: float, steps: int) -> Schedule:
    """``peak + (final - peak) * min(step / steps, 1)``.

    >>> resolve(linear_decay(1.0, 0.0, 4), 1), resolve(linear_decay(1.0, 0.0, 4), 9)
    (0.75, 0.0)
    """
    return {"kind": "linear_decay", "peak": peak, "final": final, "steps": steps}


def cosine_decay(peak: float, final: float, steps: int) -> Schedule:
    """Half a cosine from `peak` to `final` (Loshchilov and Hutter 2017), then `final`.

    >>> round(resolve(cosine_decay(1.0, 0.0, 4), 2), 6)
    0.5
    """
    return {"kind": "cosine_decay", "peak": peak, "final": final, "steps": steps}


def warmup(peak_lr: float, warmup_steps: int, after: Schedule | float) -> Schedule:
    """Linear from 0 to `peak_lr`, then `after`, whose step 1 is the first one behind it.

    >>> resolve(warmup(1.0, 4, 0.5), 2), resolve(warmup(1.0, 4, 0.5), 5)
    (0.5, 0.5)
    """
    return {"kind": "warmup", "peak_lr": peak_lr, "warmup_steps": warmup_steps, "after": after}


def step(value: float, every: int, factor: float = 0.1) -> Schedule:
    """`value`, times `factor` after each `every` steps.

    >>> resolve(step(1.0, 2, 0.5), 3)
    0.5
    """
    return {"kind": "step", "value": value, "every": every, "factor": factor}


@public
def multi_step(value: float, milestones: Sequence[int], factor: float = 0.1) -> Schedule:
    """`value`, times `factor` after each of the `milestones`.

    >>> resolve(multi_step(1.0, [2, 4], 0.5), 5)
    0.25
    """
    return {
        "kind": "multi_step", "value": value, "milestones": list(milestones), "factor": factor
    }  # fmt: skip


def one_cycle(
    peak: float, steps: int, rise: float = 0.3, start: float = 25, end: float = 1e4
) -> Schedule:
    """Half a cosine up from peak / start, then down to peak / start / end (Smith, Topin 2018).

    >>> resolve(one_cycle(1.0, 10, 0.5), 5)
    1.0
    """
    return {
        "kind": "one_cycle", "peak": peak, "steps": steps, "rise": rise, "start": start, "end": end
    }  # fmt: skip


@public
def checked(schedule: Any) -> Schedule | float:
    """A number, numpy's too, as Python's own; a schedule as it is. Raises for anything else."""
    if hasattr(schedule, "item") and getattr(schedule, "shape", None) == ():
        schedule = schedule.item()
    if isinstance(schedule, (int, float)) and not 0 <= schedule < math.inf:
        raise ArgumentError(f"a learning rate is a finite number of 0 or more, not {schedule}.")
    resolve(schedule, 1)
    return schedule  # type: ignore[no-any-return]


@public
def resolve(schedule: Schedule | float, at: int) -> float:
    """The rate of step `at`, counted from 1.

    >>> resolve(0.1, 7)
    0.1
    """
    if isinstance(schedule, (int, float)):
        return float(schedule)
    if not isinstance(schedule, Mapping):
        raise ArgumentError(
            f"a learning rate is a number or a schedule of nn.lr, not {shown(schedule)}."
        )
    kind = str(schedule.get("kind"))
    if kind not in _RATES:
        raise UnknownName(no_such("schedule", kind, _RATES))
    try:
        return float(_RATES[kind](schedule, at))
    except (KeyError, TypeError, ValueError, ArithmeticError) as e:
        raise ArgumentError(f"the schedule {dict(schedule)} cannot be read: {e!r}.") from None


resolve_lr = resolve


def _between(a: float, b: float, part: float) -> float:
    """Half a cosine from a to b, `part` of the way."""
    return b + (a - b) * (1 + math.cos(math.pi * min(part, 1.0))) / 2


def _warmup(s: Schedule, at: int) -> float:
    rise = s["warmup_steps"]
    return s["peak_lr"] * at / rise if at <= rise else resolve(s["after"], at - rise)


def _one_cycle(s: Schedule, at: int) -> float:
    top, low = s["steps"] * s["rise"], s["peak"] / s["start"]
    if at <= top:
        return _between(low, s["peak"], at / top)
    return _between(s["peak"], low / s["end"], (at - top) / max(s["steps"] - top, 1))


_RATES: dict[str, Callable[[Schedule, int], float]] = {
    "constant": lambda s, at: s["value"],
    "linear_decay": lambda s, at: s["peak"] + (s["final"] - s["peak"]) * min(at / s["steps"], 1),
    "cosine_decay": lambda s, at: _between(s["peak"], s["final"], at / s["steps"]),
    "warmup": _warmup,
    "step": lambda s, at: s["value"] * s["factor"] ** ((at - 1) // s["every"]),
    "multi_step": lambda s, at: s["value"] * s["factor"] ** sum(at > m for m in s["milestones"]),
    "one_cycle": _one_cycle,
}


# ---- by hand


@public
class LR_Scheduler:
    """Sets the rate of an optimizer from a schedule, one step ahead at each `step()`, as torch's
    schedulers do: call it after the optimizer's own step.

    >>> from polygrad import Tensor, nn
    >>> sgd = nn.optim.SGD([Tensor([1.0], requires_grad=True)])
    >>> scheduler = LR_Scheduler(sgd, step(1.0, 1, 0.5))
    >>> rates = [scheduler.get_lr()]
    >>> scheduler.step()
    >>> [*rates, scheduler.get_lr()]
    [1.0, 0.5]
    """

    def __init__(self, optimizer: Any, schedule: Schedule | float) -> None:
        if not hasattr(optimizer, "set_schedule"):
            raise ArgumentError(
                f"a scheduler sets the rate of an optimizer, not {shown(optimizer)}."
            )
        self.optimizer, self.schedule, self.at = optimizer, checked(schedule), self._first
        optimizer.set_schedule(self.get_lr())

    _first = 1  # the step that the first rate is for

    def get_lr(self) -> float:
        """The rate of the next step."""
        return resolve(self.schedule, self.at)

    def step(self) -> None:
        """Go to the next rate."""
        self.at += 1
        self.optimizer.set_schedule(self.get_lr())


@public
class OneCycleLR(LR_Scheduler):
    """Up from max_lr / div_factor, then down to max_lr / div_factor / final_div_factor (Smith and
    Topin 2018), each half a cosine: `one_cycle` by hand, with torch's names and rates: the first
    step has the lowest of the rise, the last one of all.

    >>> sgd = nn.optim.SGD([Tensor([1.0], requires_grad=True)])
    >>> round(OneCycleLR(sgd, 1.0, 10).get_lr(), 3)
    0.04
    """

    _first = 0

    def __init__(
        self,
        optimizer: Any,
        max_lr: float,
        total_steps: int,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        last, top = total_steps - 1, total_steps * pct_start - 1
        if not 0 < top < last:
            raise ArgumentError(
                f"OneCycleLR: pct_start={pct_start} of total_steps={total_steps} leaves no rise or"
                " no fall."
            )
        super().__init__(
            optimizer, one_cycle(max_lr, last, top / last, div_factor, final_div_factor)
        )


@public
class LRSchedulerGroup:
    """Schedulers that go on together.

    >>> sgd = nn.optim.SGD([Tensor([1.0], requires_grad=True)])
    >>> group = LRSchedulerGroup(LR_Scheduler(sgd, step(1.0, 1, 0.5)))
    >>> group.step()
    >>> sgd.lr.item()
    0.5
    """

    def __init__(self, *schedulers: LR_Scheduler) -> None:
        if not schedulers:
            raise ArgumentError("an LRSchedulerGroup takes at least one scheduler.")
        self.schedulers = list(schedulers)

    def step(self) -> None:
        """Go to the next rates."""
        for scheduler in self.schedulers:
            scheduler.step()
