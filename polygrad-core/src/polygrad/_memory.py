"""What this process has done and holds, as users ask for it: `stats`, `GlobalCounters`, `collect`.

Floor: beside the engine, whose counters these are (`engine/counters.py` says what each counts).
"""

from __future__ import annotations

from typing import Any

from .device.buffer import pools
from .engine import kernels
from .engine.counters import counters
from .engine.runtime import current
from .errors import public


@public
def stats() -> dict[str, Any]:
    """What all runtimes of this process have done since its start, or `GlobalCounters.reset()`,
    and the bytes that devices hold: `mem_used` by tensors and scratch memory, `mem_cached` freed
    and kept for the next ones. `rt.stats()` says it of one runtime.

    >>> sorted(stats())[:4]
    ['bytes_moved', 'copies', 'disk_hits', 'kernels_compiled']
    """
    usage = [p.usage() for p in pools()]
    return {
        **counters.snapshot(),
        "mem_used": sum(u.live for u in usage),
        "mem_cached": sum(u.cached for u in usage),
    }


@public
def clear_schedule_cache() -> None:
    """Forget the Plans of graphs that the current runtime realised, and compiled kernels that no
    other Plan keeps. Both are made again when they are needed; not for every step.

    >>> clear_schedule_cache()
    >>> (Tensor([1.0]) + 1).tolist()
    [2.0]
    """
    current().clear_schedule_cache()
    kernels.forget()


@public
def collect() -> None:
    """Give back what nobody uses: garbage of Python's, scratch memory of the current runtime, and
    freed memory that devices keep. For moments of rest; living tensors keep theirs.

    >>> collect()
    >>> (Tensor([1.0]) + 1).tolist()
    [2.0]
    """
    current().collect()


@public
class _GlobalCounters:
    """The counters of the whole process, under the names that tinygrad's users know.

    >>> GlobalCounters.reset()
    >>> GlobalCounters.kernel_count, GlobalCounters.global_ops
    (0, 0)
    """

    @property
    def global_ops(self) -> int:
        """Arithmetic operations of all kernels that ran: an estimate made from their code."""
        return int(counters.ops)

    @property
    def global_mem(self) -> int:
        """Bytes that they touched, each byte once for each kernel: an estimate too."""
        return int(counters.bytes_moved)

    @property
    def time_sum_s(self) -> float:
        """Seconds that they took, of those compiled in a Context(TIMING=1); 0.0 without one."""
        return float(counters.seconds)

    @property
    def kernel_count(self) -> int:
        """Kernels that ran, each time counted."""
        return int(counters.launches)

    @property
    def mem_used(self) -> int:
        """Bytes that living tensors and scratch memory hold, on all devices, now."""
        return sum(self.mem_used_per_device.values())

    @property
    def mem_used_per_device(self) -> dict[str, int]:
        """The same by device."""
        return {p.device.name: p.usage().live for p in pools()}

    def reset(self) -> None:
        """Count from 0 again; what is in use stays in use."""
        counters.reset()


GlobalCounters = _GlobalCounters()
