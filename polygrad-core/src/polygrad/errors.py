"""Every exception polygrad raises on purpose.

    PolygradError
    ├── ShapeError (ValueError)            shapes that do not fit an operation
    ├── DTypeError (TypeError)             unknown or unfitting dtype
    ├── ArgumentError (ValueError)         an argument's value or kind is wrong
    ├── UnknownName (LookupError)          a name looked up in a table that lacks it
    ├── IndexError_ (IndexError)           an index outside its axis
    ├── GradientError (RuntimeError)       backward cannot be done
    ├── CaptureError (RuntimeError)        host reads and other misuse while capturing
    ├── StateError (RuntimeError)          an object is not ready (uninitialised, disposed, read-only)
    ├── SettingError (ValueError)          a POLY_* value that cannot be read
    ├── DeviceError (RuntimeError)
    │   ├── DeviceNotInstalled, DeviceUnknown, DeviceUnavailable
    │   ├── DeviceContractError, DeviceForked, DeviceMemoryError (MemoryError)
    ├── PluginError (ImportError)
    │   ├── PluginLoadError, PluginIncompatible, PluginConflict, PluginInvalid, PluginReserved
    ├── FormatError (ValueError)           a file that cannot be read
    │   ├── FormatUnknown, FormatAmbiguous
    │   └── BundleError                    a .pgb file that is not one, or was damaged
    ├── UnsupportedOp (NotImplementedError) a renderer cannot print an operation
    ├── CompileError (RuntimeError)        a toolchain refused generated source
    └── SpecError (AssertionError)         a graph that is not legal on its floor

Texts: what happened, to which name, where, and what to do next; at most four lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class PolygradError(Exception):
    """The root of every error this library raises on purpose."""


class ShapeError(PolygradError, ValueError): ...


class DTypeError(PolygradError, TypeError): ...


class ArgumentError(PolygradError, ValueError): ...


class UnknownName(PolygradError, LookupError): ...


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


class FormatError(PolygradError, ValueError): ...


class FormatUnknown(FormatError): ...


class FormatAmbiguous(FormatError): ...


class BundleError(FormatError): ...


class UnsupportedOp(PolygradError, NotImplementedError): ...


class CompileError(PolygradError, RuntimeError): ...


class SpecError(PolygradError, AssertionError): ...


class DeviceFallbackWarning(UserWarning): ...


class PluginApiDeprecated(DeprecationWarning): ...


class SettingWarning(UserWarning): ...


def did_you_mean(name: str, known: Iterable[str], *, fold: Callable[[str], str] = str.lower) -> str:
    """`" Did you mean 'x'?"` for the nearest of `known`, or an empty string."""
    import difflib  # 3 ms that only a mistake should pay

    close = difflib.get_close_matches(fold(name), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
