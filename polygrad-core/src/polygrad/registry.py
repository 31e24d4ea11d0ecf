"""What is installed: one snapshot of the entry points, looked up by name.

The snapshot reads metadata only. A descriptor's module is imported when its name is asked for,
inside a `try`, so a broken package harms nobody but those who name it. Each candidate is a
`Record` whose state says how far it came: found -> loaded, or failed, incompatible, invalid,
conflict, blocked, refused. First-party packages come through the same door as strangers; only
their names are reserved for them.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import metadata, plugin, settings
from .errors import (
    DeviceUnavailable,
    PluginApiDeprecated,
    PluginConflict,
    PluginError,
    PluginIncompatible,
    PluginInvalid,
    PluginLoadError,
    PluginReserved,
    PolygradError,
    SettingError,
    did_you_mean,
    one,
    pass_on,
    shown,
    told,
    user_level,
)
from .plugin import Descriptor, DevicePlugin, FormatPlugin, ModelPlugin

DEVICES, FORMATS, MODELS, PLUGINS = GROUPS = (
    "polygrad.devices",
    "polygrad.formats",
    "polygrad.models",
    "polygrad.plugins",
)
# group -> what an error calls a member of it, and the type its entry point must give
KINDS: dict[str, tuple[str, type]] = {
    DEVICES: ("device", DevicePlugin),
    FORMATS: ("format", FormatPlugin),
    MODELS: ("model family", ModelPlugin),
    PLUGINS: ("plugin", object),
}
CORE = "polygrad-core"
# Names that only one distribution may provide, and how a person gets it.
OWNERS: dict[tuple[str, str], str] = {
    (DEVICES, "interp"): CORE,
    (DEVICES, "cpu"): "polygrad-backend-cpu",
    (DEVICES, "cuda"): "polygrad-backend-cuda",
    (DEVICES, "webgpu"): "polygrad-backend-webgpu",
    (DEVICES, "wasm"): "polygrad-backend-wasm",
    **{(FORMATS, name): "polygrad-formats" for name in ("onnx", "gguf", "safetensors", "hf")},
}
INSTALL: dict[str, str] = {
    "interp": "polygrad-core",
    "cpu": "polygrad-backend-cpu",
    **{name: f'"polygrad[{name}]"' for name in ("cuda", "webgpu", "wasm")},
}


@dataclass(slots=True, eq=False)
class Record:
    """One candidate for a name."""

    group: str
    name: str
    value: str  # "package.module:attribute"
    dist: str
    version: str
    load: Callable[[], Any]
    state: str = "found"
    descriptor: Descriptor | Any = None  # of a plugin with hooks: the module or object
    load_ms: float = 0.0
    failure: tuple[type[PolygradError], str, BaseException | None] | None = None
    probe: plugin.Probe | None = field(default=None)  # kept by the device room

    @property
    def kind(self) -> str:
        return KINDS[self.group][0]

    @property
    def package(self) -> str:
        return f"{self.dist} {self.version}".strip()

    def fail(
        self, state: str, cls: type[PolygradError], text: str, cause: BaseException | None = None
    ) -> PolygradError:
        """Remember a failure and give it back; the same text is raised anew at each lookup."""
        self.state, self.failure = state, (cls, text, cause)
        return self.error()

    def error(self) -> PolygradError:
        assert self.failure is not None
        cls, text, cause = self.failure
        error = cls(text)
        error.__cause__ = cause
        return error


Snapshot = dict[tuple[str, str], list[Record]]
lock = threading.RLock()  # around snapshot and load, and around what is made of them
_snapshot: Snapshot | None = None
_generation = 0


def snapshot() -> Snapshot:
    """All records by (group, name), names sorted; made once, made anew after `refresh`."""
    global _snapshot
    with lock:
        if _snapshot is None:
            _register_static_module()
            _snapshot = _with_registered(_from_entry_points())
        return _snapshot


def refresh() -> None:
    """Forget the snapshot and all failures: after `pip install` in a running notebook."""
    _replace(None)


def _replace(new: Snapshot | None) -> None:
    global _snapshot, _generation
    with lock:
        _snapshot = new
        _generation += 1


def generation() -> int:
    """Changes with each new snapshot: what was derived from an older one is stale."""
    return _generation


def names(group: str) -> tuple[str, ...]:
    """The names of a group that may be used: installed, not switched off, not refused."""
    return tuple(
        name
        for (at, name), records in snapshot().items()
        if at == group and any(usable(r) for r in records)
    )


def records(group: str | None = None) -> tuple[Record, ...]:
    """Every record (of a group), whatever its state."""
    return tuple(r for (at, _), rs in snapshot().items() if group in (None, at) for r in rs)


def usable(record: Record) -> bool:
    return not (blocked(record) or _stranger(record) or _misnamed(record))


def blocked(record: Record) -> bool:
    """Whether POLY_PLUGINS keeps this record from loading. The core's own are never blocked."""
    rules: tuple[str, ...] = settings.get("POLY_PLUGINS")
    if not rules or record.dist == CORE:
        return False
    allowed = [rule for rule in rules if not rule.startswith("-")]
    return "-" + record.name in rules or (bool(allowed) and record.name not in allowed)


