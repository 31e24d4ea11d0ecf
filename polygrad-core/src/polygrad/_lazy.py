"""Packages whose names are imported when they are first asked for (PEP 562), over one table.

`__getattr__ = lazily(__name__, _NAMES)` is all that an `__init__.py` needs: the table maps each
public name to the module inside the package that defines it, an empty text to the module of that
name itself. `optional` imports a module of somebody else, that may not be installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from ._collector import lasting
from .errors import NoAttribute, PackageMissing, did_you_mean, public


def optional(module: str, what: str) -> Any:
    """A module of a package that we do not depend on; `what` names the call that needs it.

    Raises PackageMissing where the package is not installed."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise PackageMissing(
            f"{what} needs {package} ({error}). Run: pip install {package}"
        ) from None


def _asked_by_python(name: str) -> bool:
    """Whether nobody reads the error: `from . import module` asks here before it imports."""
    if name.startswith("__"):
        return True
    frame = sys._getframe(2)
    for _ in range(2):  # who asked, and `public` between
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def lazily(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of `package`, whose public `names` stand in the modules they map to."""

    @public
    def __getattr__(name: str) -> Any:
        if name not in names:
            hint = "" if _asked_by_python(name) else did_you_mean(name, names, fold=str)
            raise NoAttribute(f"module {package!r} has no attribute {name!r}.{hint}")
        from importlib import import_module

        module = names[name]
        with lasting():
            found = import_module(f".{module or name}", package)
        value = getattr(found, name) if module else found
        # NOTE: importing a module binds its name too; a function of that name takes its place.
        vars(sys.modules[package])[name] = value
        return value

    return __getattr__
