"""Recurrent cells: one step in time; a loop over steps is the caller's."""

from __future__ import annotations

from ..errors import public
from ..tensor import Tensor
from . import init
from .layers import wrong_input


@public
class LSTMCell:
    """One step of a long short-term memory (Hochreiter and Schmidhuber 1997), with torch's order.

        i, f, g, o = x W_ih' + b_ih + h W_hh' + b_hh
        c <- sigmoid(f) c + sigmoid(i) tanh(g);   h <- sigmoid(o) tanh(c)

    Takes (N, input_size) and (h, c) of (N, hidden_size), zeros without; gives the new (h, c).
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        self.input_size, self.hidden_size = input_size, hidden_size
        start = init.uniform(hidden_size**-0.5)
        self.weight_ih = start((4 * hidden_size, input_size))
        self.weight_hh = start((4 * hidden_size, hidden_size))
        self.bias_ih = start((4 * hidden_size,)) if bias else None
        self.bias_hh = start((4 * hidden_size,)) if bias else None

    def __call__(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if len(x.shape) != 2 or x.shape[1] != self.input_size:
            raise wrong_input(self, f"(N, {self.input_size})", x)
        if state is None:
            zeros = Tensor.zeros(x.shape[0], self.hidden_size, dtype=x.dtype, requires_grad=False)
            state = zeros, zeros
        h, c = state
        gates = x.linear(self.weight_ih.transpose(0, 1), self.bias_ih)
        gates = gates + h.linear(self.weight_hh.transpose(0, 1), self.bias_hh)
        n = self.hidden_size
        i, f, g, o = (gates[:, k * n : (k + 1) * n] for k in range(4))
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def __repr__(self) -> str:
        return f"LSTMCell({self.input_size}, {self.hidden_size})"
