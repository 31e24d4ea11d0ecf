"""The class `Tensor`: the last storey, its constructor and its public surface."""

from __future__ import annotations

from typing import Any

from .. import settings
from ..dtype import to_dtype
from ..engine.capture import active as capturing
from ..engine.number import Number as Symbol
from ..engine.owner import explicit, mixed
from ..errors import public
from ..uop.ops import UOp
from . import base, host
from .base import Base, Flag, _leaves, away, maybe, wants_gradient
from .peer_names import PeerNames
from .store import bind, device_name, own


class _Class(type):
    """`Tensor.training` belongs to the class: it is the setting TRAINING."""

    @property
    def training(cls) -> bool:
        """Whether dropout and batch statistics are on."""
        return bool(settings.get("TRAINING"))

    @training.setter
    def training(cls, value: bool) -> None:
        settings.Context(TRAINING=bool(value)).__enter__()


class Tensor(PeerNames, metaclass=_Class):
    """A lazy array: operations build a graph, which runs when a value is needed.

    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> (x @ x).sum(axis=0).tolist()
    [22.0, 32.0]
    """

    __slots__ = ()

    @staticmethod
    def train(mode: Flag = True) -> settings.Context:
        """`with Tensor.train():` sets TRAINING inside the block.

        >>> with Tensor.train():
        ...     Tensor.training
        True
        """
        return settings.Context(TRAINING=mode)

    def __init__(
        self,
        data: Any,
        dtype: Any = None,
        device: Any = None,
        requires_grad: Flag | None = None,
        is_param: Flag | None = None,
    ) -> None:
        wanted = None if dtype is None else to_dtype(dtype)
        self.grad = None
        self._is_param = maybe("is_param", is_param)
        if isinstance(data, Symbol):
            data = base.tensor_of(data, "Tensor")
        self._owner = explicit.get()
        if isinstance(data, Base):
            if away(data):
                raise mixed(self._owner, data._owner)
            source = data if device is None else data.to(device)  # type: ignore[attr-defined]
            self.uop, self._device = source.uop.cast(wanted or source.dtype), source._device
        else:
            found, shape, values = host.from_host(data, wanted)
            self._device = device_name(device)
            self.uop = UOp.buffer(found, shape, self._device)
            bind(self.uop, values)
            if wanted is not None:
                self.uop = self.uop.cast(wanted)
        requires_grad = wants_gradient(requires_grad, self.uop.dtype)
        self._requires_grad = requires_grad
        if isinstance(data, Base):
            if requires_grad is None:
                self._requires_grad = data._requires_grad
            elif requires_grad:  # a leaf of its own, with storage of its own
                self.uop = own(self.uop, self.device)
        capture = capturing.get()
        if capture is not None:
            capture.used((data,) if isinstance(data, Base) else (), self)
        if self.uop.provenance is None:
            base._mark(self.uop, base._site())
        if self.uop.dtype.is_float and (requires_grad or not isinstance(data, Base)):
            _leaves[id(self.uop)] = self


base._class = Tensor
for _storey in Tensor.__mro__:
    if _storey not in (Base, object):  # Base marks its own two: shape and dtype are read too often
        public(_storey)
