"""Attention over positions: the softmax kind (Vaswani et al. 2017) with several heads, and the
gated delta rule, a linear one with a state of fixed size (Yang et al. 2024)."""

from __future__ import annotations

import math

from ..dtype import dtypes
from ..errors import ArgumentError, ShapeError, public, shown
from ..tensor import Tensor
from . import init
from .layers import Dropout, Linear
from .wrong import named, wrong_input


@public
class MultiheadAttention:
    """softmax(q k' / sqrt(width of a head)) v in `num_heads` parts of the features, between linear
    maps. Names of parameters, arguments and masks are torch's: q (L, N, E), k and v (S, N, E), with
    N and L or S exchanged under `batch_first`, and N left out if there is none. Gives (output, the
    weights (N, L, S), averaged over heads; they cost nothing unless they are read).

    `attn_mask` (L, S) or (N · heads, L, S) and `key_padding_mask` (N, S): where a bool is True a
    position is *not* seen; other masks are added to the scores.

    >>> out, weights = nn.MultiheadAttention(6, 2)(Tensor.ones(5, 1, 6))
    >>> out.shape, weights.shape
    ((5, 1, 6), (1, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
    ) -> None:
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention: num_heads={shown(num_heads)} must divide"
                f" embed_dim={shown(embed_dim)}."
            )
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        self.dropout = Dropout(dropout).p
        self.in_proj_weight = init.uniform(math.sqrt(6 / (4 * embed_dim)))(
            (3 * embed_dim, embed_dim)
        )
        self.in_proj_bias = init.zeros()((3 * embed_dim,)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = init.zeros()((embed_dim,))

    def __call__(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        key = query if key is None else key
        value = key if value is None else value
        batched = len(query.shape) == 3
        for x in (query, key, value):
            if len(x.shape) != len(query.shape) or x.shape[-1:] != (self.embed_dim,):
                raise wrong_input(self, f"(..., {self.embed_dim}) three times", x)
        if len(query.shape) not in (2, 3):
            raise wrong_input(self, f"(L, N, {self.embed_dim}) or (L, {self.embed_dim})", query)
        q, k, v = self._projected(query, key, value, batched)
        mask = self._mask(q, k, attn_mask, key_padding_mask, is_causal)
        drop = self.dropout
        heads = q.scaled_dot_product_attention(k, v, mask, drop)  # (N, heads, L, width)
        out = self.out_proj(heads.transpose(1, 2).flatten(2))
        if not batched:
            out = out.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1)
        if not need_weights:
            return out, None
        scores = (q * (1.0 / math.sqrt(q.shape[-1]))).matmul(k.transpose(-2, -1))
        weights = (scores if mask is None else scores + mask).softmax(-1)
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights if batched else weights.squeeze(0)

    def _projected(
        self, query: Tensor, key: Tensor, value: Tensor, batched: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Each as (N, heads, positions, width of a head)."""
        weights = self.in_proj_weight.chunk(3, 0)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3, 0)
        out = []
        for x, w, b in zip((query, key, value), weights, biases, strict=True):
            x = x.unsqueeze(0) if not batched else x if self.batch_first else x.transpose(0, 1)
            y = x.linear(w.transpose(0, 1), b)
            out.append(y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2))
        return out[0], out[1], out[2]

    def _mask(
        self,
        q: Tensor,
        k: Tensor,
        attn_mask: Tensor | None,
        padding: Tensor | None,
        is_causal: bool,
    ) -> Tensor | None:
        """What is added to the scores, or None."""
        rows, columns = q.shape[-2], k.shape[-2]
        total: Tensor | None = None
        if attn_mask is not None:
            total = _added(attn_mask)
            if len(attn_mask.shape) == 3:
                total = total.unflatten(0, (-1, self.num_heads))
            if total.shape[-2:] != (rows, columns):
                raise ShapeError(
                    f"{named(self)} takes an attn_mask of (..., {rows}, {columns}), got"
                    f" {attn_mask.shape}."
                )
        elif is_causal:
            total = _added(Tensor.ones(rows, columns, dtype=dtypes.bool).triu(1))
        if padding is not None:
            if padding.shape[-1:] != (columns,):
                raise ShapeError(
                    f"{named(self)} takes a key_padding_mask of (N, {columns}), got"
                    f" {padding.shape}."
                )
            hidden = _added(padding).reshape(-1, 1, 1, columns)
            total = hidden if total is None else total + hidden
        return total

    def __repr__(self) -> str:
        return f"MultiheadAttention({self.embed_dim}, {self.num_heads})"


