"""Model: capture, training, bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .history import History as History
    from .history import Step as Step
    from .model import Model as Model

_NAMES = {"History": "history", "Model": "model", "Step": "history"}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_NAMES[name]}", __name__), name)
    globals()[name] = value
    return value
