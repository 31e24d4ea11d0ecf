"""State by name: the Tensors of any object, found by the path of attributes, keys and numbers.

`net.layers[0].weight` is called "layers.0.weight". A Tensor met twice keeps both names in the state
dict (it is tied), and is one parameter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

from ..dtype import DType, dtypes
from ..errors import ArgumentError, ShapeError, did_you_mean, is_ours, public
from ..files import SafetensorsFile, TensorSpec, atomic
from ..files import safetensors as st
from ..tensor import Tensor
from ..tensor.base import one_owner
from ..tensor.store import inside, new_leaf, read
from ..tensor.store import realize as realize_all
from .tensorio import TensorIO as TensorIO

__all__ = [
    "TensorIO",
    "get_parameters",
    "get_state_dict",
    "load_state_dict",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "tar_extract",
    "zip_extract",
]


@public
def get_state_dict(obj: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every Tensor that can be reached from `obj`, by its path.

    >>> list(nn.get_state_dict({"fc": nn.Linear(2, 3)}))
    ['fc.weight', 'fc.bias']
    """
    found: dict[str, Tensor] = {}
    stack: list[tuple[str, Any, tuple[int, ...]]] = [(prefix.strip("."), obj, ())]
    while stack:
        path, value, above = stack.pop()
        if isinstance(value, Tensor):
            found[path or "value"] = value
        elif id(value) not in above:  # an object below itself is not walked again
            inner = [(f"{path}.{name}" if path else name, v) for name, v in parts(value)]
            stack += [(name, v, (*above, id(value))) for name, v in reversed(inner)]
    return found


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What lies directly below an object: items of containers, attributes of the rest."""
    if isinstance(value, Mapping):
        yield from ((str(k), v) for k, v in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, (list, tuple)):
        yield from ((str(i), v) for i, v in enumerate(value))
    if not isinstance(value, _OPAQUE) and not _is_machinery(type(value).__module__):
        yield from getattr(value, "__dict__", {}).items()
        for cls in type(value).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    yield name, getattr(value, name)


def put_back(obj: Any, path: str, tensor: Tensor) -> bool:
    """Make the place that `get_state_dict` calls `path` hold `tensor`; whether it was found."""
    for name, part in parts(obj):
        if name == path:
            _set_part(obj, name, tensor)
            return True
        if path.startswith(f"{name}.") and put_back(part, path[len(name) + 1 :], tensor):
            return True
    return False


def _set_part(obj: Any, name: str, value: Tensor) -> None:
    if isinstance(obj, dict):
        obj[next(key for key in obj if str(key) == name)] = value
    elif isinstance(obj, list) and name.isdigit():
        obj[int(name)] = value
    elif not isinstance(obj, tuple):  # a tuple holds what it held before
        object.__setattr__(obj, name, value)


def _is_machinery(module: str) -> bool:
    """Of what is ours, layers and optimizers hold state; compiled functions hold what they need."""
    return is_ours(module) and not module.startswith("polygrad.nn")


# What an attribute may hold that is no part of a model; a module would lead to all of Python.
_OPAQUE = (type, str, bytes, ModuleType, FunctionType, MethodType)


@public
def get_parameters(obj: Any) -> list[Tensor]:
    """The Tensors of `obj` that take a gradient, each once, in the order of their paths.

    >>> len(nn.get_parameters([nn.Linear(2, 3), nn.BatchNorm(3)]))
    4
    """
    unique = {id(t): t for t in get_state_dict(obj).values() if is_parameter(t)}
    return list(unique.values())


def is_parameter(tensor: Tensor) -> bool:
    """Whether an optimizer should train it: a float that was not marked as auxiliary."""
    return tensor.dtype.is_float and tensor.requires_grad is not False


@public
def load_state_dict(
    obj: Any,
    state_dict: Mapping[str, Any],
    strict: bool = True,
    verbose: bool = False,
    consume: bool = False,
    realize: bool = True,
) -> None:
    """Set the Tensors of `obj` to the values of the same name, cast to their dtype.

    Nothing is changed unless everything fits. `strict` demands the same names on both sides.

    >>> layer = nn.Linear(1, 1)
    >>> nn.load_state_dict(layer, {"weight": [[2.0]], "bias": [1.0]})
    >>> layer(Tensor([3.0])).tolist()
    [7.0]
    """
    own = get_state_dict(obj)
    if strict:
        check_names("load_state_dict", own, state_dict, strict=True)
    wanted = {name: t for name, t in own.items() if name in state_dict}
    with inside(one_owner(wanted.values())):
        pairs = [(name, t, _value(name, t, state_dict[name])) for name, t in wanted.items()]
    done: set[int] = set()
    for name, target, value in pairs:
        if id(target) not in done:
            done.add(id(target))
            target.assign(value)
        if verbose:
            print(f"loaded {name} {target.shape}")
        if consume and isinstance(state_dict, dict):
            del state_dict[name]
    if realize:
        realize_all([target for _, target, _ in pairs])


def check_names(
    what: str, own: Mapping[str, Any], given: Mapping[str, Any], strict: bool = False
) -> None:
    """Raise unless both have the same names. `what` names the function, `strict` whether it has an
    argument of that name."""
    missing = [n for n in own if n not in given]
    unknown = [n for n in given if n not in own]
    if unknown:
        hint = did_you_mean(unknown[0], missing or own)
        way = " strict=False loads the rest." if strict else ""
        raise ArgumentError(
            f"{what}: no tensor of the model is named {unknown[0]!r}{_more(unknown)}.{hint}{way}"
        )
    if missing:
        way = " strict=False keeps the old ones." if strict else ""
        raise ArgumentError(f"{what}: no value for {missing[0]!r}{_more(missing)}.{way}")


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _value(name: str, target: Tensor, given: Any) -> Tensor:
    value = given if isinstance(given, Tensor) else Tensor(given)
    one_owner((target, value))
    if value.shape != target.shape:
        raise ShapeError(
            f"load_state_dict: {name!r} has shape {target.shape}, the value {value.shape}."
        )
    return value.to(target.device).cast(target.dtype).detach()


# ---- safetensors files


@public
def safe_save(
    tensors: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write named Tensors to a .safetensors file, atomically.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> nn.safe_save({"w": Tensor([1.0, 2.0])}, path, {"by": "me"})
    >>> nn.safe_load(path)["w"].tolist(), nn.safe_load_metadata(path)
    ([1.0, 2.0], {'by': 'me'})
    """
    specs = {name: TensorSpec(t.dtype, t.shape, read(t)) for name, t in tensors.items()}
    with atomic(path) as file:
        for chunk in st.plan(specs, metadata):
            file.write(chunk)


