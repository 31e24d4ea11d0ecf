"""Layers that every network uses: Linear, Embedding, Dropout, and a list of callables.

Names, shapes and initial values of parameters are torch's, so that its checkpoints load by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..dtype import DType, dtypes
from ..errors import ArgumentError, DTypeError, public, shown
from ..tensor import Tensor
from . import init
from .wrong import named, wrong_input


@public
class Linear:
    """``x @ weight.T + bias``: (…, in_features) -> (…, out_features). Weight is (out, in).

    >>> nn.Linear(3, 2)(Tensor.ones(4, 3)).shape
    (4, 2)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: DType = dtypes.float32
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = init.kaiming_uniform()((out_features, in_features), dtype)
        bound = in_features**-0.5 if in_features else 0.0
        self.bias = init.uniform(bound)((out_features,), dtype) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        if not x.shape or x.shape[-1] != self.in_features:
            raise wrong_input(self, f"(..., {self.in_features})", x)
        y = x @ self.weight.transpose(0, 1)
        return y if self.bias is None else y + self.bias

    def __repr__(self) -> str:
        tail = "" if self.bias is not None else ", bias=False"
        return f"Linear({self.in_features}, {self.out_features}{tail})"


@public
class Embedding:
    """Rows of a table by index: integers of any shape -> that shape with (embed_size,) after it.

    >>> nn.Embedding(10, 4)(Tensor([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        vocab_size: int,
        embed_size: int,
        dtype: DType = dtypes.float32,
        padding_idx: int | None = None,
    ) -> None:
        self.vocab_size, self.embed_size = vocab_size, embed_size
        self.weight = init.randn(1.0)((vocab_size, embed_size), dtype)
        self.padding_idx = padding_idx
        if padding_idx is not None:
            if not -vocab_size <= padding_idx < vocab_size:
                raise ArgumentError(
                    f"Embedding: padding_idx={shown(padding_idx)} is none of the {vocab_size} rows."
                )
            self.padding_idx = padding_idx % vocab_size
            self.weight[self.padding_idx] = 0.0

    def __call__(self, index: Tensor) -> Tensor:
        if not index.dtype.is_int:
            raise DTypeError(f"{named(self)} takes integer indices, got {index.dtype.name}.")
        rows = self.weight[index]
        if self.padding_idx is None:
            return rows
        return (index == self.padding_idx).unsqueeze(-1).where(rows.detach(), rows)

    def __repr__(self) -> str:
        return f"Embedding({self.vocab_size}, {self.embed_size})"


@public
class Dropout:
    """While TRAINING, zero each element with probability `p` and scale the rest by 1 / (1 - p).

    >>> nn.Dropout(0.5)(Tensor.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    >>> with Context(TRAINING=1):
    ...     set(nn.Dropout(0.5)(Tensor.ones(64)).tolist()) <= {0.0, 2.0}
    True
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ArgumentError(f"Dropout takes a probability from 0 to 1, got {p!r}.")
        self.p = p

    def __call__(self, x: Tensor) -> Tensor:
        return x.dropout(self.p)

    def __repr__(self) -> str:
        return f"Dropout({self.p})"


@public
class Sequential(list[Any]):
    """Callables applied one after the other. A list, so that it can be indexed and extended.

    >>> net = Sequential(Linear(4, 8), Tensor.relu, Linear(8, 2))
    """

    def __init__(self, *layers: Callable[[Tensor], Tensor] | Iterable[Any]) -> None:
        one = layers[0] if len(layers) == 1 else None
        super().__init__(one if isinstance(one, (list, tuple)) else layers)

    def __call__(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self):
            if not callable(layer):
                raise ArgumentError(f"Sequential: item {i} is a callable, not {shown(layer)}.")
            x = layer(x)
        return x

    def __repr__(self) -> str:
        return f"Sequential({', '.join(getattr(f, '__qualname__', repr(f)) for f in self)})"
