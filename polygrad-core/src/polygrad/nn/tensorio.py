"""A uint8 Tensor as a binary file, for readers and writers that want one."""

from __future__ import annotations

import io
from typing import Any

from ..dtype import dtypes
from ..errors import ArgumentError, DTypeError, FileError, public, shown
from ..tensor import Tensor
from ..tensor.store import read_into
from ..uop.sizes import is_fixed

_ORIGINS = ("the start", "the place", "the end")


@public
class TensorIO(io.RawIOBase):
    """A file over the bytes of a uint8 Tensor of one axis: each read copies what it asks for, each
    write assigns to the Tensor, which keeps its size. Raises DTypeError for another Tensor,
    ArgumentError for a place outside and after `close`, FileError for a write at the end.

    >>> import io
    >>> x = Tensor(list(b"polygrad"), dtype="uint8")
    >>> file = nn.state.TensorIO(x)
    >>> file.seek(4), file.read(2), file.write(b"UP"), file.tell()
    (4, b'gr', 2, 8)
    >>> bytes(x.tolist())
    b'polygrUP'
    >>> io.BufferedReader(nn.state.TensorIO(x)).read(4)
    b'poly'
    """

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        if not isinstance(tensor, Tensor):
            raise ArgumentError(f"TensorIO: tensor is a tensor, not {shown(tensor)}.")
        if tensor.dtype is not dtypes.uint8 or tensor.ndim != 1 or not is_fixed(tensor.shape):
            raise DTypeError(
                "TensorIO takes a uint8 tensor of one axis of a fixed size, not"
                f" {tensor.dtype.name} {tensor.shape}. x.contiguous().bitcast('uint8').flatten()"
                " has the bytes of x."
            )
        self._tensor, self._at = tensor, 0

    # ---- what it can do

    def readable(self) -> bool:
        """True."""
        return self._opened()

    def writable(self) -> bool:
        """True."""
        return self._opened()

    def seekable(self) -> bool:
        """True."""
        return self._opened()

    # ---- the place

    def tell(self) -> int:
        """The place of the next byte."""
        self._opened()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to `offset` from the start, the place (1) or the end (2); gives the new place, which
        may lie behind the end."""
        self._opened()
        if whence not in (0, 1, 2):
            raise ArgumentError(f"seek: whence is 0, 1 or 2, not {shown(whence)}.")
        at = (0, self._at, self._tensor.numel())[whence] + offset
        if at < 0:
            raise ArgumentError(f"seek: {offset} from {_ORIGINS[whence]} lies before the start.")
        self._at = at
        return at

    # ---- bytes

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` from the place on, as far as there are bytes; gives their number."""
        self._opened()
        room = memoryview(buffer).cast("B")
        count = self._left(room.nbytes)
        if count:
            read_into(self._tensor, room[:count], self._at)
        self._at += count
        return count

    def write(self, data: Any) -> int:
        """Assign bytes from the place on, as many as there is room for; gives their number."""
        self._opened()
        given = memoryview(data).cast("B")
        count = self._left(given.nbytes)
        if given.nbytes and not count:
            raise FileError(
                f"write: the tensor has {self._tensor.numel()} bytes and does not grow; place"
                f" {self._at} is its end."
            )
        if count:
            self._tensor[self._at : self._at + count] = self._tensor._like(bytearray(given[:count]))
        self._at += count
        return count

    def _left(self, wanted: int) -> int:
        return max(0, min(wanted, self._tensor.numel() - self._at))

    def _opened(self) -> bool:
        if self.closed:
            raise ArgumentError("the file over a tensor was closed.")
        return True
