"""Attention as a formula, and its gradient: out = exp(s - top) v / total for scores s = c q k',
where c = 1 / sqrt(width of q).

`top` and `total` are the largest score of each row and the sum of its exponentials, so no matrix of
weights is ever divided or kept. The gradient needs of the forward pass only `out` and, for each
row, lse = top + log(total): with p = exp(s - lse) and d = sum(out * g) of each row

    dv = p' g,   ds = p * (g v' - d),   dq = c ds k,   dk = c ds' q

(Dao et al. 2022, "FlashAttention", appendix B). Scores are computed anew, with a row for each key:
a chain of products over blocks of rows, which the scheduler makes one kernel. The gradient of
queries is a sum over those rows, in the order of the keys. Where there are too few batches to take
each of them in order, scores are computed once more, with a row for each query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from ..gradient_rules import FUNCTIONS
from ..schedule.chains import ENOUGH
from ..uop.ops import Ops, UOp, size
from ..uop.sizes import is_fixed
from . import formulas
from .formulas import function
from .linalg import matmul
from .movement import spread, swap

PARTS = (1, 2, 4)  # into which the keys of a batch may be cut, each a sum of its own
LONGEST = 4096  # keys of a part: a sum in the order of the keys, of a block of them at a time
OPTIONS = ("bias", "hidden", "factor")


class Inputs(NamedTuple):
    """Queries (…, M, D), keys (…, T, D) and values (…, T, N) of one wide float dtype and equal
    batches; scores (…, M, T) get `bias` added, do not count where `hidden`, and weights are
    multiplied by `factor`."""

    q: UOp
    k: UOp
    v: UOp
    bias: UOp | None = None
    hidden: UOp | None = None
    factor: UOp | None = None

    @property
    def name(self) -> str:
        given = (o for o, u in zip(OPTIONS, self[3:], strict=True) if u is not None)
        return ".".join(("attention", *given))

    @property
    def turned(self) -> Inputs:
        """The same with a row for each key."""
        bias, hidden, factor = (None if u is None else swap(u, -1, -2) for u in self[3:])
        return Inputs(self.k, self.q, self.v, bias, hidden, factor)

    @property
    def scale(self) -> float:
        """1 / sqrt(width)"""
        return float(max(self.q.shape[-1], 1) ** -0.5)

    def scores(self, forward: bool = False) -> UOp:
        """All (…, M, T) of them. The gradient takes the product first and then its scale, so that
        its scores are nodes of their own, which nobody keeps for it."""
        if forward:
            s = self._scaled_product()
        else:
            s = matmul(self.q, swap(self.k, -1, -2)) * self.scale
        s = s if self.bias is None else s + self.bias
        return s if self.hidden is None else self.hidden.where(s._with(-formulas.INF), s)

    def _scaled_product(self) -> UOp:
        """As many keys as queries are scaled as they are copied into panels for the product, which
        costs nothing."""
        if self.k.shape == self.q.shape:
            return matmul(self.q, swap(self.k * self.scale, -1, -2))
        return matmul(self.q * self.scale, swap(self.k, -1, -2))

    def weighted(self, weights: UOp) -> UOp:
        return weights if self.factor is None else weights * self.factor


def attend(inputs: Inputs) -> UOp:
    """The weighted means of the values. A row of which everything is hidden, or -inf in `bias`,
    gives zeros."""
    scores = inputs.scores(forward=True)
    if not size(scores.shape[-1:]):
        return matmul(scores, inputs.v)
    axes = (len(scores.shape) - 1,)
    top = scores.detach().reduce(Ops.MAXIMUM, axes).contiguous()  # two passes read it
    none = top.eq(-formulas.INF)
    e = formulas.decay(scores - spread(none.where(top._with(0.0), top), scores.shape, axes))
    total = e.reduce(Ops.ADD, axes)
    total = none.where(total._with(1.0), total).contiguous()  # of rows: nobody sums them again
    raw = matmul(inputs.weighted(e), inputs.v)
    out = raw / spread(total, raw.shape, axes)
    lse = none.where(top._with(formulas.INF), top + formulas.log(total))
    given = (u for u in inputs if u is not None)
    return function(inputs.name, (out, lse), *given)[0]


def _given(node: UOp, options: Sequence[str]) -> Inputs:
    q, k, v, *rest = node.src[node.arg.total :]
    return Inputs(q, k, v, **dict(zip(options, rest, strict=True)))


def _value(node: UOp, which: int) -> UOp:
    return UOp(Ops.FUNCTION, node.src[which].dtype, node.src, node.arg._replace(which=which))


def _rule(options: Sequence[str]) -> Callable[[UOp, UOp], Sequence[UOp | None]]:
    def rule(node: UOp, g: UOp) -> Sequence[UOp | None]:
        inputs, lse = _given(node, options), _value(node, 1).contiguous()  # once for each query
        axis = len(lse.shape)
        weights = formulas.decay(inputs.scores() - _columns(lse, inputs.k))
        other = inputs.turned
        weights_of_keys = formulas.decay(other.scores() - _rows(lse, inputs.k))
        if node.arg.which == 1:  # of lse: its slope at a score is the weight
            slope, slope_of_keys = (
                weights * _columns(g, inputs.k),
                weights_of_keys * _rows(g, inputs.k),
            )
            dv = None
        else:
            d = (_value(node, 0) * g).reduce(Ops.ADD, (axis,)).contiguous()
            to_weights = inputs.weighted(matmul(g, swap(inputs.v, -1, -2)))
            slope = weights * (to_weights - _columns(d, inputs.k))
            to_weights = other.weighted(matmul(inputs.v, swap(g, -1, -2)))
            slope_of_keys = weights_of_keys * (to_weights - _rows(d, inputs.k))
            dv = matmul(other.weighted(weights_of_keys), g)
        found = {"bias": slope}
        return [
            _to_queries(inputs, slope, slope_of_keys) * inputs.scale,
            matmul(slope_of_keys, inputs.q) * inputs.scale,
            dv,
            *(found.get(o) for o in options),
        ]

    return rule


def _to_queries(inputs: Inputs, slope: UOp, slope_of_keys: UOp) -> UOp:
    """The product ds k. Rows of ds' are there for the gradient of keys anyway and are summed over,
    part by part, unless all parts of all batches are too few or too long; those of ds are there
    where `bias` was added."""
    parts = None if inputs.bias is not None else _parts(inputs)
    if parts is None:
        return matmul(slope, inputs.k)
    *batch, count, width = inputs.k.shape
    cut = (*batch, parts, count // parts)
    slopes = slope_of_keys.reshape((*cut, slope_of_keys.shape[-1]))
    sums = matmul(swap(slopes, -1, -2), inputs.k.reshape((*cut, width))).contiguous()
    return sums.reduce(Ops.ADD, (len(batch),))


def _parts(inputs: Inputs) -> int | None:
    """Into how many parts the keys of each batch are cut; None where that does not do."""
    *batch, count, _ = inputs.k.shape
    if not is_fixed((*inputs.q.shape, *inputs.k.shape)):
        return None
    even = (p for p in PARTS if size(batch) * p >= ENOUGH and count % p == 0)
    return next((p for p in even if 0 < count // p <= LONGEST), None)


def _columns(rows: UOp, keys: UOp) -> UOp:
    """A number for each query, beside every key: (…, M, T)."""
    return spread(rows, (*rows.shape, keys.shape[-2]), (len(rows.shape),))


def _rows(rows: UOp, keys: UOp) -> UOp:
    """The same as (…, T, M)."""
    return swap(_columns(rows, keys), -1, -2)


for _kept in product((False, True), repeat=len(OPTIONS)):
    _options = tuple(o for o, keep in zip(OPTIONS, _kept, strict=True) if keep)
    FUNCTIONS[".".join(("attention", *_options))] = _rule(_options)
