"""The plugins that implement hooks, and how each hook is called.

pluggy checks and orders the implementations; the calls are made here, one `try` around each, so
that a failure is told with the package that it came from and harms nobody else. Two kinds: an
*observer* that fails is reported once and unplugged; a *question* that fails is an error of whoever
asked.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pluggy

from .. import plugin
from ..errors import (
    PluginError,
    PluginInvalid,
    PluginLoadError,
    PluginWarning,
    did_you_mean,
    pass_on,
    told,
    user_level,
)
from ..registry import Record
from ..target import Target
from ..uop.ops import UOp
from ..uop.rewrite import Rules
from . import specs

HOOKS = tuple(name for name in vars(specs) if name.startswith("polygrad_"))


class Hooks:
    """The registered plugins. `changed` is called when one goes."""

    def __init__(self, changed: Callable[[], None]) -> None:
        from .. import __version__

        self.manager = pluggy.PluginManager(specs.PROJECT)
        self.manager.add_hookspecs(specs)
        self.records: dict[str, Record] = {}
        self.changed = changed
        self._rules: dict[tuple[str, Target], Rules | None] = {}
        self._notifying = threading.local()
        # Called before anybody is there: who comes later, which is everybody, still gets it.
        config = specs.Config(__version__, plugin.API)
        self.manager.hook.polygrad_configure.call_historic(kwargs={"config": config})

    # ---- coming and going

    def add(self, record: Record, implementation: Any) -> None:
        """Register one plugin. Raises PluginInvalid, PluginLoadError; it is not there then."""
        try:
            self.manager.register(implementation, record.name)
            self.manager.check_pending()
            self._refuse_wrappers(implementation)
        except pluggy.PluginValidationError as error:
            self.manager.unregister(name=record.name)
            raise record.fail("invalid", PluginInvalid, _invalid(record, error), error) from error
        except BaseException as error:  # its polygrad_configure, or a property of it
            pass_on(error)
            self.manager.unregister(name=record.name)
            text = f"plugin {record.name!r} ({record.package}, {record.value}) failed to start:"
            text += f" {told(error)}. Disable: POLY_PLUGINS=-{record.name}"
            raise record.fail("failed", PluginLoadError, text, error) from error
        self.records[record.name] = record
        self._rules.clear()

    def remove(self, name: str) -> None:
        """Unregister a plugin, if it is there."""
        if self.records.pop(name, None) is not None:
            self.manager.unregister(name=name)
            self._rules.clear()
            self.changed()

    def _refuse_wrappers(self, implementation: Any) -> None:
        for caller in self.manager.get_hookcallers(implementation) or ():
            for one in caller.get_hookimpls():
                if one.plugin is implementation and (one.wrapper or one.hookwrapper):
                    raise pluggy.PluginValidationError(
                        implementation,
                        f"{caller.name} is a wrapper, which is no part of plugin API 1",
                    )

    # ---- calling

    def has(self, hook: str) -> bool:
        return bool(getattr(self.manager.hook, hook).get_hookimpls())

    def implementations(self, hook: str) -> Iterator[tuple[Record, Any]]:
        """Each implementation with its plugin's record, in the order of calling: by name, what asks
        for `tryfirst` before."""
        for one in reversed(getattr(self.manager.hook, hook).get_hookimpls()):
            yield self.records[one.plugin_name], one

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call every implementation; one that fails is told of and unplugged, the others go on.

        What an observer itself compiles and runs is not observed: it would never come to an end.
        """
        if getattr(self._notifying, "now", False):
            return
        self._notifying.now = True
        try:
            for _ in self.ask(hook, unplug=True, **arguments):
                pass  # an observer has nothing to answer
        finally:
            self._notifying.now = False

    def ask(
        self, hook: str, *, unplug: bool = False, **arguments: Any
    ) -> Iterator[tuple[Record, Any]]:
        """(record, answer) of each implementation that has one, called as the caller goes on.

        One that fails is an error, with `unplug` a warning, and not called again.
        """
        for record, one in list(self.implementations(hook)):
            answer, error = _answer(one, arguments)
            if error is not None:
                if not unplug:
                    raise failed(record, hook, error) from error
                self.remove(record.name)
                again = " This plugin is not called again."
                text = str(failed(record, hook, error, again))
                warnings.warn(text, PluginWarning, stacklevel=user_level())
            elif answer is not None:
                yield record, answer

    def outcomes(
        self, hook: str, **arguments: Any
    ) -> Iterator[tuple[Record, Any, PluginError | None]]:
        """(record, answer, error) of each implementation: one that fails stops nobody else."""
        for record, one in list(self.implementations(hook)):
            answer, error = _answer(one, arguments)
            yield record, answer, failed(record, hook, error) if error is not None else None

    def rules(self, stage: str, target: Target) -> Rules | None:
        """The rules of all plugins for a stage; None if there are none."""
        key = (stage, target)
        if key not in self._rules:
            found: Rules | None = None
            for record, answer in self.ask("polygrad_rewrite_rules", stage=stage, target=target):
                if not isinstance(answer, Rules):
                    raise wrong_answer(record, "polygrad_rewrite_rules", answer, "Rules or None")
                own = _guarded(record, answer)
                found = own if found is None else found + own
            self._rules[key] = found
        return self._rules[key]


