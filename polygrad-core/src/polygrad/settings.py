"""Every environment variable and every `Context` value, typed, in one table.

Nobody else reads `os.environ`. `get("POLY_DEV")` gives the value of the innermost `Context` that
sets the name, else the environment's, else the default. The environment is read at each call and
parsed once per text, so that a test or a notebook may change it; a value that cannot be read is an
error that names the variable.

Settings stand below every floor, so any floor may ask.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Any, NamedTuple

from .errors import SettingError, SettingWarning, UnknownName, did_you_mean, public, user_level

# ---- readers: text of an environment variable -> value; ValueError says what was expected


_FLAGS = {"1": True, "true": True, "on": True, "yes": True}
_FLAGS |= {"0": False, "false": False, "off": False, "no": False, "": False}


def _flag(text: str) -> bool:
    value = _FLAGS.get(text.strip().lower())
    if value is None:
        raise ValueError("1 or 0")
    return value


def _count(text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()):
        negative = digits.startswith("-") and digits[1:].isdecimal()
        raise ValueError("a whole number" + (", 0 or more" if negative else ""))
    return int(digits)


def _vector(text: str) -> int:
    found = _count(text)
    if found not in (0, 16, 32, 64):
        raise ValueError("0, 16, 32 or 64")
    return found


def _text(text: str) -> str:
    return text.strip()


def _lower(text: str) -> str:
    return text.strip().lower()


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip().lower() for part in text.split(",") if part.strip())


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in text.split(","):
        name, equals, dist = part.strip().partition("=")
        if not (name and equals and dist):
            raise ValueError("NAME=PACKAGE, several separated by commas")
        pairs.append((name.strip().lower(), dist.strip()))
    return tuple(pairs)


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip().lower() not in choices:
            raise ValueError(" or ".join(choices))
        return text.strip().lower()

    return read


class Setting(NamedTuple):
    read: Callable[[str], Any]
    default: Any
    help: str
    environment: bool = True  # False: only a Context can set it


TABLE: dict[str, Setting] = {
    # devices and plugins
    "POLY_DEV": Setting(_lower, "", "device, such as cpu or cuda:1; several separated by commas"),
    "DEV": Setting(_lower, "", "the same, read when POLY_DEV is not set"),
    "POLY_DEV_ORDER": Setting(
        _names, ("cuda", "cpu", "interp"), "what POLY_DEV=auto tries, best first"
    ),
    "POLY_STRICT": Setting(_flag, False, "1: falling back to a lesser device is an error"),
    "POLY_PLUGINS": Setting(
        _names, (), "none; or names that may load (cpu,gguf), or may not (-onnx,-acme)"
    ),
    "POLY_PLUGIN_PREFER": Setting(_pairs, (), "NAME=PACKAGE where two packages offer one name"),
    "POLY_PLUGIN_STATIC": Setting(
        _text, "", "module:function that calls polygrad.plugin.register, for spawned workers"
    ),
    # running
    "POLY_THREADS": Setting(_count, 0, "threads of the cpu device; 0: one per core we may use"),
    "POLY_CPU_VECTOR": Setting(
        _vector,
        0,
        "16, 32 or 64: bytes of a vector the cpu device's kernels are made for; 0: its own",
    ),
    "POLY_CPU_TOOLCHAIN": Setting(
        _one_of("llvm", "clang", "gcc", "zig"),
        "llvm",
        "what compiles for the cpu device, when it is opened: llvm, clang, gcc or zig",
    ),
    "POLY_INTERP_NUMPY": Setting(_flag, True, "0: the interp device runs in plain Python"),
    "POLY_FUSION": Setting(_flag, True, "0: every operation is its own kernel (a test of fusion)"),
    # searching for faster kernels
    "BEAM": Setting(_count, 0, "width of the search for faster kernels; 0: the recipes' own"),
    "BEAM_TIMEOUT_SEC": Setting(_count, 10, "seconds that the search may take for one kernel"),
    "POLY_TUNED": Setting(
        _flag, False, "1: use what an earlier search found, as BEAM does, but search for nothing"
    ),
    "POLY_KERNELS": Setting(
        _one_of("own", "provider"), "own", "provider: installed packages may replace kernels"
    ),
    # caches
    "POLY_CACHE": Setting(_flag, True, "0: no cache on disk"),
    "POLY_CACHE_DIR": Setting(_text, "", "where compiled kernels are kept"),
    "POLY_CACHE_MB": Setting(_count, 1024, "size at which the oldest entries of it are dropped"),
    "XDG_CACHE_HOME": Setting(_text, "", "parent of the cache folder when POLY_CACHE_DIR is unset"),
    # looking inside
    "POLY_TRACE": Setting(
        _text, "", "a file that gets a timeline of the process, for chrome://tracing or Perfetto"
    ),
    "POLY_SPEC": Setting(_flag, False, "1: check every graph against the rules of its floor"),
    "POLY_DUMP_KERNELS": Setting(
        _flag, False, "1: print every kernel on standard error when it is first needed"
    ),
    "POLY_CHECK": Setting(
        _flag, False, "1: index tensors are checked at each call, of what is compiled too"
    ),
    "POLY_TRACEBACK": Setting(
        _one_of("short", "full"), "short", "full: keep our own frames in tracebacks"
    ),
    # what a Context alone says
    "TRAINING": Setting(_flag, False, "dropout and batch statistics are on", environment=False),
    "TIMING": Setting(
        _flag, False, "1: what is compiled here counts its seconds (stats)", environment=False
    ),
    "LOGICAL": Setting(
        _one_of("until_realize", "always"),
        "until_realize",
        "always: tensors keep the graph that computed them (uop_logical)",
        environment=False,
    ),
}

_overrides: ContextVar[Mapping[str, Any]] = ContextVar(
    "polygrad_settings", default=MappingProxyType({})
)
# The same without what a runtime sets (`exchange`), so that another runtime can take its place.
_contexts: ContextVar[Mapping[str, Any]] = ContextVar(
    "polygrad_contexts", default=MappingProxyType({})
)
_parsed: dict[tuple[str, str], Any] = {}


def get(name: str) -> Any:
    """The value of a setting: the innermost Context's, else the environment's, else the default."""
    overrides = _overrides.get()
    if name in overrides:
        return overrides[name]
    setting = TABLE.get(name)
    if setting is None:
        raise _unknown(name)
    text = os.environ.get(name) if setting.environment else None
    if text is None:
        return setting.default
    key = (name, text)
    if key not in _parsed:
        _parsed[key] = _read(name, setting, text)
    return _parsed[key]


class Live:
    """One setting as an object: `.value` is what it is now, in this thread.

    >>> with Context(LOGICAL="always"):
    ...     LOGICAL.value
    'always'
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def value(self) -> Any:
        return get(self.name)

    def __repr__(self) -> str:
        return f"{self.name}={self.value}"


