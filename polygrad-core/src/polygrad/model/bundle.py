"""The .pgb bundle: a Model as a file that needs no class, no device and no trust.

A canonical ZIP (see `files.archive`) of `graph.json`, `weights.safetensors`, perhaps `tuning.json`
(see `tuned`) and, last, `manifest.json`, which lists the sha256 and size of every other member.
Reading checks, in this order: the archive's own bytes, the manifest against the archive's comment,
its format and version, the graph against its hash and then node by node, the weights against their
hash. `inspect` stops before the weights.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NoReturn

from ..dtype import TENSOR_DTYPES
from ..errors import ArgumentError, BundleError
from ..files import Archive, ArchiveWriter, FileSource, Limits, TensorSpec, atomic, jsontext
from ..files import safetensors as st
from ..files.archive import MemberReader
from ..files.limits import DEFAULT
from ..nn.state import from_bytes
from ..tensor import Tensor
from ..uop.ops import UOp
from ..uop.sizes import Variable, capacity, is_fixed
from . import graph, sizes, tuned
from .capture import ROLES, Captured, State, draw_variables
from .signature import Spec, bytes_of, check_variables
from .tuned import Tuned

FORMAT, VERSION = "polygrad.bundle", (1, 0)
MANIFEST, GRAPH, WEIGHTS = "manifest.json", "graph.json", "weights.safetensors"
TUNING = "tuning.json"  # a reader that does not know it loses nothing but time
VARIABLES = "variables"  # what a reader must know where sizes vary
DRAW = "draw"  # kind of the leaves that random draws take their numbers from

Json = dict[str, Any]


@dataclass(slots=True)
class Contents:
    """What a bundle holds: graphs and state, the generator, the optimizer's name and options, and
    transform lists that a search found."""

    captured: Captured
    specs: Mapping[str, Spec]
    targets: tuple[str, ...]
    generator: tuple[int, int]
    optimizer: Json | None = None
    metadata: Json = field(default_factory=dict)
    tuned: Tuned = field(default_factory=dict)


# ---- writing


def save(contents: Contents, path: str | os.PathLike[str] | None) -> bytes | None:
    """Write a bundle atomically, or give its bytes."""
    if path is None:
        memory = io.BytesIO()
        _write(contents, memory)
        return memory.getvalue()
    with atomic(path) as file:
        _write(contents, file)
    return None


def _write(contents: Contents, file: IO[bytes]) -> None:
    from .. import __version__

    states = contents.captured.states
    weights = {
        name: TensorSpec(s.tensor.dtype, s.tensor.shape, bytes_of(s.tensor))
        for name, s in states.items()
    }
    members = {GRAPH: [jsontext.dumps(_graph(contents))], WEIGHTS: st.plan(weights)}
    if contents.tuned:
        members[TUNING] = [jsontext.dumps(tuned.write(contents.tuned))]
    writer = ArchiveWriter(file)
    listed: Json = {}
    for name, chunks in members.items():
        size = sum(map(len, chunks))
        listed[name] = {"size": size, "sha256": writer.add(name, size, chunks)}
    manifest = jsontext.dumps(_manifest(contents, __version__, listed))
    writer.add(MANIFEST, len(manifest), [manifest])
    writer.finish()


def _graph(contents: Contents) -> Json:
    names: dict[UOp, list[Any]] = {v: [DRAW, v.arg[0]] for v in draw_variables()}
    names |= {leaf: ["input", name] for name, leaf in contents.captured.inputs.items()}
    names |= {s.symbol: ["state", name] for name, s in contents.captured.states.items()}
    return graph.write(contents.captured.entrypoints, names)


def _manifest(contents: Contents, version: str, members: Json) -> Json:
    key, counter = contents.generator
    captured = contents.captured
    return {
        "format": FORMAT,
        "version": list(VERSION),
        "producer": f"polygrad {version}",
        "requires": [VARIABLES] if _vary(contents.specs) else [],
        "inputs": {n: _spec(s) for n, s in contents.specs.items()},
        "targets": list(contents.targets),
        "entrypoints": described(captured.entrypoints, contents.targets),
        "state": {n: _described_state(s) for n, s in captured.states.items()},
        "aliases": captured.aliases,
        "generator": {"key": str(key), "counter": str(counter)},
        "optimizer": contents.optimizer,
        "metadata": contents.metadata,
        "members": members,
    }


def _described_state(state: State) -> Json:
    exempt = {} if state.decays else {"decays": False}  # seldom, so that it is said only then
    return {"role": state.role, **_spec(state.spec), **exempt}


def described(entrypoints: Mapping[str, graph.Entrypoint], targets: Sequence[str]) -> Json:
    """What each entrypoint takes and returns."""
    return {
        name: {
            "inputs": [n for n in e.inputs if n not in targets],
            "targets": [n for n in e.inputs if n in targets],
            "outputs": {n: _spec(Spec(u.shape, u.dtype)) for n, u in e.outputs.items()},
        }
        for name, e in entrypoints.items()
    }


def _spec(spec: Spec) -> Json:
    return {"dtype": spec.dtype.name, "shape": list(map(sizes.write, spec.shape))}


def _vary(specs: Mapping[str, Spec]) -> bool:
    return any(not is_fixed(s.shape) for s in specs.values())


# ---- reading


class Bundle:
    """An opened bundle, whose archive and manifest were checked. `read` gives what it holds."""

    def __init__(self, source: Any, limits: Limits = DEFAULT) -> None:
        self.limits = limits
        self.source = FileSource.open(source)
        try:
            self.archive = Archive(self.source, limits)
            self.manifest = self._manifest()
            self._check_members()
            self.specs = self._table("inputs", self._read_spec)
            self.states = self._table("state", self._read_state)
            self._check_names()
        except BaseException:
            self.source.close()
            raise

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    def fail(self, reason: str, member: str = MANIFEST) -> BundleError:
        """The error of a member's content, with the place where the member starts."""
        entry = self.archive.members.get(member)
        offset = entry.start if entry else 0
        return BundleError(f"{self.source.name}: {member} {reason} (offset {offset})")

    # ---- the manifest

    def _manifest(self) -> Json:
        names = list(self.archive.members)
        if not names or names[-1] != MANIFEST:
            self._refuse("has no manifest.json as its last member: no polygrad bundle")
        entry = self.archive.members[MANIFEST]
        if entry.size > self.limits.header_bytes:
            self._refuse(f"has a manifest of {entry.size} bytes")
        raw = self.archive.read(MANIFEST, self.archive.comment, entry.size)
        value = jsontext.loads(raw, self.fail, self.limits)
        self._check_version(value)
        if set(value) != set(_FIELDS) or any(
            not isinstance(value[k], kind) for k, kind in _FIELDS.items()
        ):
            raise self.fail("lacks a field, or has one of another kind than this version's")
        unknown = [f for f in value["requires"] if f != VARIABLES]
        if unknown:
            raise self.fail(
                f"asks for {unknown[0]!r}, which this polygrad does not know;"
                " a newer release may read it"
            )
        return value  # type: ignore[no-any-return]

    def _check_version(self, value: Any) -> None:
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise self.fail(f"is not of the format {FORMAT!r}")
        version = value.get("version")
        if not isinstance(version, list) or [type(v) for v in version] != [int, int]:
            raise self.fail("has no version")
        if version[0] != VERSION[0]:
            shown = ".".join(map(str, version))
            raise self.fail(
                f"has the format version {shown}; this polygrad reads {VERSION[0]}.x."
                " Model format mismatch: use the release that wrote it, or a newer one"
            )

    def _check_members(self) -> None:
        listed = self.manifest["members"]
        found = [n for n in self.archive.members if n != MANIFEST]
        if list(listed) != found or not {GRAPH, WEIGHTS} <= set(found):
            raise self.fail("lists other members than there are")
        for name, m in listed.items():
            right = isinstance(m, dict) and set(m) == {"size", "sha256"}
            if not right or not _is_sha256(m["sha256"]) or type(m["size"]) is not int:
                raise self.fail(f"has no size and sha256 of {name!r}")
            if m["size"] != self.archive.members[name].size:
                raise self.fail(f"lists {name!r} with another size than it has")

    def _check_names(self) -> None:
        m = self.manifest
        try:
            check_variables(self.specs)
        except ArgumentError as error:
            raise self.fail(f"is not legal: {error}") from None
        if m["requires"] != ([VARIABLES] if _vary(self.specs) else []):
            raise self.fail("does not say rightly what a reader must know")
        if not all(isinstance(t, str) and t in self.specs for t in m["targets"]):
            raise self.fail("has a target that is no input")
        if not all(isinstance(n, str) and n in self.states for n in m["aliases"].values()):
            raise self.fail("has an alias of a state that is not there")
        if m["optimizer"] is not None and not _is_optimizer(m["optimizer"]):
            raise self.fail("describes an optimizer in a way it cannot be read")
        generator = m["generator"]
        if set(generator) != {"key", "counter"} or not all(map(_is_word, generator.values())):
            raise self.fail("has no state of the random generator")

    def _table(self, name: str, read: Callable[[str, Json], Any]) -> dict[str, Any]:
        made = {}
        for key, value in self.manifest[name].items():
            if not st.legal_name(key, self.limits) or not isinstance(value, dict):
                raise self.fail(f"has an illegal entry {key[:80]!r} in {name!r}")
            made[key] = read(key, value)
        return made

    def _read_spec(self, name: str, value: Json, more: frozenset[str] = frozenset()) -> Spec:
        if set(value) != {"dtype", "shape"} | more:
            raise self.fail(f"has an illegal entry for {name!r}")
        dtype, shape = value["dtype"], value["shape"]
        right = isinstance(dtype, str) and dtype in TENSOR_DTYPES and isinstance(shape, list)
        if not right or len(shape) > self.limits.rank:
            raise self.fail(f"has an illegal dtype or shape for {name!r}")
        found = tuple(map(sizes.read, shape))
        fixed = all(type(n) is int for n in found)
        varying = all(type(n) is int or isinstance(n, Variable) for n in found)
        if not (fixed if more else varying):
            raise self.fail(f"has an illegal shape for {name!r}")
        made = Spec(found, TENSOR_DTYPES[dtype])  # type: ignore[arg-type]
        if capacity(made.shape) > self.limits.elements:
            raise self.fail(f"has an illegal shape for {name!r}")
        return made

    def _read_state(self, name: str, value: Json) -> tuple[str, Spec, bool]:
        role = value.get("role")
        if role not in ROLES:
            raise self.fail(f"has the unknown role {role!r} of {name!r}")
        decays = "decays" not in value
        if not decays and value["decays"] is not False:
            raise self.fail(f"has an illegal entry for {name!r}")
        more = frozenset({"role"} if decays else {"role", "decays"})
        return role, self._read_spec(name, value, more), decays

    # ---- graph and weights

    def read(self, device: str) -> Contents:
        """Everything, with the state as new Tensors on `device`."""
        inputs = {n: UOp.buffer(s.dtype, s.shape, device) for n, s in self.specs.items()}
        symbols = {n: UOp.buffer(s.dtype, s.shape, device) for n, (_, s, _) in self.states.items()}
        entrypoints = self.read_graph(inputs, symbols)
        tensors = self._weights(device)
        states = {
            name: State(role, tensors[name], symbols[name], decays)
            for name, (role, _, decays) in self.states.items()
        }
        m = self.manifest
        return Contents(
            Captured(inputs, states, dict(m["aliases"]), entrypoints),
            self.specs,
            tuple(m["targets"]),
            (int(m["generator"]["key"]), int(m["generator"]["counter"])),
            m["optimizer"],
            m["metadata"],
            self.read_tuned(),
        )

    def read_graph(
        self, inputs: Mapping[str, UOp], symbols: Mapping[str, UOp]
    ) -> dict[str, graph.Entrypoint]:
        """The checked graphs over these leaves."""
        fail, value = self._json(GRAPH)
        leaves = {
            "input": inputs,
            "state": symbols,
            DRAW: {v.arg[0]: v for v in draw_variables()},
        }
        reader = graph.Reader(fail, lambda k, n: leaves.get(k, {}).get(n), self.limits)
        found = reader.read(value)
        if self.manifest["entrypoints"] != described(found, self.manifest["targets"]):
            raise self.fail("describes other entrypoints than the graph has")
        return found

    def graphs(self, device: str) -> tuple[dict[str, graph.Entrypoint], dict[str, UOp]]:
        """The checked graphs over new leaves on `device`, and the leaves of the state. No weights
        are read."""
        inputs = {n: UOp.buffer(s.dtype, s.shape, device) for n, s in self.specs.items()}
        symbols = {n: UOp.buffer(s.dtype, s.shape, device) for n, (_, s, _) in self.states.items()}
        return self.read_graph(inputs, symbols), symbols

    def read_tuned(self) -> Tuned:
        """The transform lists, if the bundle has any."""
        if TUNING not in self.archive.members:
            return {}
        fail, value = self._json(TUNING)
        return tuned.read(value, fail)

    def _json(self, name: str) -> tuple[Callable[[str], BundleError], Any]:
        """What makes the errors of a member, and its value, checked against its hash."""

        def fail(reason: str) -> BundleError:
            return self.fail(reason, name)

        size = self.archive.members[name].size
        if size > self.limits.graph_bytes:
            raise fail(f"has {size} bytes; the limit is {self.limits.graph_bytes}")
        raw = self.archive.read(name, self.manifest["members"][name]["sha256"], size)
        return fail, jsontext.loads(raw, fail, self.limits)

    def _weights(self, device: str) -> dict[str, Tensor]:
        """Read the arrays front to back, hashing what passes; nothing is kept if a hash differs."""
        member = self.archive.stream(WEIGHTS)
        infos = self._weights_header(member)
        tensors = {
            i.name: from_bytes(member.read(i.nbytes), i.dtype, i.shape, device)
            for i in infos.values()
        }
        member.check(self.manifest["members"][WEIGHTS]["sha256"])
        return tensors

    def _weights_header(self, member: MemberReader) -> dict[str, st.TensorInfo]:
        length = int.from_bytes(member.read(min(8, member.entry.size)), "little")
        left = member.entry.end - member.position
        if length > min(left, self.limits.header_bytes):
            raise self.fail(f"announces a header of {length} bytes", WEIGHTS)

        def error(reason: str, offset: int) -> BundleError:
            return BundleError(f"{self.source.name}: {WEIGHTS}: {reason} (offset {offset})")

        text = member.read(length)
        start, end = member.position, member.entry.end
        infos, _ = st.parse_header(text, start, end, error, self.limits)
        wanted = {n: spec for n, (_, spec, _) in self.states.items()}
        if {n: Spec(i.shape, i.dtype) for n, i in infos.items()} != wanted:
            raise self.fail("holds other arrays than the manifest's state", WEIGHTS)
        return infos

    def _refuse(self, reason: str) -> NoReturn:
        raise BundleError(f"{self.source.name}: {reason} (offset {self.source.size})")


_FIELDS: Mapping[str, Any] = {
    "format": str,
    "version": list,
    "producer": str,
    "requires": list,
    "inputs": dict,
    "targets": list,
    "entrypoints": dict,
    "state": dict,
    "aliases": dict,
    "generator": dict,
    "optimizer": (dict, type(None)),
    "metadata": dict,
    "members": dict,
}


def _is_sha256(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None


def _is_optimizer(value: Json) -> bool:
    """Whether name, rate, options and steps have their types; the optimizer checks the rest."""
    kinds: dict[str, Any] = {"name": str, "lr": (int, float, dict), "options": dict, "steps": int}
    exempt = value.get("exempt", [])
    if not isinstance(exempt, list) or not all(isinstance(n, str) for n in exempt):
        return False
    right = set(value) - {"exempt"} == set(kinds) and all(
        isinstance(value[k], t) for k, t in kinds.items()
    )
    return right and 0 <= value["steps"] < 1 << 53


def _is_word(value: Any) -> bool:
    """A number of 64 bits in decimal, in the one spelling it has."""
    right = isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value)
    return bool(right) and int(value) < 1 << 64 and str(int(value)) == value