def _guarded(record: Record, rules: Rules) -> Rules:
    """A plugin's rules, which say whose they are when they fail."""
    out = Rules()
    out.table = {op: tuple(_guard(record, r) for r in some) for op, some in rules.table.items()}
    return out


def _guard(record: Record, rule: Callable[[UOp, Any], Any]) -> Callable[[UOp, Any], UOp | None]:
    def call(u: UOp, context: Any) -> UOp | None:
        try:
            new = rule(u, context)
        except BaseException as error:
            pass_on(error)
            raise failed(record, "a rewrite rule", error) from error
        if new is not None and not isinstance(new, UOp):
            raise wrong_answer(record, "a rewrite rule", new, "UOp or None")
        return new

    return call


def failed(record: Record, hook: str, error: BaseException, more: str = "") -> PluginError:
    """The error of an implementation that raised."""
    return PluginError(
        f"{hook} of {record.name!r} ({record.package}) failed: {told(error)}.{more}"
        f" Disable: POLY_PLUGINS=-{record.name}"
    )


def wrong_answer(record: Record, hook: str, answer: Any, expected: str) -> PluginInvalid:
    """The error of an answer of the wrong kind."""
    return PluginInvalid(
        f"{hook} of {record.name!r} ({record.package}) gave {type(answer).__name__}, expected"
        f" {expected}. Disable: POLY_PLUGINS=-{record.name}"
    )


def _answer(one: Any, arguments: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """What an implementation gave, or raised."""
    try:
        return one.function(*[arguments[name] for name in one.argnames]), None
    except BaseException as error:  # noqa: BLE001 - it is a stranger's code
        pass_on(error)
        return None, error


def _invalid(record: Record, error: pluggy.PluginValidationError) -> str:
    """What pluggy found, told with the names that there are."""
    implemented = {name for name in dir(error.plugin) if name.startswith("polygrad_")}
    for name in sorted(implemented.difference(HOOKS)):
        return (
            f"{record.value} implements {name}, which is no hook.{did_you_mean(name, HOOKS)}"
            f" Needed by {record.package}; disable it: POLY_PLUGINS=-{record.name}"
        )
    for name in sorted(implemented):
        has = inspect.signature(getattr(specs, name)).parameters
        takes = inspect.signature(getattr(error.plugin, name)).parameters
        extra = [argument for argument in takes if argument not in has]
        if extra:
            return (
                f"{record.value}: {name} takes {', '.join(map(repr, extra))}; it can take"
                f" {', '.join(has) or 'no arguments'}."
            )
    return f"{record.value}: {' '.join(str(error).split())}."