def check_names() -> None:
    """Warn once about each name in a setting that neither an installed package nor one of ours
    offers: a rule for it does nothing, or keeps everything else from loading."""
    known = {name for _, name in (*snapshot(), *OWNERS)}
    for setting, given in (
        ("POLY_PLUGINS", [rule.removeprefix("-") for rule in settings.get("POLY_PLUGINS")]),
        ("POLY_PLUGIN_PREFER", [name for name, _ in settings.get("POLY_PLUGIN_PREFER")]),
        ("POLY_DEV_ORDER", settings.get("POLY_DEV_ORDER")),
    ):
        for name in given:
            if name not in known and (setting, name) != ("POLY_PLUGINS", "none"):
                settings.warn_once(
                    f"{setting} names {name!r}, which no package offers."
                    f"{did_you_mean(name, known)} See: polygrad devices"
                )


def find(group: str, name: str) -> Record | None:
    """The loaded record of a name, or None when nobody offers it; raises why it cannot load."""
    with lock:
        candidates = snapshot().get((group, name), [])
        if not candidates:
            return None
        record = _one(candidates)
        if record.state == "found":
            _load(record)
        if record.failure is not None:
            raise record.error()
        return record


def _one(candidates: list[Record]) -> Record:
    for record in candidates:
        if _stranger(record):
            owner = OWNERS[record.group, record.name]
            record.fail(
                "refused",
                PluginReserved,
                f"{record.package} may not provide the {record.kind} {record.name!r}:"
                f" that name belongs to {owner}.",
            )
        elif _misnamed(record):
            record.fail(
                "invalid",
                PluginInvalid,
                f"{record.package} offers a {record.kind} {record.name!r} ({record.value}): a name"
                f" is {NAMES}.",
            )
    rest = [r for r in candidates if r.state != "refused" and not _misnamed(r)]
    if not rest:
        raise candidates[0].error()
    allowed = [r for r in rest if not blocked(r)]
    if not allowed:
        raise _blocked_error(rest[0])
    return allowed[0] if len(allowed) == 1 else _preferred(allowed)


def _preferred(rivals: list[Record]) -> Record:
    first = rivals[0]
    wanted = dict(settings.get("POLY_PLUGIN_PREFER")).get(first.name)
    for record in rivals:
        if record.dist == wanted:
            return record
    offers = ", ".join(f"{r.package} ({r.value})" for r in rivals)
    raise PluginConflict(
        f"{_NUMBERS.get(len(rivals), str(len(rivals)))} packages provide the {first.kind}"
        f" {first.name!r}: {offers}. Uninstall one, or set"
        f" POLY_PLUGIN_PREFER={first.name}={first.dist}."
    )


_NUMBERS = {2: "two", 3: "three"}


def _blocked_error(record: Record) -> PolygradError:
    cls = DeviceUnavailable if record.group == DEVICES else PluginError
    rules = ",".join(settings.get("POLY_PLUGINS"))
    return cls(
        f"{record.kind} {record.name!r} ({record.package}) is switched off by POLY_PLUGINS={rules}."
    )


def _stranger(record: Record) -> bool:
    owner = OWNERS.get((record.group, record.name))
    return owner is not None and record.dist not in (owner, REGISTERED)


WORDS = ("auto", "none")  # mean something else where names are given
NAMES = f"lower-case letters, digits and '_', a letter first, not {' or '.join(WORDS)}"


def is_name(name: str) -> bool:
    """Whether a plugin can be asked for by this name (POLY_DEV, POLY_PLUGINS, `cpu:1`)."""
    plain = name.isascii() and name.isidentifier() and name == name.lower() and name[0] != "_"
    return plain and name not in WORDS


def _misnamed(record: Record) -> bool:
    return not is_name(record.name)


# ---- loading one descriptor


def _load(record: Record) -> None:
    """Import the descriptor and check it; the outcome stays in the record."""
    start = time.perf_counter()
    try:
        found = record.load()
        problem = _problem(record, found)
    except BaseException as error:  # noqa: BLE001 - it is a stranger's code
        pass_on(error)
        record.fail(
            "failed",
            PluginLoadError,
            f"{record.kind} {record.name!r} ({record.package}, {record.value}) failed to load:"
            f" {told(error)}. Disable: POLY_PLUGINS=-{record.name}",
            error,
        )
    else:
        if problem is not None:
            record.fail(*problem)
        else:
            record.state, record.descriptor = "loaded", found
            _deprecated(record)
    finally:
        record.load_ms = (time.perf_counter() - start) * 1e3


