"""Methods by another name: torch's beside numpy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def also(name: str, method: Method) -> Method:
    """A method by another name, which its errors have too."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, method.__name__)(*args, **kwargs)

    call.__name__ = name
    call.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{name}"
    return call  # type: ignore[return-value]
