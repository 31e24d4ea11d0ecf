"""What a Tensor keeps: the graph that computed it, its memory, and how to let go of both.

A lazy tensor is its graph. Once computed it stands on memory, and the graph goes, so that a loop
does not grow; under the policy "always" the graph is remembered for as long as the memory is, down
to the data that everything began with, and can be looked at or run again elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ..errors import ArgumentError, StateError, no_such
from ..uop.ops import UOp
from .base import _leaves
from .interop import Interop
from .store import policies, policy_of, unfolded

if TYPE_CHECKING:
    from .tensor import Tensor

State = Literal["lazy", "kept", "stored"]


class Keeping(Interop):
    """Graphs that outlive their computation, and `dispose`."""

    __slots__ = ()

    @property
    def uop_logical(self) -> UOp:
        """The graph that computes self, down to data, and to what was computed without keeping
        its graph.

        >>> x = Tensor([1.0, 2.0])
        >>> y = (x * 2).preserve_logical().realize()
        >>> y.uop_logical is (x * 2).uop
        True
        """
        return unfolded(self.uop, self.runtime.graphs)

    @property
    def uop_physical(self) -> UOp | None:
        """The node with the memory of self; None before it is computed.

        >>> x = Tensor([1.0]) + 1
        >>> x.uop_physical is None, x.realize().uop_physical is None
        (True, False)
        """
        runtime = self.runtime
        leaf = runtime.leaf_of(self.uop)
        return leaf if leaf is not None and runtime.find(leaf) is not None else None

    @property
    def logical_state(self) -> State:
        """ "lazy": not computed; "kept": computed, and the graph is there; "stored": values alone,
        given as data or computed without keeping the graph.

        >>> x = Tensor([1.0]) + 1
        >>> x.logical_state, x.realize().logical_state
        ('lazy', 'stored')
        """
        leaf = self.uop_physical
        if leaf is None:
            return "lazy"
        return "kept" if leaf is not self.uop or leaf in self.runtime.graphs else "stored"

    @property
    def logical_policy(self) -> str:
        """Whether the graph is kept when self is computed: its own word, else the setting LOGICAL
        ("until_realize", or "always").

        >>> Tensor([1.0]).logical_policy
        'until_realize'
        """
        return policy_of(self)

    def set_logical_policy(self, policy: str) -> Tensor:
        """Keep the graph ("always") or let it go ("until_realize") when self is computed; gives
        self. A graph that is gone does not come back.

        >>> Tensor([1.0]).set_logical_policy("always").logical_policy
        'always'
        """
        if policy == "never":
            raise ArgumentError(f"set_logical_policy: {NEVER}")
        valid = ("until_realize", "always")
        if policy not in valid:
            raise ArgumentError(f"set_logical_policy: {no_such('policy', policy, valid)}")
        policies.set(self, policy)
        return self  # type: ignore[return-value]

    def preserve_logical(self) -> Tensor:
        """Keep the graph of self when it is computed; gives self.

        >>> (Tensor([1.0]) + 1).preserve_logical().realize().logical_state
        'kept'
        """
        return self.set_logical_policy("always")

    def dispose(self) -> None:
        """Let go of the values and the graph; every later use raises StateError, but a second
        `dispose`. The memory goes back as soon as nothing that was built from self needs it.

        >>> x = Tensor([1.0])
        >>> x.dispose()
        """
        if isinstance(self.uop, _Disposed):
            return
        if _leaves.get(id(self.uop)) is self:
            del _leaves[id(self.uop)]
        self.uop, self.grad = _Disposed(), None  # type: ignore[assignment]


NEVER = "a lazy tensor is its graph, so there is no policy 'never': take 'until_realize'."


class _Disposed:
    """In place of the graph of a tensor that was disposed."""

    def __getattr__(self, name: str) -> Any:
        raise StateError("this tensor was disposed: its values are gone.")