def _problem(record: Record, found: Any) -> tuple[str, type[PolygradError], str] | None:
    """What is wrong with what an entry point gave: the record's state, and the error."""
    expected = KINDS[record.group][1]
    if not isinstance(found, expected):
        kind = one(type(found).__name__)
        text = f"{record.value} is {kind}, expected {expected.__name__}."
        return "invalid", PluginInvalid, text
    name, api = getattr(found, "name", record.name), getattr(found, "api", plugin.API)
    if name != record.name:
        text = f"{record.value} calls itself {name!r}, its entry point says {record.name!r}."
        return "invalid", PluginInvalid, text
    if not _is_version(api):
        text = f"{record.value} says api={shown(api)}, expected two integers, as {plugin.API}."
        return "invalid", PluginInvalid, text
    if not _supported(api):
        return "incompatible", PluginIncompatible, _incompatible(record, api)
    return None


def _deprecated(record: Record) -> None:
    """Warn of a package that uses a major version which will go."""
    major, minor = getattr(record.descriptor, "api", plugin.API)
    if major < plugin.API[0]:
        import warnings

        warnings.warn(
            f"{record.package} uses plugin API {major}.{minor}, which a later {CORE} will not"
            f" offer; this one offers {plugin.API[0]}.{plugin.API[1]} as well. Ask its authors"
            " for a newer release.",
            PluginApiDeprecated,
            stacklevel=user_level(),
        )


def _is_version(api: Any) -> bool:
    return isinstance(api, tuple) and len(api) == 2 and all(type(part) is int for part in api)


def _supported(api: tuple[int, int]) -> bool:
    major, minor = api
    return major in plugin.SUPPORTED and minor <= plugin.SUPPORTED[major]


def _incompatible(record: Record, api: tuple[int, int]) -> str:
    from . import __version__

    older = ".".join(record.version.split(".")[:2])
    return (
        f"{record.package} needs plugin API {api[0]}.{api[1]}; {CORE} {__version__} offers"
        f" {plugin.API[0]}.{plugin.API[1]}. Run: pip install -U {CORE}, or pip install"
        f' "{record.dist}<{older}".'
    )


# ---- where records come from

REGISTERED = "registered"  # stands for the distribution of a descriptor given to plugin.register


def _from_entry_points() -> Snapshot:
    """One query for all groups."""
    found: Snapshot = {}
    every = metadata.entry_points(GROUPS)
    for group in GROUPS:
        some = (entry for entry in every if entry.group == group)
        for entry in sorted(some, key=lambda e: (e.name, e.value)):
            record = Record(group, entry.name, entry.value, entry.dist, entry.version, entry.load)
            rivals = found.setdefault((group, entry.name), [])
            # The same distribution seen twice (an .egg-info beside a .dist-info) is one.
            if not any((r.dist, r.value) == (record.dist, record.value) for r in rivals):
                rivals.append(record)
    return found


def _with_registered(found: Snapshot) -> Snapshot:
    """Descriptors handed over in code replace installed ones of the same name."""
    groups = {kind: group for group, (_, kind) in KINDS.items()}
    for descriptor in plugin.registered():
        group, name = groups[type(descriptor)], descriptor.name
        load = functools.partial(_same, descriptor)
        found[group, name] = [Record(group, name, f"<{REGISTERED}>", REGISTERED, "", load)]
    return dict(sorted(found.items()))


def _same(descriptor: Descriptor) -> Descriptor:
    return descriptor


def _register_static_module() -> None:
    """Call the function that POLY_PLUGIN_STATIC names: how a spawned worker registers."""
    text: str = settings.get("POLY_PLUGIN_STATIC")
    if not text or text in _static_done:
        return
    try:
        resolve(text)()
    except BaseException as error:
        pass_on(error)
        raise SettingError(f"POLY_PLUGIN_STATIC={text} failed: {told(error)}") from error
    _static_done.add(text)


_static_done: set[str] = set()


def resolve(reference: str) -> Any:
    """The object behind "package.module:attribute"."""
    from importlib import import_module

    module, _, path = reference.partition(":")
    found: Any = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    return found


@contextmanager
def isolated(*descriptors: Descriptor) -> Iterator[None]:
    """Only `descriptors` exist inside the block; what was found before comes back after it."""
    before, static = _snapshot, list(plugin._static)
    plugin._static[:] = descriptors
    _replace(_with_registered({}))
    try:
        yield
    finally:
        plugin._static[:] = static
        _replace(before)
