"""Small data sets by name: fetched once from where they are published, kept in the cache folder.

Each gives (training inputs, their labels, test inputs, their labels) as uint8 tensors. What was
fetched is checked against the form it must have; `base` names another place that has the files.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from ..dtype import dtypes
from ..errors import FormatError, public
from ..files import fetch
from ..files.unpack import gunzipped, untarred
from ..tensor import Tensor
from .state import from_bytes

__all__ = ["cifar", "mnist"]

Split = tuple[Tensor, Tensor, Tensor, Tensor]
_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"
_FASHION = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_MOST = 1 << 30  # bytes, unpacked: several times the largest of these


@public
def mnist(
    device: str | None = None,
    fashion: bool = False,
    *,
    base: str | None = None,
    insecure: bool = False,
) -> Split:
    """70 000 handwritten digits (LeCun et al. 1998), or articles of clothing (Xiao et al. 2017):
    inputs (60000, 1, 28, 28), labels (60000,), and 10000 of each to test.

    >>> images, labels, test_images, test_labels = nn.datasets.mnist()  # doctest: +SKIP
    """
    base = base or (_FASHION if fashion else _MNIST)
    found = []
    for part in ("train", "t10k"):
        images = _idx(f"{base}{part}-images-idx3-ubyte.gz", 3, device, insecure)
        labels = _idx(f"{base}{part}-labels-idx1-ubyte.gz", 1, device, insecure)
        if images.shape[0] != labels.shape[0]:
            raise FormatError(f"{base}: {images.shape[0]} images have {labels.shape[0]} labels.")
        found += [images.unsqueeze(1), labels]
    return found[0], found[1], found[2], found[3]


def _idx(url: str, rank: int, device: str | None, insecure: bool) -> Tensor:
    """An IDX file of bytes: 0, 0, 8 for uint8, the number of axes, their sizes, the elements."""
    data = gunzipped(fetch(url, insecure=insecure), _MOST)
    head = 4 + 4 * rank
    if len(data) < head or data[:4] != bytes((0, 0, 8, rank)):
        raise FormatError(f"{url}: is no IDX file of {rank} axes of bytes.")
    shape = struct.unpack(f">{rank}I", data[4:head])
    return _bytes(url, data[head:], shape, device)


@public
def cifar(device: str | None = None, *, base: str = _CIFAR, insecure: bool = False) -> Split:
    """60 000 colour photographs of 10 kinds (Krizhevsky 2009): inputs (50000, 3, 32, 32), labels
    (50000,), and 10000 of each to test.

    >>> images, labels, test_images, test_labels = nn.datasets.cifar()  # doctest: +SKIP
    """
    url = f"{base}cifar-10-binary.tar.gz"
    files = dict(untarred(fetch(url, insecure=insecure), _MOST))
    parts = [f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)]
    train = _records(url, files, parts, device)
    return *train, *_records(url, files, ["cifar-10-batches-bin/test_batch.bin"], device)


def _records(
    url: str, files: dict[str, bytes], names: list[str], device: str | None
) -> tuple[Tensor, Tensor]:
    """Rows of a label and the 3 planes of a photograph."""
    if missing := [name for name in names if name not in files]:
        raise FormatError(f"{url}: has no file {missing[0]!r}.")
    data = b"".join(files[name] for name in names)
    rows = _bytes(url, data, (len(data) // 3073, 3073), device)
    return rows[:, 1:].reshape(rows.shape[0], 3, 32, 32).contiguous(), rows[:, 0].contiguous()


def _bytes(url: str, data: Any, shape: tuple[int, ...], device: str | None) -> Tensor:
    if len(data) != math.prod(shape):
        raise FormatError(f"{url}: has {len(data)} bytes of elements, not those of {shape}.")
    return from_bytes(memoryview(data), dtypes.uint8, shape, device)
