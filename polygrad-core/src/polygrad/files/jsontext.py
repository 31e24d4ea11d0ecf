"""JSON for files: a strict reader and a canonical writer.

Strict: UTF-8, no duplicate keys, no NaN or Infinity, bounded nesting (checked before the parser
runs, which would answer deep nesting with RecursionError), bounded digits. Canonical: one text for
one value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from .limits import DEFAULT, Limits

Fail = Callable[[str], Exception]  # makes the error for a reason

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def loads(text: bytes | memoryview, fail: Fail, limits: Limits = DEFAULT) -> Any:
    """The value of a JSON text; raises `fail(reason)` for anything that is not strict JSON."""
    raw = bytes(text)
    if _depth(raw) > limits.nesting:
        raise fail(f"JSON nested deeper than {limits.nesting}")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            raise fail(f"JSON has a duplicate key {_duplicate(items)!r}")
        return made

    def constant(name: str) -> Any:
        raise fail(f"JSON contains {name}")

    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except (json.JSONDecodeError, UnicodeDecodeError) as e:
        raise fail(f"is no valid JSON: {e}") from None
    except ValueError as e:  # a number of too many digits
        if type(e) is not ValueError:
            raise
        raise fail(f"is no valid JSON: {e}") from None


def dumps(value: Any) -> bytes:
    """The canonical text: ASCII, no spaces, keys in the order given."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    for c in _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS):
        depth += 1 if c in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _duplicate(items: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    return next(k for k, _ in items if k in seen or seen.add(k))  # type: ignore[func-returns-value]
