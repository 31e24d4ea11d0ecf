"""The logger `polygrad` and its children `device compile cache plan`: quiet until someone listens.

Without a handler of its own a library's warnings go to the error stream of whoever uses it; here
they go nowhere until the user adds one (`logging.basicConfig()`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


def logger(child: str) -> logging.Logger:
    """The logger `polygrad.child`."""
    import logging  # 5 ms that `import polygrad` shall not pay

    root = logging.getLogger("polygrad")
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    return root.getChild(child)
