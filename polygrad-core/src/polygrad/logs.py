"""The logger `polygrad` and its children `device compile cache plan`: quiet until someone listens.

Without a handler of its own a library's warnings go to the error stream of whoever uses it; here
they go nowhere until the user adds one (`logging.basicConfig()`). Who listens has imported logging;
until somebody has, nothing is said, for importing it takes 5 ms.
"""

from __future__ import annotations

import sys


class Log:
    """The logger `polygrad.child`, as far as we use it."""

    def __init__(self, child: str) -> None:
        self.child = child

    def debug(self, text: str, *values: object) -> None:
        self._say("debug", text, values)

    def info(self, text: str, *values: object) -> None:
        self._say("info", text, values)

    def warning(self, text: str, *values: object) -> None:
        self._say("warning", text, values)

    def _say(self, level: str, text: str, values: tuple[object, ...]) -> None:
        if "logging" not in sys.modules:
            return
        import logging

        root = logging.getLogger("polygrad")
        if not root.handlers:
            root.addHandler(logging.NullHandler())
        getattr(root.getChild(self.child), level)(text, *values, stacklevel=3)


def logger(child: str) -> Log:
    """The logger `polygrad.child`."""
    return Log(child)
