"""The hooks as the library asks for them: without pluggy where nobody has any.

Which plugins there are is decided once per state of the registry and of POLY_PLUGINS. One that
cannot be loaded is warned of once and left out: nobody asked for it by name, so it must not stop
those who did nothing but install it.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import registry, settings
from ..errors import ArgumentError, PluginWarning, PolygradError, public, user_level
from ..registry import PLUGINS, REGISTERED, Record, lock

if TYPE_CHECKING:
    from ..contract import LinearProgram
    from ..plugin import Device
    from ..target import Target
    from ..uop.ops import UOp
    from ..uop.rewrite import Rules
    from .manager import Hooks

# Plugins of the core's own: name -> (the setting that switches it on, where it is).
BUILTIN = {"trace": ("POLY_TRACE", "polygrad.hooks.trace:from_settings")}

# Hooks that decide which code is made.
CODE = ("polygrad_rewrite_rules", "polygrad_provide_kernel")
epoch = 0  # changes when plugins with such hooks come or go

_given: dict[str, Any] = {}  # registered in code
_built: tuple[Any, Hooks | None] | None = None  # the state it was built for, and what was built
_building = False
_listeners: list[Callable[[], None]] = []
_wrote = False  # whether there were such hooks at the last change


def listen(changed: Callable[[], None]) -> None:
    """Have `changed` called whenever plugins come or go."""
    _listeners.append(changed)


def _changed() -> None:
    global epoch, _wrote
    hooks = _built[1] if _built is not None else None
    writes = hooks is not None and any(map(hooks.has, CODE))
    if writes or _wrote:
        epoch += 1
    _wrote = writes
    for listener in _listeners:
        listener()


@public
def register(plugin: Any, name: str) -> None:
    """Plug in an object, or a module, with functions marked `hookimpl`; it takes effect at once.

    Raises PluginInvalid for a function that is no hook, ArgumentError for a name that is taken.
    """
    with lock:
        hooks = current()
        if name in _given or (hooks is not None and name in hooks.records):
            raise ArgumentError(f"a plugin named {name!r} is registered already.")
        if hooks is None:
            hooks = _make()
        hooks.add(_record(name, plugin), plugin)
        _given[name] = plugin
        _set(hooks)


@public
def unregister(name: str) -> None:
    """Take out what `register` plugged in. Raises ArgumentError if there is no such plugin."""
    with lock:
        hooks = current()
        if _given.pop(name, None) is None:
            raise ArgumentError(f"no plugin named {name!r} was registered.")
        if hooks is not None:
            hooks.remove(name)
            _set(hooks)


@contextmanager
def isolated() -> Iterator[None]:
    """Nothing registered in code is plugged in inside the block."""
    with lock:
        before = dict(_given)
        _given.clear()
    try:
        yield
    finally:
        _given.clear()
        _given.update(before)


def current() -> Hooks | None:
    """The plugins with hooks that are installed and switched on; None if there are none."""
    global _building
    built = _built
    if built is not None and built[0] == _state():
        return built[1]
    with lock:
        if _building:
            return None  # a plugin that uses polygrad while it is loaded
        if _built is None or _built[0] != _state():
            _building = True
            try:
                _set(_build())
            finally:
                _building = False
        assert _built is not None
        return _built[1]


def _state() -> tuple[Any, ...]:
    return registry.generation(), settings.get("POLY_PLUGINS"), tuple(_given)


def _set(hooks: Hooks | None) -> None:
    global _built
    before = _built[1] if _built is not None else None
    _built = (_state(), hooks)
    if before is not None or hooks is not None:
        _changed()


def _build() -> Hooks | None:
    registry.snapshot()  # first: a snapshot that is made on the way is a new state
    builtin = [name for name, (setting, _) in BUILTIN.items() if settings.get(setting)]
    installed = registry.names(PLUGINS)
    if not (builtin or installed or _given):
        return None
    hooks = _make()
    # Those registered last are called first: so by name, descending.
    for name in sorted({*builtin, *installed, *_given}, reverse=True):
        _plug_in(hooks, name)
    return hooks


def _plug_in(hooks: Hooks, name: str) -> None:
    try:
        hooks.add(*_found(name))
    except PolygradError as error:
        warnings.warn(str(error), PluginWarning, stacklevel=user_level())


def _found(name: str) -> tuple[Record, Any]:
    if name in _given:
        return _record(name, _given[name]), _given[name]
    if name in BUILTIN:
        plugin = registry.resolve(BUILTIN[name][1])()
        return _record(name, plugin), plugin
    record = registry.find(PLUGINS, name)
    assert record is not None
    return record, record.descriptor


def _record(name: str, plugin: Any) -> Record:
    value = getattr(plugin, "__name__", type(plugin).__name__)
    return Record(PLUGINS, name, value, REGISTERED, "", lambda: plugin)


def _make() -> Hooks:
    from .manager import Hooks

    return Hooks(_changed)


# ---- what the library asks


def has(hook: str) -> bool:
    """Whether anybody implements a hook."""
    hooks = current()
    return hooks is not None and hooks.has(hook)


def observer(hook: str) -> Callable[..., None] | None:
    """What calls all implementations of an observing hook; None if there are none."""
    hooks = current()
    if hooks is None or not hooks.has(hook):
        return None

    def notify(**arguments: Any) -> None:
        hooks.notify(hook, **arguments)

    return notify


def answers(hook: str, **arguments: Any) -> Iterator[tuple[Record, Any]]:
    """Each plugin's record and answer, in order of names; nothing where nobody has an answer."""
    hooks = current()
    return iter(()) if hooks is None else hooks.ask(hook, **arguments)


def outcomes(hook: str, **arguments: Any) -> Iterator[tuple[Record, Any, PolygradError | None]]:
    """Each plugin's record, answer and error, in order of names: one that fails stops nobody."""
    hooks = current()
    return iter(()) if hooks is None else hooks.outcomes(hook, **arguments)


def offers(device: Device, sink: UOp, program: LinearProgram) -> Iterator[tuple[Record, Any]]:
    """What plugins offer in place of a kernel's program. One that fails is unplugged."""
    hooks = current()
    if hooks is None or not hooks.has("polygrad_provide_kernel"):
        return iter(())
    from .specs import KernelRequest

    request = KernelRequest(device, sink, program)
    return hooks.ask("polygrad_provide_kernel", unplug=True, kernel=request)


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters or more: C: is a drive


def resolve(source: Any) -> Any:
    """The local file of a text such as "hub:name", if a plugin knows it; else `source` itself."""
    hook = "polygrad_resolve_source"
    if not isinstance(source, str) or not _URI.match(source) or not has(hook):
        return source
    for record, found in answers(hook, uri=source):
        if not isinstance(found, str | os.PathLike):
            from .manager import wrong_answer

            raise wrong_answer(record, hook, found, "a path or None")
        return found
    return source


def rules(stage: str, target: Target) -> Rules | None:
    """The rewrite rules of all plugins for a stage."""
    hooks = current()
    return None if hooks is None else hooks.rules(stage, target)
