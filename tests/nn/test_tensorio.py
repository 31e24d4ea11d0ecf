"""`nn.state.TensorIO` is a file over a Tensor: operations against `io.BytesIO` of its bytes."""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygrad import Context, Tensor, jit
from polygrad.errors import ArgumentError, CaptureError, DTypeError, FileError
from polygrad.nn.state import TensorIO

DATA = bytes(range(1, 40))


def tensor(data: bytes) -> Tensor:
    return Tensor(np.frombuffer(data, np.uint8))


OPERATIONS = st.one_of(
    st.tuples(st.just("read"), st.integers(-1, 50)),
    st.tuples(st.just("seek"), st.integers(0, 50)),
    st.tuples(st.just("write"), st.binary(max_size=12)),
    st.tuples(st.just("from the end"), st.integers(-39, 3)),
)


@given(st.lists(OPERATIONS, max_size=12))
@settings(max_examples=40, deadline=None)
def test_it_does_what_a_file_does(operations: list[tuple[str, Any]]) -> None:
    with Context(POLY_DEV="interp"):
        x = tensor(DATA)
        ours, theirs = TensorIO(x), io.BytesIO(DATA)
        for what, given_ in operations:
            if what == "read":
                assert ours.read(given_) == theirs.read(given_)
            elif what == "seek":
                assert ours.seek(given_) == theirs.seek(given_)
            elif what == "from the end":
                assert ours.seek(given_, 2) == theirs.seek(given_, 2)
            elif room := given_[: max(0, len(DATA) - theirs.tell())]:
                assert ours.write(given_) == theirs.write(room)
            assert ours.tell() == theirs.tell()
        assert bytes(x.tolist()) == theirs.getvalue()


def test_it_sees_what_is_written_into_the_tensor(device: str) -> None:
    x = tensor(b"abcd")
    file = TensorIO(x)
    assert file.read(2) == b"ab"
    x[2] = ord("Z")
    assert file.read() == b"Zd"
    x.copy_from(np.frombuffer(b"WXYZ", np.uint8))
    file.seek(0)
    assert file.readall() == b"WXYZ"
    buffer = bytearray(3)
    assert file.seek(-2, 1) == 2 and file.readinto(buffer) == 2 and buffer == b"YZ\0"


def test_a_lazy_tensor_is_computed(device: str) -> None:
    assert TensorIO((Tensor([1, 2, 3]) + 1).cast("uint8")).read() == b"\2\3\4"


def test_archives_are_read_from_it(device: str) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"hello" * 100)
    assert zipfile.ZipFile(TensorIO(tensor(file.getvalue()))).read("a.txt") == b"hello" * 100
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo("b")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"xyz"))
    with tarfile.open(fileobj=io.BufferedReader(TensorIO(tensor(packed.getvalue())))) as tar:
        member = tar.extractfile("b")
        assert member is not None and member.read() == b"xyz"


def test_its_limits(device: str) -> None:
    file = TensorIO(tensor(b"abc"))
    assert file.readable() and file.writable() and file.seekable()
    assert file.write(b"ABCDE") == 3
    with pytest.raises(FileError, match="has 3 bytes and does not grow"):
        file.write(b"x")
    assert file.write(b"") == 0 and file.seek(9) == 9 and file.read() == b""
    for offset, whence in ((-1, 0), (-10, 1), (-4, 2)):
        with pytest.raises(ArgumentError, match="before the start"):
            file.seek(offset, whence)
    with pytest.raises(ArgumentError, match="whence is 0, 1 or 2"):
        file.seek(0, 3)
    assert file.tell() == 9
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.tell()
    with pytest.raises(ValueError, match="closed"):
        file.read()


@pytest.mark.parametrize("wrong", [Tensor([1.0]), Tensor([[1]], dtype="uint8"), Tensor([1])])
def test_another_tensor_is_refused(wrong: Tensor) -> None:
    with pytest.raises(DTypeError, match="uint8 tensor of one axis"):
        TensorIO(wrong)
    with pytest.raises(ArgumentError, match="TensorIO: tensor is a tensor, not b'abc'"):
        TensorIO(b"abc")  # type: ignore[arg-type]


def test_what_a_capture_is_given_cannot_be_read(device: str) -> None:
    x = tensor(b"abc")
    with pytest.raises(CaptureError, match="value is read"):
        jit(lambda t: t + TensorIO(t).read(1)[0])(x)