def _added(mask: Tensor) -> Tensor:
    """A mask as numbers for the scores: -inf where a bool is True."""
    if mask.dtype is not dtypes.bool:
        return mask
    return mask.where(-math.inf, 0.0)


@public
def gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor,
    beta: Tensor,
    state: Tensor | None = None,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """A linear attention whose state forgets and corrects itself (Yang, Kautz and Hatamizadeh 2024,
    "Gated Delta Networks"), for each batch and head:

        S <- exp(log_decay_t) S;   S <- S + k_t beta_t (v_t - k_t S);   o_t = q_t S

    q and k are (N, heads, T, dk), v (N, heads, T, dv), log_decay and beta (N, heads, T), state
    (N, heads, dk, dv), zeros without; gives (o in v's shape and dtype, the last S in float32). All
    is float32. Chunks of `chunk_size` steps are triangular systems (section 3.3), so the graph
    grows with the number of chunks. Nothing is normalised or scaled here. The state given is not
    changed.

    >>> q = k = v = Tensor.ones(1, 2, 3, 4)
    >>> out, state = nn.gated_delta_rule(q, k, v, Tensor.zeros(1, 2, 3), Tensor.ones(1, 2, 3))
    >>> out.shape, state.shape
    ((1, 2, 3, 4), (1, 2, 4, 4))
    """
    name = "gated_delta_rule"
    if len(q.shape) != 4 or k.shape != q.shape or v.shape[:3] != q.shape[:3] or len(v.shape) != 4:
        raise ShapeError(
            f"{name} takes q and k of (N, heads, T, dk) and v of (N, heads, T, dv), got {q.shape},"
            f" {k.shape} and {v.shape}."
        )
    if log_decay.shape != q.shape[:3] or beta.shape != q.shape[:3]:
        raise ShapeError(
            f"{name} takes log_decay and beta of {q.shape[:3]}, got {log_decay.shape} and"
            f" {beta.shape}."
        )
    inner = (*q.shape[:2], q.shape[3], v.shape[3])
    if state is None:
        state = Tensor.zeros(*inner, requires_grad=False)
    if state.shape != inner:
        raise ShapeError(f"{name} takes a state of {inner}, got {state.shape}.")
    if chunk_size < 1:
        raise ArgumentError(f"{name}: chunk_size={chunk_size} is less than 1.")
    whole = [t.cast(dtypes.float32) for t in (q, k, v, log_decay, beta)]
    s, outputs = state.cast(dtypes.float32), []
    for at in range(0, q.shape[2], chunk_size):
        n = min(chunk_size, q.shape[2] - at)
        o, s = _chunk(s, *(t.narrow(2, at, n) for t in whole))
        outputs.append(o)
    out = outputs[0].cat(*outputs[1:], axis=2) if outputs else whole[2]
    return out.cast(v.dtype), s


def _chunk(
    s: Tensor, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor
) -> tuple[Tensor, Tensor]:
    """The corrections u of all steps solve (1 + A) u = beta (v - decay k S), where A_ij, j < i, is
    beta_i decay_ij k_i k_j: what step j wrote, as step i reads it."""
    n = q.shape[2]
    total = log_decay.cumsum(-1)
    past = Tensor.ones(n, n, dtype=dtypes.bool).tril()
    gap = total.unsqueeze(-1) - total.unsqueeze(-2)
    decay = past.where(gap, -math.inf).exp()  # (…, i, j), 0 for j > i
    since = total.exp().unsqueeze(-1)
    reads = k.matmul(k.transpose(-2, -1)) * decay * beta.unsqueeze(-1)
    wanted = beta.unsqueeze(-1) * (v - since * k.matmul(s))
    u = reads.triangular_solve(wanted, unit_diagonal=True)
    o = since * q.matmul(s) + (q.matmul(k.transpose(-2, -1)) * decay).matmul(u)
    left = (total.narrow(-1, n - 1, 1) - total).exp().unsqueeze(-1)
    end = total.narrow(-1, n - 1, 1).exp().unsqueeze(-1)
    return o, end * s + (k * left).transpose(-2, -1).matmul(u)
