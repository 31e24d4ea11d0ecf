"""Model: capture, training, bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .history import History as History
    from .history import Step as Step
    from .model import Model as Model

_NAMES = {"History": "history", "Model": "model", "Step": "history"}
__all__ = sorted(_NAMES)
__getattr__ = lazily(__name__, _NAMES)
