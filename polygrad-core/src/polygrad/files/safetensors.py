"""safetensors: named arrays in one file, read by range.

Layout: u64 header length, a JSON header (padded with spaces to 64 bytes, so that the data are
aligned), the data. Every offset and product is a Python int checked against the file's size before
anything is read; the data have no holes and no overlaps. Values are memoryviews: no numpy here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..dtype import DType, dtypes
from ..errors import FormatError
from . import jsontext
from .limits import DEFAULT, Limits
from .sniff import describe
from .source import FileSource, Readable

ALIGN = 64
NAMES: Final[Mapping[DType, str]] = {
    dtypes.bool: "BOOL", dtypes.int8: "I8", dtypes.uint8: "U8",
    dtypes.int16: "I16", dtypes.uint16: "U16", dtypes.int32: "I32", dtypes.uint32: "U32",
    dtypes.int64: "I64", dtypes.uint64: "U64",
    dtypes.float8_e4m3fn: "F8_E4M3", dtypes.float8_e5m2: "F8_E5M2",
    dtypes.float8_e4m3fnuz: "F8_E4M3FNUZ", dtypes.float8_e5m2fnuz: "F8_E5M2FNUZ",
    dtypes.float16: "F16", dtypes.bfloat16: "BF16", dtypes.float32: "F32", dtypes.float64: "F64",
}  # fmt: skip
DTYPES: Final[Mapping[str, DType]] = {name: dtype for dtype, name in NAMES.items()}


class TensorSpec(NamedTuple):
    """An array to write: `data` is its row-major bytes."""

    dtype: DType
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview


class TensorInfo(NamedTuple):
    """An array found in a file: `offset` counts from the start of the file."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    nbytes: int


# ---- writing


def plan(tensors: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> list[Any]:
    """The file as a list of chunks; equal content gives equal bytes, whatever the order it came in.

    Wide types first, then by name, as the format's own library does: so each array is aligned to
    its type.
    """
    order = sorted(tensors, key=lambda n: (-tensors[n].dtype.itemsize, n))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    chunks: list[Any] = []
    end = 0
    for name in order:
        dtype, shape, data = tensors[name]
        view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
        if view.nbytes != dtype.itemsize * _size(shape):
            raise FormatError(
                f"array {name!r}: {view.nbytes} bytes are not {dtype.name}{list(shape)}"
            )
        header[name] = _entry(dtype, shape, end, end + view.nbytes)
        chunks.append(view)
        end += view.nbytes
    text = jsontext.dumps(header)
    text += b" " * (-(8 + len(text)) % ALIGN)
    return [len(text).to_bytes(8, "little") + text, *chunks]


def write_safetensors(
    tensors: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The whole file as bytes."""
    return b"".join(plan(tensors, metadata))


def _entry(dtype: DType, shape: tuple[int, ...], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [begin, end]}


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


# ---- reading


class SafetensorsFile:
    """The arrays of a file: `.tensors` by name in file order, `.metadata`, `.read(name)`."""

    def __init__(self, source: Readable, limits: Limits = DEFAULT) -> None:
        self.source, self.limits = FileSource.open(source), limits
        try:
            header = self._header()
            start, end = 8 + len(header), self.source.size
            self.tensors, self.metadata = parse_header(header, start, end, self._error, limits)
        except BaseException:
            self.close()
            raise

    def read(self, name: str) -> memoryview:
        """The bytes of one array."""
        info = self.tensors[name]
        return self.source.read(info.offset, info.nbytes)

    def _header(self) -> memoryview:
        size = self.source.size
        head = bytes(self.source.read(0, min(512, size)))
        length = int.from_bytes(head[:8], "little")
        if head[8:9] != b"{":
            raise self._error(describe(head, "a safetensors file"), 0)
        if 8 + length > size:
            raise self._error(
                f"announces a header of {length} bytes in a file of {size}: truncated", 0
            )
        if length > self.limits.header_bytes:
            raise self._error(
                f"has a header of {length} bytes; the limit is {self.limits.header_bytes}", 0
            )
        return self.source.read(8, length)

    def _error(self, reason: str, offset: int) -> FormatError:
        return FormatError(f"{self.source.name}: {reason} (offset {offset})")

    def close(self) -> None:
        self.source.close()

    def __enter__(self) -> SafetensorsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse_header(
    text: bytes | memoryview, start: int, end: int, error: Any, limits: Limits = DEFAULT
) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """Arrays and metadata of a header whose data fill the bytes from `start` to `end` exactly."""

    def fail(reason: str) -> FormatError:
        made: FormatError = error(reason, 8)
        return made

    header = jsontext.loads(text, lambda reason: fail(f"the header {reason}"), limits)
    if not isinstance(header, dict):
        raise fail("the header is no JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise fail("__metadata__ does not map names to texts")
    if len(header) > limits.tensors:
        raise fail(f"has {len(header)} arrays; the limit is {limits.tensors}")
    found = [_tensor(name, value, start, fail, limits) for name, value in header.items()]
    found.sort(key=lambda t: (t.offset, t.nbytes))
    position = start
    for t in found:
        if t.offset != position:
            word = "overlaps the one before" if t.offset < position else "leaves a hole before it"
            raise error(f"array {t.name!r} {word}", t.offset)
        position += t.nbytes
    if position != end:
        reason = f"the arrays end at byte {position}, the data at {end}"
        raise error(f"{reason}: truncated" if position > end else reason, min(position, end))
    return {t.name: t for t in found}, metadata


def _tensor(name: str, value: Any, start: int, fail: Any, limits: Limits) -> TensorInfo:
    if not legal_name(name, limits):
        raise fail(f"has an array with the illegal name {name[:80]!r}")
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise fail(f"array {name!r} needs exactly dtype, shape and data_offsets")
    dtype = DTYPES.get(value["dtype"]) if isinstance(value["dtype"], str) else None
    if dtype is None:
        raise fail(
            f"array {name!r} has the dtype {value['dtype']!r}; known: {', '.join(sorted(DTYPES))}"
        )
    shape, span = value["shape"], value["data_offsets"]
    if not _naturals(shape) or len(shape) > limits.rank or not _naturals(span) or len(span) != 2:
        raise fail(f"array {name!r} has an illegal shape or data_offsets")
    count = _size(tuple(shape))
    if count > limits.elements:
        raise fail(f"array {name!r} has {count} elements; the limit is {limits.elements}")
    if span[1] - span[0] != count * dtype.itemsize:
        reason = f"{value['dtype']}{shape} needs {count * dtype.itemsize}"
        raise fail(f"array {name!r} has {span[1] - span[0]} bytes, {reason}")
    return TensorInfo(name, dtype, tuple(shape), start + span[0], span[1] - span[0])


def legal_name(name: str, limits: Limits = DEFAULT) -> bool:
    """Not empty, not too long, printable."""
    return 0 < len(name) <= limits.name_bytes and name.isprintable()


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 1 << 63 for v in value)


def walk(file: SafetensorsFile) -> Iterator[tuple[TensorInfo, memoryview]]:
    """Every array with its bytes, in the order of the file."""
    return zip(file.tensors.values(), map(file.read, file.tensors), strict=True)
