"""Packages whose names are imported when they are first asked for (PEP 562), over one table.

`__getattr__ = lazily(__name__, _NAMES)` is all that an `__init__.py` needs: the table maps each
public name to the module inside the package that defines it, an empty text to the module of that
name itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from .errors import NoAttribute, did_you_mean, public


def lazily(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of `package`, whose public `names` stand in the modules they map to."""

    @public
    def __getattr__(name: str) -> Any:
        if name not in names:
            dunder = name.startswith("__")  # asked for by Python itself, which only wants a no
            hint = "" if dunder else did_you_mean(name, names, fold=str)
            raise NoAttribute(f"module {package!r} has no attribute {name!r}.{hint}")
        from importlib import import_module

        module = names[name]
        found = import_module(f".{module or name}", package)
        value = getattr(found, name) if module else found
        # NOTE: importing a module binds its name too; a function of that name takes its place.
        vars(sys.modules[package])[name] = value
        return value

    return __getattr__
