"""Every exception polygrad raises on purpose.

    PolygradError
    ├── ShapeError (ValueError)             shapes that do not fit an operation
    │   └── VaryingSize                     a size that varies, where a constant one is needed
    ├── DTypeError (TypeError)              unknown or unfitting dtype
    ├── ArgumentError (ValueError, TypeError)  an argument's value or kind is wrong, or its name
    ├── UnknownName (LookupError)           a name looked up in a table that lacks it
    │   └── NoAttribute (AttributeError)    a module of ours has no such name
    ├── IndexError_ (IndexError)            an index outside its axis
    ├── GradientError (RuntimeError)        backward cannot be done
    ├── CaptureError (RuntimeError)         host reads and other misuse while capturing
    ├── StateError (RuntimeError)           an object is uninitialised, disposed, read-only
    ├── SettingError (ValueError)           a POLY_* value that cannot be read
    ├── DeviceError (RuntimeError)
    │   ├── DeviceNotInstalled, DeviceUnknown, DeviceUnavailable
    │   └── DeviceContractError, DeviceForked, DeviceMemoryError (MemoryError)
    ├── PluginError (ImportError)
    │   └── PluginLoadError, PluginIncompatible, PluginConflict, PluginInvalid, PluginReserved
    ├── PackageMissing (ImportError)        a package that one call needs is not installed
    ├── FileError (OSError)                 a file that cannot be opened or written
    │   ├── FileMissing (FileNotFoundError) there is none
    │   ├── FileDenied (PermissionError)    we may not read it, or write there
    │   └── DownloadError (ConnectionError) it could not be fetched from its address
    ├── FormatError (ValueError)            a file that is not what it should be
    │   ├── FormatUnknown, FormatAmbiguous
    │   └── BundleError                     a .pgb file that is not one, or was damaged
    ├── UnsupportedOp (NotImplementedError) a renderer cannot print an operation
    ├── CompileError (RuntimeError)         a toolchain refused generated source
    └── SpecError (AssertionError)          a graph that is not legal on its floor

Texts: what happened, to which name, where, and what to do next; at most four lines, and values of
the user's shortened by `shown`. Functions that users call are marked `@public`, so that a traceback
ends at the user's own line.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, TracebackType
from typing import Any, TypeVar


class PolygradError(Exception):
    """The root of every error this library raises on purpose.

    >>> try:
    ...     Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0])
    ... except PolygradError as error:
    ...     print(error)
    add: shapes (2,) and (3,) do not broadcast: axis -1 is 2 and 3.
    """

    # What the message begins with, once `public` has seen that it is the name of an operation;
    # empty when it is settled.
    operation: str | None = None


class ShapeError(PolygradError, ValueError): ...


class VaryingSize(ShapeError):
    """`why` says what depends on a size; the public function that it leaves puts its name and the
    axes in front."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class DTypeError(PolygradError, TypeError): ...


class ArgumentError(PolygradError, ValueError, TypeError):
    of_kind = False  # told from a signature: an outer public function may know better


class UnknownName(PolygradError, LookupError): ...


class NoAttribute(UnknownName, AttributeError): ...


class IndexError_(PolygradError, IndexError): ...


class GradientError(PolygradError, RuntimeError): ...


class CaptureError(PolygradError, RuntimeError): ...


class StateError(PolygradError, RuntimeError): ...


class SettingError(PolygradError, ValueError): ...


class DeviceError(PolygradError, RuntimeError): ...


class DeviceNotInstalled(DeviceError): ...


class DeviceUnknown(DeviceError): ...


class DeviceUnavailable(DeviceError): ...


class DeviceContractError(DeviceError): ...


class DeviceForked(DeviceError): ...


class DeviceMemoryError(DeviceError, MemoryError): ...


class PluginError(PolygradError, ImportError): ...


class PluginLoadError(PluginError): ...


class PluginIncompatible(PluginError): ...


class PluginConflict(PluginError): ...


class PluginInvalid(PluginError): ...


class PluginReserved(PluginError): ...


class PackageMissing(PolygradError, ImportError): ...


class FileError(PolygradError, OSError): ...


class FileMissing(FileError, FileNotFoundError): ...


class FileDenied(FileError, PermissionError): ...


class DownloadError(FileError, ConnectionError): ...


class FormatError(PolygradError, ValueError): ...


class FormatUnknown(FormatError): ...


class FormatAmbiguous(FormatError): ...


class BundleError(FormatError): ...


class UnsupportedOp(PolygradError, NotImplementedError): ...


class CompileError(PolygradError, RuntimeError): ...


class SpecError(PolygradError, AssertionError): ...