LOGICAL = Live("LOGICAL")


@public
def getenv(name: str, default: Any = 0) -> Any:
    """An environment variable as the type of `default`; one of our settings as `Context` has it.

    >>> getenv("A_VARIABLE_THAT_IS_NOT_SET", 1.5)
    1.5
    """
    if name in TABLE:
        return get(name)
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        return type(default)(text)
    except ValueError:
        raise SettingError(
            f"{name}={text} cannot be read: expected {type(default).__name__}, as the default."
        ) from None


def override(name: str) -> Any:
    """What a Context sets `name` to, or None: cheap, since the environment is not read."""
    return _overrides.get().get(name)


def modes() -> tuple[bool, Any]:
    """What a Context sets TRAINING and POLY_CHECK to: what a compiled function is captured for."""
    overrides = _overrides.get()
    if not overrides:
        return False, None
    return bool(overrides.get("TRAINING")), overrides.get("POLY_CHECK")


def is_set(name: str) -> bool:
    """Whether a Context or the environment gives `name` a value."""
    return name in _overrides.get() or name in os.environ


def _read(name: str, setting: Setting, value: Any) -> Any:
    try:
        return setting.read(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise SettingError(f"{name}={value!s} cannot be read: expected {error}.") from None


def _unknown(name: str) -> UnknownName:
    return UnknownName(f"no setting named {name!r}.{did_you_mean(name, TABLE, fold=str.upper)}")


Overrides = Token[Mapping[str, Any]]


class Context:
    """Set settings inside a `with` block, for this thread and the tasks it starts.

    >>> with Context(TRAINING=1, POLY_DEV="interp"):
    ...     get("TRAINING"), get("POLY_DEV")
    (True, 'interp')
    """

    @public
    def __init__(self, **values: Any) -> None:
        self.values: dict[str, Any] = {}
        for name, value in values.items():
            setting = TABLE.get(name)
            if setting is None:
                raise _unknown(name)
            # Flags come as True or 1, lists as text: everything goes through the one reader.
            text = str(int(value)) if isinstance(value, bool) else value
            self.values[name] = _read(name, setting, text)
        self._tokens: list[tuple[Overrides, Overrides]] = []

    def __enter__(self) -> Context:
        changed = (var.set({**var.get(), **self.values}) for var in (_overrides, _contexts))
        self._tokens.append((next(changed), next(changed)))
        return self

    def __exit__(self, *_: object) -> None:
        restore(self._tokens.pop())


def exchange(values: Mapping[str, Any]) -> tuple[Overrides, Overrides]:
    """Put what a runtime sets in place of what another one does, over the Contexts' values."""
    contexts = _contexts.get()
    return _overrides.set({**contexts, **values}), _contexts.set(contexts)


def restore(before: tuple[Overrides, Overrides]) -> None:
    """Undo an `exchange`, or the entering of a Context."""
    _overrides.reset(before[0])
    _contexts.reset(before[1])


def cache_folder() -> str:
    """The folder for what can be made again, as settings and platform say; it may not exist yet."""
    named: str = get("POLY_CACHE_DIR")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    return os.path.join(_caches(), "polygrad")


def _caches() -> str:
    xdg = get("XDG_CACHE_HOME")
    if xdg and os.path.isabs(xdg):
        return str(xdg)
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches")
    if sys.platform == "win32":
        return os.path.join(home, "AppData", "Local")
    return os.path.join(home, ".cache")


def for_child() -> dict[str, str]:
    """The environment of a child process that shall see what this thread's Contexts set."""
    overrides = {
        name: _text_of(value) for name, value in _overrides.get().items() if TABLE[name].environment
    }
    return {**os.environ, **overrides}


def _text_of(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join("=".join(part) if isinstance(part, tuple) else part for part in value)
    return str(int(value)) if isinstance(value, bool) else str(value)


_warned: set[str] = set()


def check_environment() -> None:
    """Read every setting, and warn once about each POLY_* variable that is in no table; called when
    a device is chosen. Raises SettingError for a value that cannot be read."""
    for name in TABLE:
        get(name)
    for name in sorted(os.environ):
        if name.startswith("POLY_") and name not in TABLE:
            hint = did_you_mean(name, TABLE, fold=str.upper)
            warn_once(f"{name} is not a setting of polygrad.{hint}")


def warn_once(text: str) -> None:
    """A SettingWarning at the user's line, the first time that there is reason for it."""
    if text not in _warned:
        import warnings

        _warned.add(text)
        warnings.warn(text, SettingWarning, stacklevel=user_level())
