"""Rows 8, 9, 10 and 19 of the reliability regime: threads, forks and growth in the engine."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from polygrad import Context, Tensor, jit, nn
from polygrad.engine import Runtime, use
from polygrad.engine.counters import counters
from polygrad.uop.ops import live_nodes

# ---- row 8: bits depend on nothing but the program

_PROGRAM = """
import hashlib
import numpy as np
from polygrad import Tensor
r = np.random.default_rng(0)
x = Tensor(r.standard_normal((257, 129), np.float32))
w = Tensor(r.standard_normal((129, 65), np.float32))
big = Tensor(r.standard_normal(300_001, np.float32))
results = [x @ w, (x @ w).relu().softmax(-1), big.sum(), x.sum(0), x.var(1), Tensor.rand(1000)]
print(hashlib.sha256(b"".join(t.numpy().tobytes() for t in results)).hexdigest())
"""


def test_bits_do_not_depend_on_threads_or_hash_seeds(tmp_path) -> None:
    """Row 8."""
    pytest.importorskip("polygrad_backend_cpu")
    found = set()
    for threads, seed in (("1", "0"), ("2", "1"), ("4", "2")):
        env = {**os.environ, "POLY_DEV": "cpu", "POLY_CACHE_DIR": str(tmp_path / "cache")}
        env |= {"POLY_THREADS": threads, "PYTHONHASHSEED": seed}
        out = subprocess.run(
            [sys.executable, "-c", _PROGRAM], env=env, check=True, capture_output=True, text=True
        )
        found.add(out.stdout)
    assert len(found) == 1


# ---- row 9: threads


def train(seed: int, steps: int = 20) -> list[float]:
    """Losses of a small net trained with jit."""
    r = np.random.default_rng(seed)
    x, y = r.random((8, 5), np.float32), r.random((8, 2), np.float32)
    w = Tensor(r.standard_normal((5, 2), np.float32), requires_grad=True)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = ((x @ w - y) ** 2).mean()
        (g,) = loss.gradient(w)
        w.assign(w.detach() - 0.1 * g)
        return loss

    return [step(Tensor(x), Tensor(y)).item() for _ in range(steps)]


def in_threads(*actions) -> list[object]:
    """Run the actions at once, switching often; their results or errors in order."""
    results: list[object] = [None] * len(actions)

    def run(i: int) -> None:
        try:
            results[i] = actions[i]()
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(actions))]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    return results


def test_two_threads_train_two_models(device: str) -> None:
    """Row 9: each gets the numbers that it gets alone."""
    alone = [train(1), train(2)]

    def one(seed: int):
        with Context(POLY_DEV=device):
            return train(seed)

    assert in_threads(lambda: one(1), lambda: one(2)) == alone


def test_two_runtimes_on_two_threads(device: str) -> None:
    alone = [train(1), train(2)]

    def one(seed: int):
        with Context(POLY_DEV=device), use(Runtime(f"thread {seed}")):
            return train(seed)

    assert in_threads(lambda: one(1), lambda: one(2)) == alone


def test_one_jit_function_called_from_many_threads(device: str) -> None:
    f = jit(lambda x: (x * 2 + 1).sum())
    inputs = [Tensor(np.full(4, n, np.float32)) for n in range(6)]

    def one(x: Tensor):
        with Context(POLY_DEV=device):
            return [f(x).item() for _ in range(10)]

    found = in_threads(*[lambda x=x: one(x) for x in inputs])
    assert found == [[4 * (2.0 * n + 1)] * 10 for n in range(6)]
    assert f.stats()["captures"] == 1


def test_a_capture_in_one_thread_does_not_disturb_another(device: str) -> None:
    inside, done = threading.Event(), threading.Event()

    @jit
    def slow(x: Tensor) -> Tensor:
        inside.set()
        done.wait(10)
        return x + 1

    def other() -> list[float]:
        inside.wait(10)
        with Context(POLY_DEV=device):
            found = (Tensor([1.0, 2.0]) * 3).tolist()
        done.set()
        return found

    def first() -> list[float]:
        with Context(POLY_DEV=device):
            return slow(Tensor([1.0])).tolist()

    assert in_threads(first, other) == [[2.0], [3.0, 6.0]]


# ---- row 10: a fork gives an error


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("what", ["eager", "jit", "read", "held lock"])
def test_a_fork_that_uses_a_device_gets_an_error(device: str, what: str) -> None:
    """Row 10: no hang, even if another thread held the runtime's lock while forking."""
    from polygrad.engine import current

    x = Tensor([1.0, 2.0])
    f = jit(lambda x: x * 2)
    f(x)
    actions = {
        "eager": lambda: (x + 1).realize(),
        "jit": lambda: f(x),
        "read": lambda: x.tolist(),
        "held lock": lambda: (x + 1).realize(),
    }
    release = threading.Event()
    holder = threading.Thread(target=lambda: _hold(current().lock, release))
    if what == "held lock":
        holder.start()
    text = _in_fork(actions[what])
    release.set()
    if what == "held lock":
        holder.join()
    assert text.startswith("DeviceForked")
    assert f(x).tolist() == [2.0, 4.0]  # the parent goes on


def _hold(lock: threading.RLock, release: threading.Event) -> None:
    with lock:
        release.wait(20)


def _in_fork(action) -> str:
    """The error that `action` raises in a forked child; the child is killed after ten seconds."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(10)
        try:
            action()
            text = "no error"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


# ---- row 19: nothing grows


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
def test_ten_thousand_training_steps_grow_nothing() -> None:
    pytest.importorskip("polygrad_backend_cpu")
    with Context(POLY_DEV="cpu", TRAINING=1):
        net = nn.Linear(10, 1)
        optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.01)
        x, y = Tensor(np.ones((4, 10), np.float32)), Tensor(np.ones((4, 1), np.float32))

        @jit
        def step(x: Tensor, y: Tensor, rate: float) -> Tensor:
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean() * rate
            loss.backward()
            optimizer.step()
            return loss

        def run(steps: int) -> None:
            for n in range(steps):
                step(x, y, 1 / (n + 1))

        run(500)
        gc.collect()
        before, nodes, made = resident(), live_nodes(), counters.plans_made
        run(10_000)
        gc.collect()
        assert resident() - before < 5 << 20
        assert live_nodes() - nodes < 50
        assert counters.plans_made == made


def test_an_eager_loop_with_a_varying_number_grows_nothing(device: str) -> None:
    x = Tensor(np.ones(16, np.float32))

    def run(steps: int) -> None:
        nonlocal x
        for n in range(steps):
            x = x * (1 - 1 / (n + 7)) + 0.01 / (n + 3)
            x.realize()

    run(20)
    gc.collect()
    plans, nodes = counters.plans_made, live_nodes()
    run(1500)
    gc.collect()
    assert live_nodes() - nodes < 3000  # constants are remembered for a while
    assert counters.plans_made == plans
