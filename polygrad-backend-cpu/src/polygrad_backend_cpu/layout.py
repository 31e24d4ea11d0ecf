"""The memory that a Plan's threads walk: offsets in bytes, for what builds it (`tables.py`) and for
what reads it (`executor_text.py`, which says what the fields are)."""

from __future__ import annotations

from typing import Final

PLAN: Final = {"phases": 0, "phase_count": 8, "steps": 16, "step_count": 24, "scratch": 32,
               "stride": 40, "threads": 48}  # fmt: skip
PLAN_BYTES: Final = 64
PHASE: Final = {"items": 0, "item_count": 8, "total": 16, "wake": 24, "done": 64}
PHASE_BYTES: Final = 128
LINE: Final = 64  # bytes of a cache line: what one thread writes often has its own
ITEM: Final = {"steps": 0, "step_count": 8, "tickets": 16, "shares": 24, "next": LINE}
STEP: Final = {"function": 0, "params": 8, "variables": 16, "extent": 24}
STEP_BYTES: Final = 32
POOL: Final = {"signal": 0, "sleepers": 64, "plan": 128, "epoch": 136, "stop": 144, "workers": 152,
               "spins": 160, "walks": 192}  # fmt: skip
WALK_BYTES: Final = 64
MOST_SHARES: Final = 8  # a thread out of work looks at each of them


def item_bytes(threads: int) -> int:
    """The next ticket of each share has a cache line of its own."""
    return LINE * (1 + min(threads, MOST_SHARES))
