"""Row 12: when memory ends, at whatever point, the state stays whole and the next try succeeds."""

from __future__ import annotations

import numpy as np
import pytest

from polygrad import Tensor, jit
from polygrad.device.buffer import Pool
from polygrad.engine import Runtime, use
from polygrad.errors import DeviceMemoryError


class Refusal:
    """Lets `count` Buffers have memory and refuses the next ones: `times` of them."""

    def __init__(self, patch: pytest.MonkeyPatch, count: int, times: int) -> None:
        self.count, self.left, self.hit = count, times, False
        real = Pool.take

        def take(pool: Pool, nbytes: int) -> object:
            if self.count > 0:
                self.count -= 1
            elif self.left:
                self.left -= 1
                self.hit = True
                raise DeviceMemoryError("refused by the test")
            return real(pool, nbytes)

        patch.setattr(Pool, "take", take)


class Work:
    """Eager and compiled training over one state."""

    def __init__(self) -> None:
        self.w = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device="interp")
        self.moment = Tensor.zeros(3, 4, device="interp")
        self.x = Tensor(np.ones((5, 3), np.float32), device="interp")
        self.step = jit(self._step)

    def _step(self, x: Tensor) -> Tensor:
        y = (x @ self.w).contiguous()
        self.moment.assign(self.moment * 0.5 + y.sum(0))
        self.w.assign(self.w - self.moment * 0.25)
        return y.sum()

    def run(self, steps: int = 3) -> list[list[object]]:
        """One eager step, then compiled ones; the state before and after each."""
        seen = [self.values()]
        for n in range(steps):
            (self.step if n else self._step)(self.x)
            Tensor.realize(self.w, self.moment)
            seen.append(self.values())
        return seen

    def values(self) -> list[object]:
        return [self.w.tolist(), self.moment.tolist()]


@pytest.mark.parametrize("times", [1, 1 << 30], ids=["once", "from then on"])
def test_every_allocation_may_fail(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    with use(Runtime("without faults")):
        states = Work().run(5)
    failures = 0
    for count in range(60):
        with use(Runtime(f"fault {count}")):
            work = Work()
            work.values()
            with monkeypatch.context() as patch:
                refusal = Refusal(patch, count, times)
                try:
                    work.run()
                except DeviceMemoryError:
                    failures += 1
            assert work.values() in states  # weights and moment of one and the same step
            work.run(1)
            assert work.values() in states
            if not refusal.hit:
                break
    assert failures >= 3