@public
def safe_load(source: Any, device: str | None = None) -> dict[str, Tensor]:
    """The Tensors of a .safetensors file (a path or bytes), by name.

    >>> nn.safe_load("weights.safetensors")["fc.weight"].shape  # doctest: +SKIP
    """
    with SafetensorsFile(source) as file:
        return {
            info.name: from_bytes(data, info.dtype, info.shape, device)
            for info, data in st.walk(file)
        }


@public
def safe_load_metadata(source: Any) -> dict[str, str]:
    """The texts that a .safetensors file carries beside its Tensors.

    >>> nn.safe_load_metadata("weights.safetensors")  # doctest: +SKIP
    """
    with SafetensorsFile(source) as file:
        return file.metadata


@public
def zip_extract(source: Any, limit: int = 4 << 30) -> dict[str, Tensor]:
    """The files of a ZIP archive (a path, bytes or a uint8 Tensor) as uint8 Tensors by name.

    Nothing is written to disk. Raises FormatError where the archive is broken, has a name that
    leads out of it, is encrypted, or unpacks to more than `limit` bytes.

    >>> import io, zipfile
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w") as archive:
    ...     archive.writestr("a.bin", bytes([1, 2]))
    >>> {name: t.tolist() for name, t in nn.state.zip_extract(file.getvalue()).items()}
    {'a.bin': [1, 2]}
    """
    from ..files import unpack

    return {name: _flat(data) for name, data in unpack.unzipped(_stored(source), limit)}


@public
def tar_extract(source: Any, limit: int = 4 << 30) -> dict[str, Tensor]:
    """The files of a tar archive, packed by gzip, bzip2, xz or not, as `zip_extract` gives them.
    Links and devices in it are refused.

    >>> list(nn.state.tar_extract("images.tar.gz"))  # doctest: +SKIP
    """
    from ..files import unpack

    return {name: _flat(data) for name, data in unpack.untarred(_stored(source), limit)}


def _stored(source: Any) -> Any:
    return source.data().cast("B") if isinstance(source, Tensor) else source


def _flat(data: bytes) -> Tensor:
    return from_bytes(memoryview(data), dtypes.uint8, (len(data),))


def from_bytes(
    data: memoryview, dtype: DType, shape: tuple[int, ...], device: str | None = None
) -> Tensor:
    """A Tensor over a copy of row-major bytes."""
    return new_leaf(dtype, shape, device, data)
