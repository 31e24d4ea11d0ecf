"""safetensors: what is written reads back, hostile headers are refused."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from polygrad.dtype import TENSOR_DTYPES, dtypes
from polygrad.errors import FormatError
from polygrad.files import Limits, SafetensorsFile, TensorSpec, write_safetensors

A = TensorSpec(dtypes.float32, (2, 3), struct.pack("<6f", *range(6)))
B = TensorSpec(dtypes.bool, (3,), b"\1\0\1")
EMPTY = TensorSpec(dtypes.int64, (0, 4), b"")
SCALAR = TensorSpec(dtypes.bfloat16, (), b"\x80\x3f")
ARRAYS = {"layer.b": B, "layer.a": A, "none": EMPTY, "s": SCALAR}


def pack(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def one(**changes: Any) -> bytes:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes
    return pack({"x": entry}, bytes(8))


def test_arrays_read_back() -> None:
    file = SafetensorsFile(write_safetensors(ARRAYS, {"made by": "a test"}))
    assert file.metadata == {"made by": "a test"}
    for name, spec in ARRAYS.items():
        info = file.tensors[name]
        assert (info.dtype, info.shape, file.read(name)) == (spec.dtype, spec.shape, spec.data)


def test_order_of_writing_does_not_matter() -> None:
    assert write_safetensors(ARRAYS) == write_safetensors(dict(reversed(ARRAYS.items())))


def test_data_start_at_64_and_arrays_at_their_own_width() -> None:
    data = write_safetensors(ARRAYS)
    assert (8 + int.from_bytes(data[:8], "little")) % 64 == 0
    infos = SafetensorsFile(data).tensors.values()
    assert all(i.offset % i.dtype.itemsize == 0 for i in infos)


def test_the_formats_own_library_reads_it() -> None:
    safetensors = pytest.importorskip("safetensors")
    narrow = {
        name: TensorSpec(TENSOR_DTYPES[name], (2,), b"\x38\x40")
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    }
    header = safetensors.deserialize(write_safetensors({"a": A, "b": B, **narrow}))
    assert {n: (v["dtype"], v["shape"], bytes(v["data"])) for n, v in header} == {
        "a": ("F32", [2, 3], A.data),
        "b": ("BOOL", [3], B.data),
        "float8_e4m3fn": ("F8_E4M3", [2], b"\x38\x40"),
        "float8_e5m2": ("F8_E5M2", [2], b"\x38\x40"),
        "float8_e4m3fnuz": ("F8_E4M3FNUZ", [2], b"\x38\x40"),
        "float8_e5m2fnuz": ("F8_E5M2FNUZ", [2], b"\x38\x40"),
    }


def test_wrong_number_of_bytes_is_not_written() -> None:
    with pytest.raises(FormatError, match="array 'x': 3 bytes are not int32"):
        write_safetensors({"x": TensorSpec(dtypes.int32, (1,), b"123")})


HOSTILE = {
    "no object": (pack([]), "starts with"),
    "header past the end": (struct.pack("<Q", 1 << 60) + b"{}", "announces a header of"),
    "header of 2^64 - 1": (b"\xff" * 8 + b"{}", "truncated"),
    "unknown dtype": (one(dtype="F31"), "has the dtype 'F31'; known: BF16, BOOL"),
    "dtype no text": (one(dtype=["F32"]), "has the dtype"),
    "missing key": (pack({"x": {"dtype": "F32", "shape": []}}), "needs exactly dtype"),
    "extra key": (one(more=1), "needs exactly dtype"),
    "negative size": (one(shape=[-2]), "illegal shape"),
    "a bool as size": (one(shape=[True, 2]), "illegal shape"),
    "a float as size": (one(shape=[2.0]), "illegal shape"),
    "sizes that wrap": (one(shape=[1 << 32, 1 << 32]), "elements"),
    "size above 2^63": (one(shape=[1 << 63]), "illegal shape"),
    "offsets turned round": (one(data_offsets=[8, 0]), "has -8 bytes"),
    "too few bytes": (one(data_offsets=[0, 4]), "has 4 bytes, F32.* needs 8"),
    "past the end": (one(shape=[4], data_offsets=[0, 16]), "truncated"),
    "a hole at the start": (one(shape=[1], data_offsets=[4, 8]), "leaves a hole"),
    "a rest at the end": (one(shape=[1], data_offsets=[0, 4]), "the arrays end at byte"),
    "overlap": (
        pack({k: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]} for k in "ab"}, bytes(4)),
        "overlaps",
    ),
    "duplicate key": (pack(b'{"a":1,"a":1}'), "duplicate key 'a'"),
    "duplicate inner key": (pack(b'{"a":{"dtype":"F32","dtype":"F32"}}'), "duplicate key 'dtype'"),
    "NaN": (pack(b'{"a":NaN}'), "contains NaN"),
    "no UTF-8": (pack(b'{"\xff":1}'), "no valid JSON"),
    "no JSON": (pack(b"{oops"), "no valid JSON"),
    "deep": (pack(b'{"a":' + b"[" * 100_000), "nested deeper than 64"),
    "many digits": (pack(b'{"a":' + b"9" * 10_000 + b"}"), "no valid JSON"),
    "empty name": (pack({"": {}}), "illegal name"),
    "a line break in a name": (pack({"a\nb": {}}), "illegal name"),
    "metadata no texts": (pack({"__metadata__": {"a": 1}}), "__metadata__"),
    "empty file": (b"", "is empty"),
    "short file": (b"\1\2", "is not a safetensors file"),
    "LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "git lfs pull",
    ),
    "web page": (b"<!DOCTYPE html><html><body>404", "web page"),
    "GGUF": (b"GGUF\3\0\0\0" + bytes(100), "is a GGUF file"),
    "pickle": (b"\x80\x02}q\0" + bytes(100), "pickle"),
    "zip": (b"PK\3\4" + bytes(100), "ZIP archive"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers_are_refused_with_file_and_place(case: str) -> None:
    data, reason = HOSTILE[case]
    with pytest.raises(FormatError, match=reason) as caught:
        SafetensorsFile(data)
    assert str(caught.value).startswith("<bytes>: ")
    assert "(offset " in str(caught.value)


def test_every_truncation_is_refused() -> None:
    data = write_safetensors(ARRAYS)
    for length in range(len(data)):
        with pytest.raises(FormatError):
            SafetensorsFile(data[:length])


def test_a_flipped_bit_never_gives_another_error() -> None:
    """Values may change (the format has no checksum), but nothing but FormatError is raised."""
    data = write_safetensors(ARRAYS)
    for bit in range(8 * (8 + int.from_bytes(data[:8], "little"))):
        changed = bytearray(data)
        changed[bit >> 3] ^= 1 << (bit & 7)
        try:
            file = SafetensorsFile(bytes(changed))
        except FormatError:
            continue
        assert sum(i.nbytes for i in file.tensors.values()) <= len(data)


def test_limits_are_respected() -> None:
    data = write_safetensors({"a": A, "b": B})
    for limits, reason in ((Limits(header_bytes=10), "header of"), (Limits(tensors=1), "2 arrays")):
        with pytest.raises(FormatError, match=reason):
            SafetensorsFile(data, limits)


def test_a_path_is_read_by_range(tmp_path: Any) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(write_safetensors(ARRAYS))
    with SafetensorsFile(path) as file:
        assert file.read("layer.a") == A.data
