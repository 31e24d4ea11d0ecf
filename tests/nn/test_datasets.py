"""Data sets from a server on this machine that has files of the published form, only smaller."""

from __future__ import annotations

import functools
import gzip
import http.server
import io
import struct
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygrad import Context, nn
from polygrad.errors import FormatError

Rng = np.random.Generator


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with Context(POLY_CACHE_DIR=str(tmp_path / "cache")):
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def write_idx(path: Path, array: Any) -> None:
    head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))


def test_mnist(base: str, tmp_path: Path, rng: Rng) -> None:
    wanted = []
    for part, n in (("train", 6), ("t10k", 2)):
        images = rng.integers(0, 256, (n, 28, 28), np.uint8)
        labels = rng.integers(0, 10, n).astype(np.uint8)
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", labels)
        wanted += [images[:, None], labels]
    for got, array in zip(nn.datasets.mnist(base=base, insecure=True), wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), array, strict=True)


def test_a_file_of_another_form_is_refused(base: str, tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"<html>not found"))
    with pytest.raises(FormatError, match="is no IDX file of 3 axes of bytes"):
        nn.datasets.mnist(base=base, insecure=True)
    cut = bytes((0, 0, 8, 1)) + struct.pack(">I", 5) + b"1234"
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(cut))
    with pytest.raises(FormatError, match=r"has 4 bytes of elements, not those of \(5,\)"):
        nn.datasets._idx(base + "train-labels-idx1-ubyte.gz", 1, None, True)


def test_cifar(base: str, tmp_path: Path, rng: Rng) -> None:
    rows = rng.integers(0, 10, (6, 2, 3073)).astype(np.uint8)
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, batch in zip(names, rows, strict=True):
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = batch.size
            archive.addfile(info, io.BytesIO(batch.tobytes()))
    x, y, x2, y2 = nn.datasets.cifar(base=base, insecure=True)
    train = rows[:5].reshape(10, 3073)
    np.testing.assert_array_equal(x.numpy(), train[:, 1:].reshape(10, 3, 32, 32), strict=True)
    np.testing.assert_array_equal(y.numpy(), train[:, 0], strict=True)
    np.testing.assert_array_equal(x2.numpy(), rows[5, :, 1:].reshape(2, 3, 32, 32), strict=True)
    np.testing.assert_array_equal(y2.numpy(), rows[5, :, 0], strict=True)
