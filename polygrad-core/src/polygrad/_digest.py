"""blake2b, without what `hashlib` loads for its other hashes: OpenSSL, 5 ms of each process."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # not every Python has it apart
    from hashlib import blake2b

__all__ = ["blake2b"]
