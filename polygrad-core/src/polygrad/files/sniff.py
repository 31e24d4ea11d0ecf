"""What a file is, by its first bytes, for the message when it is not what was expected.

Most files that are "broken" were never the file: a Git LFS pointer, a saved error page, another
format.
"""

from __future__ import annotations

# (offset, bytes, what it is, what to do). The first that fits is told.
_MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (
        0,
        b"version https://git-lfs",
        "a Git LFS pointer, not the file itself",
        "run `git lfs pull` in its repository",
    ),
    (0, b"GGUF", "a GGUF file", ""),
    (0, b"\x1f\x8b", "gzip-compressed", "unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed", "unpack it first"),
    (0, b"BZh", "bzip2-compressed", "unpack it first"),
    (0, b"\xfd7zXZ", "xz-compressed", "unpack it first"),
    (0, b"7z\xbc\xaf", "a 7-Zip archive", "unpack it first"),
    (257, b"ustar", "a tar archive", "unpack it first"),
    (0, b"\x93NUMPY", "a NumPy array file", "read it with numpy.load"),
    (0, b"\x89HDF", "an HDF5 (Keras) file", ""),
    (0, b"\x89PNG", "a PNG picture", ""),
    (0, b"%PDF", "a PDF document", ""),
    (0, b"\x7fELF", "a native program", ""),
    (0, b"\x80\x02", "a Python pickle (an old torch.save file)", ""),
    (0, b"\x80\x04", "a Python pickle", ""),
    (8, b"{", "a safetensors file", "read it with nn.state.safe_load"),
    (0, b"PK\x03\x04", "a ZIP archive", ""),
    (0, b"{", "a JSON text", ""),
)
_HTML = (b"<!doctype html", b"<html", b"<head", b"<?xml")


def kind(head: bytes) -> tuple[str, str]:
    """(what the first bytes say the file is, what to do about it); ("", "") if unknown."""
    if not head:
        return "empty", "it was probably cut short while being written or downloaded"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_HTML):
        return "an HTML or XML page, not the file itself", "the download was answered by a web page"
    for offset, magic, what, advice in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return what, advice
    return "", ""


def describe(head: bytes, expected: str) -> str:
    """The sentence for an error: "is a gzip-compressed file, not a …; unpack it first"."""
    what, advice = kind(head)
    if not what:
        shown = bytes(head[:8]).hex(" ")
        return f"is not {expected}: it starts with the bytes {shown}"
    tail = f"; {advice}" if advice else ""
    return f"is {what}. Expected {expected}{tail}"
