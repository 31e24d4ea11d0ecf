"""Rows 8, 9, 10 and 19 of the reliability regime: threads, forks and growth in the engine."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import polygrad
from polygrad import Context, Tensor, jit, nn
from polygrad.engine import Runtime, use
from polygrad.engine.counters import counters
from polygrad.errors import StateError
from polygrad.uop.ops import live_nodes

# ---- row 8: bits depend on nothing but the program

_PROGRAM = """
import hashlib
import numpy as np
from polygrad import Tensor, nn
r = np.random.default_rng(0)
x = Tensor(r.standard_normal((257, 129), np.float32))
w = Tensor(r.standard_normal((129, 65), np.float32), requires_grad=True)
big = Tensor(r.standard_normal(300_001, np.float32))
images = Tensor(r.standard_normal((4, 3, 33, 31), np.float32))
filters = Tensor(r.standard_normal((8, 3, 3, 3), np.float32))
numbers = Tensor(r.integers(-9, 9, (300, 257), dtype=np.int32))
q, k, v = (Tensor(r.standard_normal((2, 4, 68, 32), np.float32)) for _ in range(3))

def results():
    net = (x @ w).relu()
    yield from (x @ w, net.softmax(-1), big.sum(), x.sum(0), x.var(1), big.cumsum(0))
    yield from (big.exp().sum(), big.max(), x.argmax(1), numbers.sum(0), numbers.sort(1)[0])
    yield from (images.conv2d(filters, padding=1), images.conv2d(filters).max_pool2d(2))
    yield from (q.scaled_dot_product_attention(k, v), x.T[::-1] @ x, big.half().sum())
    yield from net.square().mean().gradient(w)
    attention = q.scaled_dot_product_attention(k, v, is_causal=True)
    yield from attention.square().sum().gradient(q, k, v)  # in four parts of the keys

def digest():
    return hashlib.sha256(b"".join(t.numpy().tobytes() for t in results())).hexdigest()

found = {digest() for _ in range(5)}
assert len(found) == 1, "bits differ from run to run"
print(found.pop(), Tensor.rand(1000).numpy().tobytes().hex())
"""


def test_bits_do_not_depend_on_threads_or_hash_seeds(tmp_path) -> None:
    """Row 8."""
    pytest.importorskip("polygrad_backend_cpu")
    found = set()
    for threads, seed in (("1", "0"), ("2", "1"), ("3", "2"), ("4", "3"), ("8", "4")):
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


def in_runtime(device: str, seed: int) -> list[object]:
    """Everything that trains, in a runtime of its own: eager, jit and Model."""
    r = np.random.default_rng(seed)
    x, y = r.random((8, 5), np.float32), r.random((8, 2), np.float32)
    with polygrad.create(device, env={"TRAINING": 1}) as rt:
        rt.Tensor.manual_seed(seed)
        net = rt.nn.Sequential(rt.nn.Linear(5, 6), rt.nn.Dropout(0.2), rt.nn.Linear(6, 2))
        optimizer = rt.nn.optim.Adam(rt.nn.get_parameters(net), lr=0.05)
        found: list[object] = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = (net(rt.Tensor(x)) - rt.Tensor(y)).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        model = rt.Model(
            net, inputs={"x": rt.Tensor.empty(8, 5)}, targets={"y": rt.Tensor.empty(8, 2)},
            loss=lambda out, y: (out["output"] - y).square().mean(),
        )  # fmt: skip
        found += model.fit({"x": x, "y": y}, 6, optimizer="sgd", lr=0.1, progress=False).losses
        found.append(rt.Tensor.rand(5).tolist())
        big = rt.Tensor.rand(160, 160)  # work for all of a device's threads, which both ask for
        found += [((big @ big).relu() @ big).sum().item() for _ in range(4)]
        done = rt.stats()
        return [*found, *train(seed), done["launches"], done["plans_made"]]


def test_runtimes_on_threads_give_the_bits_that_each_gives_alone(device: str) -> None:
    """Row 9: losses, draws and counts; graphs, scratch memory and generators are apart."""
    alone = [in_runtime(device, seed) for seed in range(3)]
    actions = [lambda seed=seed: in_runtime(device, seed) for seed in range(3)]
    assert in_threads(*actions) == alone


def many_things(device: str, seed: int) -> list[object]:
    """Ordinary work in the default runtime, compared with numpy; what is wrong, if anything."""
    r = np.random.default_rng(seed)
    wrong: list[object] = []

    def same(what: str, got: Tensor, want: np.ndarray) -> None:
        if not np.allclose(got.numpy(), want, rtol=1e-4, atol=1e-5):
            wrong.append((what, seed))

    with Context(POLY_DEV=device):
        for n in range(8):
            a = r.standard_normal((n % 3 + 2, 4)).astype(np.float32)
            x = Tensor(a)
            same("elementwise", (x * (n + 0.5)).exp() + 1, np.exp(a * (n + 0.5)) + 1)
            same("product", x @ x.T, a @ a.T)
            same("reduction", x.softmax(-1).sum(0), (e := np.exp(a)).T @ (1 / e.sum(1)))
            before = x + 1  # reads the old value
            x[0] = float(n)
            x.assign(x * 2)
            b = a.copy()
            b[0] = n
            same("assigned", x, b * 2)
            same("reader", before, a + 1)
            same("shared", _shared(x, n), b * 2 * n + 1)
            w = Tensor(a, requires_grad=True)
            (w * w * n).sum().backward()
            same("gradient", w.grad, 2 * n * a)
            drawn = Tensor.rand(64).numpy()
            if not (drawn.min() >= 0 and drawn.max() < 1 and len(set(drawn.tolist())) > 60):
                wrong.append(("draw", seed))
            if n % 4 == seed % 4:
                polygrad.collect() if n % 2 else polygrad.clear_schedule_cache()
    return wrong


_shared = polygrad.compile(lambda x, n: x * n + 1)


def test_the_default_runtime_is_used_from_four_threads(device: str) -> None:
    """Row 9: no crash, and the right numbers, with caches cleared and memory collected between."""
    assert in_threads(*[lambda s=s: many_things(device, s) for s in range(4)]) == [[]] * 4


def test_a_runtime_ends_while_another_thread_uses_it(device: str) -> None:
    """What is running ends first; what comes later is told. Nothing reads memory that is gone."""
    a = np.ones((64, 64), np.float32)

    def use(rt: polygrad.Runtime, go: threading.Event) -> object:
        x = rt.Tensor(a)
        step = rt.jit(lambda x: (x @ x).relu().sum())
        try:
            for n in range(200):
                if (found := step(x).item()) != 64.0**3 or (x + n).sum().item() != 4096 * (n + 1):
                    return found
                go.set()
            return "never ended"
        except StateError as error:
            return type(error)

    for _ in range(3):
        rt, go = polygrad.create(device), threading.Event()
        end = lambda rt=rt, go=go: (go.wait(20), rt.dispose())[1]  # noqa: E731
        found = in_threads(lambda rt=rt, go=go: use(rt, go), end)
        assert found == [StateError, None]


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
