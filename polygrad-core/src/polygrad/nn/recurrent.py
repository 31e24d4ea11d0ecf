"""Recurrent layers: one step in time (cells), and whole sequences, with torch's names and orders.

A sequence is a loop over its steps that is written out into the graph: what needs no state (the
product of the inputs with their weights) is computed for all steps at once, and a captured or
jitted call replays the loop as one plan. The graph grows with the length of the sequence.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import ArgumentError, ShapeError, public, shown
from ..tensor import Tensor
from . import init
from .wrong import named, times, wrong_input

State = tuple[Tensor, ...]


class _Kind:
    """What LSTM and GRU differ in: the number of gates and of parts of the state, and one step."""

    gates: ClassVar[int]
    parts: ClassVar[int]

    def _step(self, x: Tensor, h: Tensor, state: State) -> State:
        """The new state from what inputs and the old h add to the gates."""
        raise NotImplementedError


class _Lstm(_Kind):
    gates, parts = 4, 2

    def _step(self, x: Tensor, h: Tensor, state: State) -> State:
        i, f, g, o = (x + h).chunk(4, -1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class _Gru(_Kind):
    gates, parts = 3, 1

    def _step(self, x: Tensor, h: Tensor, state: State) -> State:
        (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), h.chunk(3, -1)
        r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
        return ((1.0 - z) * (xn + r * hn).tanh() + z * state[0],)


def _added(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.linear(weight.transpose(0, 1), bias)


def _check_state(layer: _Kind, state: Any, shape: tuple[int, ...]) -> None:
    if len(state) != layer.parts:
        raise ArgumentError(
            f"{named(layer)} takes a state of {layer.parts} parts, not {len(state)}."
        )
    for part in state:
        if part.shape != shape:
            raise ShapeError(f"{named(layer)} takes a state of {shape}, got {part.shape}.")


@public
class _Cell(_Kind):
    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        self.input_size, self.hidden_size = input_size, hidden_size
        start, rows = init.uniform(hidden_size**-0.5), self.gates * hidden_size
        self.weight_ih = start((rows, input_size))
        self.weight_hh = start((rows, hidden_size))
        self.bias_ih = start((rows,)) if bias else None
        self.bias_hh = start((rows,)) if bias else None

    def _next(self, x: Tensor, state: Any) -> State:
        if len(x.shape) != 2 or x.shape[1] != self.input_size:
            raise wrong_input(self, f"(N, {self.input_size})", x)
        shape = (x.shape[0], self.hidden_size)
        if state is None:
            zeros = Tensor.zeros(*shape, dtype=x.dtype, requires_grad=False)
            state = (zeros,) * self.parts
        _check_state(self, state, shape)
        gates = _added(state[0], self.weight_hh, self.bias_hh)
        return self._step(_added(x, self.weight_ih, self.bias_ih), gates, state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.input_size}, {self.hidden_size})"


@public
class LSTMCell(_Lstm, _Cell):
    """One step of a long short-term memory (Hochreiter and Schmidhuber 1997), with torch's order.

        i, f, g, o = x W_ih' + b_ih + h W_hh' + b_hh
        c <- sigmoid(f) c + sigmoid(i) tanh(g);   h <- sigmoid(o) tanh(c)

    Takes (N, input_size) and (h, c) of (N, hidden_size), zeros without; gives the new (h, c).

    >>> h, c = nn.LSTMCell(3, 4)(Tensor.ones(2, 3))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    def __call__(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        h, c = self._next(x, state)
        return h, c


@public
class GRUCell(_Gru, _Cell):
    """One step of a gated recurrent unit (Cho et al. 2014), with torch's order.

        r, z = sigmoid(x W_ir' + b_ir + h W_hr' + b_hr), … of z
        n = tanh(x W_in' + b_in + r (h W_hn' + b_hn));   h <- (1 - z) n + z h

    Takes (N, input_size) and h of (N, hidden_size), zeros without; gives the new h.

    >>> nn.GRUCell(3, 4)(Tensor.ones(2, 3)).shape
    (2, 4)
    """

    def __call__(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        return self._next(x, None if state is None else (state,))[0]


@public
class _Sequence(_Kind):
    """Layers of cells over (T, N, input_size), or (N, T, input_size) under `batch_first`; without
    the batch axis too. Weights have torch's names: weight_ih_l0, bias_hh_l1_reverse, …"""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        for name, n in sizes.items():
            if n < 1:
                raise ArgumentError(f"{type(self).__name__}: {name}={shown(n)} is less than 1.")
        num_layers = times(type(self).__name__, "num_layers", num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional = (
            batch_first,
            dropout,
            bool(bidirectional),
        )
        start, rows = init.uniform(hidden_size**-0.5), self.gates * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                setattr(self, f"weight_ih_{suffix}", start((rows, width)))
                setattr(self, f"weight_hh_{suffix}", start((rows, hidden_size)))
                setattr(self, f"bias_ih_{suffix}", start((rows,)) if bias else None)
                setattr(self, f"bias_hh_{suffix}", start((rows,)) if bias else None)

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"][: 1 + self.bidirectional]

    def _run(self, x: Tensor, state: Any) -> tuple[Tensor, State]:
        """The outputs of the last layer, and the final state of each layer and direction."""
        batched = len(x.shape) == 3
        if len(x.shape) not in (2, 3) or x.shape[-1] != self.input_size:
            order = "N, T" if self.batch_first else "T, N"
            raise wrong_input(self, f"({order}, {self.input_size})", x)
        if not batched:
            x = x.unsqueeze(1)
            state = None if state is None else tuple(s.unsqueeze(1) for s in state)
        elif self.batch_first:
            x = x.transpose(0, 1)
        start = self._start(x, state)
        finals: list[State] = []
        for layer in range(self.num_layers):
            sides = []
            for reverse, suffix in enumerate(self._suffixes(layer)):
                first = tuple(part[len(finals)] for part in start)
                outputs, final = self._pass(x, first, suffix, bool(reverse))
                sides.append(outputs)
                finals.append(final)
            x = sides[0].cat(*sides[1:], axis=-1)
            if self.dropout and layer < self.num_layers - 1:
                x = x.dropout(self.dropout)
        ends = tuple(parts[0].stack(*parts[1:], axis=0) for parts in zip(*finals, strict=True))
        if not batched:
            return x.squeeze(1), tuple(end.squeeze(1) for end in ends)
        return (x.transpose(0, 1) if self.batch_first else x), ends

    def _start(self, x: Tensor, state: Any) -> State:
        shape = (self.num_layers * (1 + self.bidirectional), x.shape[1], self.hidden_size)
        if state is None:
            return (Tensor.zeros(*shape, dtype=x.dtype, requires_grad=False),) * self.parts
        _check_state(self, state, shape)
        return tuple(state)

    def _pass(self, x: Tensor, state: State, suffix: str, reverse: bool) -> tuple[Tensor, State]:
        """One direction of one layer."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w_ih, w_hh, b_ih, b_hh = (getattr(self, f"{kind}_{suffix}") for kind in kinds)
        steps = _added(x, w_ih, b_ih).unbind(0)
        outputs = []
        for step in reversed(steps) if reverse else steps:
            state = self._step(step, _added(state[0], w_hh, b_hh), state)
            outputs.append(state[0])
        if not outputs:
            raise wrong_input(self, "a sequence of at least one step", x)
        outputs = outputs[::-1] if reverse else outputs
        return outputs[0].stack(*outputs[1:], axis=0), state

    def __repr__(self) -> str:
        shown = [str(self.input_size), str(self.hidden_size)]
        usual = {"num_layers": 1, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        shown += [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        return f"{type(self).__name__}({', '.join(shown)})"


@public
class LSTM(_Lstm, _Sequence):
    """Layers of `LSTMCell` over a sequence: x and optionally (h, c), each (layers · directions, N,
    hidden_size), give the outputs (T, N, directions · hidden_size) and the final (h, c).

    >>> out, (h, c) = nn.LSTM(3, 4, num_layers=2)(Tensor.ones(5, 2, 3))
    >>> out.shape, h.shape
    ((5, 2, 4), (2, 2, 4))
    """

    def __call__(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, (h, c) = self._run(x, state)
        return outputs, (h, c)


@public
class GRU(_Gru, _Sequence):
    """Layers of `GRUCell` over a sequence: x and optionally h (layers · directions, N, hidden_size)
    give the outputs (T, N, directions · hidden_size) and the final h.

    >>> out, h = nn.GRU(3, 4, bidirectional=True)(Tensor.ones(5, 2, 3))
    >>> out.shape, h.shape
    ((5, 2, 8), (2, 2, 4))
    """

    def __call__(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (h,) = self._run(x, None if state is None else (state,))
        return outputs, h
