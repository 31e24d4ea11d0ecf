"""A table from objects to values that keeps no key alive."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class WeakTable(Generic[V]):
    """Object -> value, held while the object lives. Keyed by address: a lookup is on the hot path,
    and tensors compare element by element."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: dict[int, tuple[V, weakref.ref[Any]]] = {}

    def get(self, key: Any) -> V | None:
        found = self.items.get(id(key))
        return None if found is None else found[0]

    def set(self, key: Any, value: V) -> None:
        address, items = id(key), self.items
        # The callback runs before the address can be used again.
        items[address] = (value, weakref.ref(key, lambda _: items.pop(address, None)))

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
