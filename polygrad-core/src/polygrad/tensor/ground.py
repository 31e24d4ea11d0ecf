"""What `Tensor` stands on until more is asked for: the ground floor, and the way up.

To add two tensors and to read the result takes the storeys up to Interop. The others, and what they
import, are nine tenths of this room, and would be a seventh of the time until that result. So
`Tensor` begins on `Ground`, which has the lower storeys and knows that there is more: asked for a
name that they lack, it imports `upper`, which puts all storeys under `Tensor` in its place.

Python sees the class as one: `dir`, `help`, subclasses and type checkers know every method.
"""

from __future__ import annotations

from typing import Any

from .interop import Interop


class Above:
    """A name of the upper storeys that Python looks up in the class, past `__getattr__`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Any, cls: Any = None) -> Any:
        from . import upper as upper

        return getattr(cls if tensor is None else tensor, self.name)

    def __set__(self, tensor: Any, value: Any) -> None:
        from . import upper as upper

        setattr(tensor, self.name, value)


class Ground(Interop):
    """The lower storeys, and a way to the upper ones."""

    __slots__ = ()

    requires_grad = Above()
    __neg__, __pos__, __abs__, __round__ = Above(), Above(), Above(), Above()
    __matmul__, __rmatmul__ = Above(), Above()
    __getitem__, __setitem__, __iter__, __contains__ = Above(), Above(), Above(), Above()
    __iadd__, __isub__, __imul__, __itruediv__ = Above(), Above(), Above(), Above()
    __ifloordiv__, __imod__, __ipow__ = Above(), Above(), Above()
    __iand__, __ior__, __ixor__, __ilshift__, __irshift__ = (
        Above(), Above(), Above(), Above(), Above(),
    )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        from . import upper as upper

        return getattr(self, name)

    def __dir__(self) -> list[str]:
        from . import upper as upper

        return dir(self)
