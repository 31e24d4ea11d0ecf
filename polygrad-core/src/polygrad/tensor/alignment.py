"""Losses over alignments of sequences: connectionist temporal classification.

The sum over all alignments is a recurrence in time over the places of a label sequence with blanks
between, written out into the graph step by step in logarithms.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..dtype import dtypes
from ..errors import ArgumentError, DTypeError, ShapeError, no_such
from ..uop.ops import Ops, UOp, size
from . import formulas
from .axes import integer
from .base import Base, Flag, Integer, Operand, result, tensor_of
from .checks import check_range, wanted
from .movement import pad_with, piece, spread
from .reduce import narrow, wide
from .statistics import Statistics

if TYPE_CHECKING:
    from .tensor import Tensor

_NAME = "ctc_loss"


class Alignment(Statistics):
    """ctc_loss."""

    __slots__ = ()

    def ctc_loss(
        self,
        targets: Operand,
        input_lengths: Operand,
        target_lengths: Operand,
        blank: Integer = 0,
        reduction: str = "mean",
        zero_infinity: Flag = False,
    ) -> Tensor:
        """-log of the probability of label sequences, summed over all their alignments (Graves et
        al. 2006). self holds log-probabilities (T, N, classes), `targets` labels (N, S); of row n
        the first `input_lengths[n]` steps and `target_lengths[n]` labels count. A mean is of losses
        divided by their target lengths, as torch's. inf where no alignment fits, or 0 and without
        gradient under `zero_infinity`. The graph grows with T.

        >>> logs = Tensor([[[0.5, 0.5]]]).log()
        >>> round(logs.ctc_loss(Tensor([[1]]), Tensor([1]), Tensor([1])).item(), 4)
        0.6931
        """
        y = tensor_of(targets, _NAME, self)
        if self.ndim != 3 or y.ndim != 2 or y.shape[0] != self.shape[1] or not self.shape[0]:
            raise ShapeError(
                f"{_NAME} takes log-probabilities (T, N, classes) and targets (N, S), got"
                f" {self.shape} and {y.shape}."
            )
        if not y.dtype.is_int:
            raise DTypeError(f"{_NAME}: targets are the numbers of classes, not {y.dtype.name}.")
        if reduction not in ("mean", "sum", "none"):
            raise ArgumentError(f"{_NAME}: {no_such('reduction', reduction, _REDUCTIONS)}")
        blank = integer(_NAME, "blank", blank, 0)
        if blank >= self.shape[2]:
            raise ArgumentError(f"{_NAME}: blank {blank} is no class below {self.shape[2]}.")
        steps, labels = (_lengths(x, y.shape[0], self) for x in (input_lengths, target_lengths))
        if wanted():  # behind its length a row of targets may hold anything
            within = UOp.iota(y.shape[1]).broadcast_to(y.shape) < spread(labels.uop, y.shape, (1,))
            numbers = result(within.where(y.uop.cast(dtypes.int64), blank), y, labels)
            check_range(_NAME, numbers, 0, self.shape[2], f"the {self.shape[2]} classes")
        loss = _losses(wide(self._float()), y.uop, steps.uop, labels.uop, blank)
        if zero_infinity:
            loss = loss.eq(math.inf).where(loss._with(0.0), loss)
        if reduction == "mean":
            loss = loss / labels.uop.maximum(1).cast(loss.dtype)
            loss = loss.reduce(Ops.ADD, (0,)) / float(max(y.shape[0], 1))
        elif reduction == "sum":
            loss = loss.reduce(Ops.ADD, (0,))
        return result(narrow(loss, self._float().dtype), self, y, steps, labels)


_REDUCTIONS = ("mean", "sum", "none")


def _lengths(given: Any, rows: int, beside: Base) -> Base:
    lengths = tensor_of(given, _NAME, beside)
    if lengths.shape != (rows,) or not lengths.dtype.is_int:
        raise ShapeError(
            f"{_NAME}: lengths are {rows} integers, not {lengths.dtype.name} {lengths.shape}."
        )
    return lengths.cast(dtypes.int32)


def _losses(logs: UOp, y: UOp, steps: UOp, labels: UOp, blank: int) -> UOp:
    """For each row. Place 2 i + 1 of a row's path is label i, the even places are blanks."""
    (time, rows, _), count = logs.shape, y.shape[1]
    shape = rows, 2 * count + 1
    at = UOp.iota(shape[1]).broadcast_to(shape)
    odd = (at & 1).ne(0)
    path = at._with(blank)
    if count:
        path = odd.where(y.cast(dtypes.int32).gather(UOp.iota(shape[1]) // 2, 1), path)
    scores = _scores(logs, path)
    skips = odd & path.ne(_back(path, 2, blank))  # a blank may be left out between two labels
    none = scores[0]._with(-math.inf)
    alpha = (at < 2).where(scores[0], none)
    for t in range(1, time):
        two = skips.where(_back(alpha, 2, -math.inf), none)
        total = formulas.logaddexp(formulas.logaddexp(alpha, _back(alpha, 1, -math.inf)), two)
        running = spread(steps > t, shape, (1,))
        alpha = running.where(total + scores[t], alpha)
    last = spread(labels * 2, shape, (1,))
    return -_log_sum((at.eq(last) | at.eq(last - 1)).where(alpha, none))


def _scores(logs: UOp, path: UOp) -> list[UOp]:
    """For each step the log-probability of each place of each path."""
    time, rows, classes = logs.shape
    shape = (time, *path.shape)
    wide_type = dtypes.int64 if size(logs.shape) >= 1 << 31 else dtypes.int32
    row = (UOp.iota(time * rows, wide_type) * classes).reshape((time, rows, 1)).expand(shape)
    places = path.cast(wide_type).reshape((1, *path.shape)).expand(shape)
    found = logs.reshape((size(logs.shape),)).gather(row + places, 0)
    return [piece(found, 0, t, t + 1).reshape(path.shape) for t in range(time)]


def _back(u: UOp, by: int, fill: float) -> UOp:
    """Each row moved on by `by` places, `fill` at its start."""
    n = u.shape[1]
    kept = piece(u, 1, 0, max(n - by, 0))
    return pad_with(kept, [(0, 0, 0), (min(by, n), 0, 0)], fill)


def _log_sum(u: UOp) -> UOp:
    """logsumexp of each row; -inf without a slope where nothing counts."""
    top = formulas.finite_or_zero(u.detach().reduce(Ops.MAXIMUM, (1,)))
    total = formulas.exp(u - spread(top, u.shape, (1,))).reduce(Ops.ADD, (1,))
    nothing = total.eq(0.0)
    found = formulas.log(nothing.where(total._with(1.0), total)) + top
    return nothing.where(found._with(-math.inf), found)
