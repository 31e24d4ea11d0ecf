"""A table from objects to values that keeps no key alive."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class _Key(weakref.ref):  # type: ignore[type-arg]
    """A reference that knows the address of what it refers to, which tells it when that is gone."""

    __slots__ = ("address",)
    address: int


class WeakTable(Generic[V]):
    """Object -> value, held while the object lives. Keyed by address: a lookup is on the hot path,
    and tensors compare element by element."""

    __slots__ = ("_forget", "items")

    def __init__(self) -> None:
        self.items: dict[int, tuple[V, _Key]] = {}
        pop = self.items.pop
        # Runs before the address can be used again. One function for all keys, for a lambda of each
        # takes longer to make than the rest of `set`.
        self._forget = lambda key: pop(key.address, None)

    def get(self, key: Any) -> V | None:
        found = self.items.get(id(key))
        return None if found is None else found[0]

    def set(self, key: Any, value: V) -> None:
        entry = _Key(key, self._forget)
        entry.address = address = id(key)
        self.items[address] = (value, entry)

    def pop(self, key: Any) -> V | None:
        found = self.items.pop(id(key), None)
        return None if found is None else found[0]

    def living(self) -> list[Any]:
        """The objects that have a value."""
        found = [key() for _, key in list(self.items.values())]
        return [key for key in found if key is not None]

    def __contains__(self, key: Any) -> bool:
        return id(key) in self.items

    def __len__(self) -> int:
        return len(self.items)