class DeviceFallbackWarning(UserWarning): ...


class PluginApiDeprecated(DeprecationWarning): ...


class PluginWarning(UserWarning): ...


class SettingWarning(UserWarning): ...


class CaptureWarning(UserWarning): ...


def did_you_mean(name: str, known: Iterable[str], *, fold: Callable[[str], str] = str.lower) -> str:
    """`" Did you mean 'x'?"` for the nearest of `known`, or an empty string."""
    import difflib  # 3 ms that only a mistake should pay

    close = difflib.get_close_matches(fold(name), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def no_such(what: str, name: object, known: Iterable[str]) -> str:
    """`no optimizer named 'adma'. Did you mean 'adam'? Valid: sgd, adam, adamw.`"""
    names = list(known)
    hint = did_you_mean(name, names) if isinstance(name, str) else ""
    return f"no {what} named {shown(name)}.{hint} Valid: {', '.join(names) or 'none'}."


_LONG = 60  # characters of a user's value that a message repeats


def shown(value: object) -> str:
    """A value of the user's in a message: one line, of a length that can be read."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape != ():
        return f"{type(value).__name__} of shape {shape}"
    if isinstance(value, int) and abs(value) >= 10**_LONG:
        return "an integer beyond 10**60"  # Python refuses to print very long ones
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def told(error: BaseException, *, lines: bool = False) -> str:
    """`ImportError: libacme.so.3 not found`, an error of a stranger's code in one line, or in the
    `lines` it has."""
    try:
        text = str(error)
    except Exception as another:  # noqa: BLE001 - its own code
        text = f"(its text cannot be made: {type(another).__name__})"
    text = f"{type(error).__name__}: {text}"
    return text if lines else " ".join(text.split())


def pass_on(error: BaseException) -> None:
    """Raise again what the person at the keyboard did. All else that a stranger's code raises is
    its answer, SystemExit and exceptions of its own making included."""
    if isinstance(error, KeyboardInterrupt):
        raise error


def one(kind: str) -> str:
    """The name of a class with its article."""
    return f"{'an' if kind[:1].lower() in tuple('aeiou') else 'a'} {kind}"


# ---- whose frame is it


def is_ours(module: object) -> bool:
    """Whether a module of that name is part of polygrad or of a backend of it."""
    if not isinstance(module, str):
        return False
    package = module.partition(".")[0]
    return package == "polygrad" or package.startswith("polygrad_backend_")


def user_level() -> int:
    """The `stacklevel` at which `warnings.warn`, called by our caller, shows the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__")):
        level, frame = level + 1, frame.f_back
    return level


def called() -> str:
    """The public function that the user called, by the name that messages give it; an empty text
    if the user called none."""
    from .arguments import name_of

    name, frame = "", sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__")):
        if frame.f_globals is globals() and frame.f_code.co_name == "call":  # that of `public`
            name = name_of(frame.f_locals["entry"])
        frame = frame.f_back
    return name


def whose(traceback: TracebackType | None) -> Iterator[tuple[TracebackType, bool]]:
    """Each entry of a traceback, outermost first, and whether it is ours: our code, or what our
    code called in the standard library."""
    ours = False
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__")
        ours = is_ours(module) or (ours and _is_standard(module))
        yield traceback, ours
        traceback = traceback.tb_next


def _users_frames(traceback: TracebackType | None) -> TracebackType | None:
    """`traceback` without our frames: what is left are functions of the user's that we called."""
    kept = None
    for entry, ours in reversed(list(whose(traceback))):
        if not ours:
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _trim(error: BaseException) -> None:
    """Leave only the user's frames in `error` and in what it is chained to.

    What was raised by us alone, such as the KeyError of a lookup, is chained no longer.
    """
    error.__traceback__ = _users_frames(error.__traceback__)
    behind = error.__cause__ or error.__context__
    if behind is None or (error.__suppress_context__ and error.__cause__ is None):
        return
    frames = _users_frames(behind.__traceback__)
    if frames is None:
        error.__cause__ = None  # and the context is not shown either
    else:
        behind.__traceback__ = frames


def _is_standard(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in sys.stdlib_module_names


Public = TypeVar("Public", bound=Callable[..., Any])


def public(entry: Public) -> Public:
    """Mark a function that users call, or a class whose public methods they call.

    Our own errors leave it without our frames, unless POLY_TRACEBACK=full. Python 3.10 shows the
    line of the `raise` below as well. Costs one call, about 0.1 us.
    """
    if isinstance(entry, type):
        return _public_class(entry)  # type: ignore[return-value]

    @functools.wraps(entry)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return entry(*args, **kwargs)
            except _PYTHONS as error:
                if isinstance(error, PolygradError) and not getattr(error, "of_kind", False):
                    raise
                _blame_arguments(entry, args, kwargs, error)
                raise
        except PolygradError as error:
            if isinstance(error, VaryingSize):
                _name_axes(entry, args, kwargs, error)
            else:
                _name_called(entry, error)
            if _full(error):
                raise
            _trim(error)
            if sys.version_info >= (3, 11):
                raise  # leaves exactly that traceback, which a `raise error` would extend
            raise error.with_traceback(error.__traceback__)  # noqa: B904 - it is the same error

    return call  # type: ignore[return-value]


# What Python raises where an argument is not what the code takes it for.
_PYTHONS = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)


def _blame_arguments(entry: Callable[..., Any], args: Any, kwargs: Any, error: Exception) -> None:
    """Raise an ArgumentError instead, if an argument does not fit the signature of `entry`.

    Where the argument came through several public functions, the outermost has the word.
    """
    from .arguments import blame

    text = blame(entry, args, kwargs, error)
    if text:
        blamed = ArgumentError(text)
        blamed.of_kind = True
        raise blamed from (error if _full(blamed) else None)


def _name_axes(entry: Callable[..., Any], args: Any, kwargs: Any, error: VaryingSize) -> None:
    """Say of which function and which axes a size is that varies. The outermost has the word."""
    from .arguments import name_of

    for x in (*args, *kwargs.values()):
        shape = getattr(x, "shape", ())
        axes = [str(a) for a, n in enumerate(shape) if not isinstance(n, int)]
        if axes:
            which = f"axis {axes[0]}" if len(axes) == 1 else f"axes {' and '.join(axes)}"
            verb = "varies" if len(axes) == 1 else "vary"
            error.args = (
                f"{name_of(entry, args)}: {which} of shape {shape} {verb}, and {error.why}."
                " pad_to(…) makes a size constant at its bound (mask what lies beyond it), a slice"
                " by an integer at one value.",
            )
            return
    error.args = (f"{name_of(entry, args)}: {error.why}.",)


# What calls things that the user has put together: those keep their names.
_CONTAINERS = frozenset({"Sequential", "sequential", "LRSchedulerGroup", "OptimizerGroup"})


def _name_called(entry: Callable[..., Any], error: PolygradError) -> None:
    """Let a message that begins with the name of an operation begin with that of the outermost one:
    whoever called `addmm` knows of no `matmul`. Where a function of the user's stands between the
    two, he called the inner one."""
    from .arguments import name_of

    text = error.args[0] if error.args else None
    if not isinstance(text, str) or error.operation == "":
        return
    name, inner = name_of(entry), error.operation
    *_, python = entry.__qualname__.split(".")
    if python.startswith("__") and python not in ("__init__", "__call__") and inner is not None:
        return  # `x[i]` and `x & y` are known by the names of what they do
    if inner is None:
        # A layer says more than its name: `Linear "fc1" takes …`.
        if text.startswith(f"{name}: ") or (name.islower() and text.startswith(f"{name} ")):
            error.operation = name
    elif name in _CONTAINERS or not all(ours for _, ours in whose(error.__traceback__)):
        error.operation = ""
    elif name != inner:
        error.args = (name + text[len(inner) :], *error.args[1:])
        error.operation = name


def _full(error: BaseException) -> bool:
    """Whether all frames of `error` are asked for. A POLY_TRACEBACK that cannot be read must not
    take the place of an error that is on its way: it becomes a note below it."""
    from .settings import get

    try:
        return bool(get("POLY_TRACEBACK") == "full")
    except SettingError as wrong:
        told = {str(error), *getattr(error, "__notes__", ())}
        if sys.version_info >= (3, 11) and str(wrong) not in told:
            error.add_note(str(wrong))
        return False


# Methods that Python calls by itself, often, and that raise nothing of ours.
_UNMARKED = {
    "__hash__",
    "__del__",
    "__getattr__",
    "__getattribute__",
    "__init_subclass__",
    "__new__",
}


def _public_class(cls: type) -> type:
    for name, member in list(vars(cls).items()):
        if name in _UNMARKED or (name.startswith("_") and not name.endswith("__")):
            continue
        if isinstance(member, staticmethod | classmethod):
            setattr(cls, name, type(member)(public(member.__func__)))
        elif isinstance(member, property):
            parts: list[Any] = [member.fget, member.fset, member.fdel]
            setattr(cls, name, property(*(part and public(part) for part in parts)))
        elif isinstance(member, FunctionType):
            setattr(cls, name, public(member))
    return cls
