"""Hooks: what a package may add to polygrad besides devices, formats and model families.

A package names a module, or an object, behind an entry point of the group `polygrad.plugins`; its
functions that are marked `@hookimpl` and named as in `specs` are called. pluggy, which checks their
names and arguments, is loaded only where somebody has such a package, or calls `register`::

    [project.entry-points."polygrad.plugins"]
    acme = "acme_tools.hooks"

    from polygrad.hooks import hookimpl

    @hookimpl
    def polygrad_program_ran(event):
        print(event.program, event.seconds)

Inside the library, `installed` is asked; it answers without pluggy where nobody has hooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

# public name -> module
_NAMES = {
    "Check": "specs",
    "Commands": "specs",
    "CompileEvent": "specs",
    "Config": "specs",
    "DeviceInfo": "specs",
    "KernelRequest": "specs",
    "RunEvent": "specs",
    "hookimpl": "specs",
    "register": "installed",
    "unregister": "installed",
}

__all__ = sorted(_NAMES)

if TYPE_CHECKING:
    from .installed import register as register
    from .installed import unregister as unregister
    from .specs import Check as Check
    from .specs import Commands as Commands
    from .specs import CompileEvent as CompileEvent
    from .specs import Config as Config
    from .specs import DeviceInfo as DeviceInfo
    from .specs import KernelRequest as KernelRequest
    from .specs import RunEvent as RunEvent
    from .specs import hookimpl as hookimpl
__getattr__ = lazily(__name__, _NAMES)
