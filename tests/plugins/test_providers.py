"""Programs from a plugin: used if right and faster, refused with a message if wrong."""

from __future__ import annotations

import ctypes
import logging
import warnings
from dataclasses import replace

import numpy as np
import pytest

from polygrad import Context, Tensor, errors, hooks
from polygrad.engine import bench
from polygrad.hooks import hookimpl

M, K, N = 12, 20, 8  # no other test multiplies these


def memory(handle) -> np.ndarray:
    """The bytes of a handle of interp's or cpu's."""
    found = getattr(handle, "memory", None)
    if found is None:
        found = (ctypes.c_char * handle.nbytes).from_address(handle.address)
    return np.frombuffer(found, dtype=np.uint8)


def strided(handle, dtype, operand, batch, shape) -> np.ndarray:
    """A numpy view of one operand of a product."""
    flat = memory(handle).view(dtype.name)[operand.offset :]
    strides = (*operand.batch, operand.row, operand.column)
    strides = [s * dtype.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(flat, (*batch, *shape), strides)


class Provider:
    """Multiplies matrices in numpy."""

    def __init__(self, spoil=None) -> None:
        self.asked = self.launched = 0
        self.spoil = spoil

    @hookimpl
    def polygrad_provide_kernel(self, kernel):
        product = kernel.matmul
        if product is None:
            return None
        self.asked += 1
        self.seen = product
        m, n, k, batch, dtype, *operands = product

        def matmul(*handles, grid=(), scalars=(), wait=False):
            self.launched += 1
            out, x, y = (
                strided(handles[o.place], dtype, o, batch, shape)
                for o, shape in zip(operands, ((m, n), (m, k), (k, n)), strict=True)
            )
            out[...] = x @ y
            if self.spoil is not None:
                self.spoil(out, x)

        return matmul


@pytest.fixture
def offered():
    names = []

    def offer(provider, name="vendor"):
        hooks.register(provider, name)
        names.append(name)
        return provider

    yield offer
    for name in names:
        hooks.unregister(name)


@pytest.fixture
def pretend(monkeypatch):
    """`pretend()`: an offer is always faster."""

    def pretend() -> None:
        monkeypatch.setattr(bench.Bench, "race", lambda *_: (0.0, 1.0))

    return pretend


def product(rng) -> tuple[np.ndarray, np.ndarray]:
    a, b = rng.normal(size=(M, K)).astype("f"), rng.normal(size=(K, N)).astype("f")
    return (Tensor(a) @ Tensor(b)).numpy(), a.astype("d") @ b.astype("d")


def test_nobody_is_asked_unless_the_setting_says_so(device, rng, offered) -> None:
    provider = offered(Provider())
    product(rng)
    assert provider.asked == 0


def test_a_right_and_faster_program_is_used(device, rng, offered, pretend) -> None:
    pretend()
    provider = offered(Provider())
    with Context(POLY_KERNELS="provider"):
        found, expected = product(rng)
        tried = provider.launched
        product(rng)
    assert np.allclose(found, expected, atol=1e-5)
    assert provider.asked == 1  # once per kernel
    assert tried >= 2 and provider.launched == tried + 1
    product(rng)  # without the setting: the compiler's own
    assert provider.launched == tried + 1


def test_the_reference_device_is_slower_than_numpy(rng, offered) -> None:
    """Nothing is pretended here."""
    provider = offered(Provider())
    with Context(POLY_DEV="interp", POLY_INTERP_NUMPY=0, POLY_KERNELS="provider"):
        product(rng)
        tried = provider.launched
        product(rng)
    assert provider.launched == tried + 1


def test_a_slower_program_is_not_used(device, rng, offered, caplog) -> None:
    import time

    provider = offered(Provider(spoil=lambda *_: time.sleep(0.05)))
    with Context(POLY_KERNELS="provider"), caplog.at_level(logging.INFO, "polygrad.compile"):
        product(rng)
        tried = provider.launched
        found, expected = product(rng)
    assert np.allclose(found, expected, atol=1e-5)
    assert provider.launched == tried > 1
    assert [r.getMessage().partition(": ")[2] for r in caplog.records] == [
        "the program of vendor is slower and not used"
    ]


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (lambda a, b: a @ b, (13, 9, 21, ())),
        (lambda a, b: a.T.contiguous().T @ b, (13, 9, 21, ())),
        (lambda a, b: a @ b.T.contiguous().T, (13, 9, 21, ())),
        (lambda a, b: a[:, :10] @ b[3:13], (13, 9, 10, ())),
        (lambda a, b: a[2] @ b, (1, 9, 21, ())),
        (lambda a, b: a @ b[:, 4], (13, 1, 21, ())),
        (lambda a, b: Tensor.stack(a, a + 1).contiguous() @ Tensor.stack(b, b * 2).contiguous(),
         (13, 9, 21, (2,))),
    ],
)  # fmt: skip
def test_a_product_is_recognised_however_it_lies(
    device, rng, offered, pretend, make, sizes
) -> None:
    pretend()
    provider = offered(Provider())
    a, b = rng.normal(size=(13, 21)), rng.normal(size=(21, 9))
    with Context(POLY_KERNELS="provider"):
        x, y = Tensor(a.astype("f")).realize(), Tensor(b.astype("f")).realize()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # its results are compared with the compiler's
            make(x, y).numpy()
    assert provider.launched == 2  # tried, and used
    assert provider.seen[:4] == sizes


def test_what_is_no_product_is_not_taken_for_one(device, rng, offered) -> None:
    provider = offered(Provider())
    with Context(POLY_KERNELS="provider"):
        x = Tensor(rng.normal(size=(14, 14)).astype("f")).realize()
        for made in (x.sum(), x.sum(1), x + x.T, (x @ x).relu(), x.exp(), x.max(1),
                     (x @ x + 1)):  # fmt: skip
            made.numpy()
    assert provider.asked == 0


def first_wrong(result, _) -> None:
    result[..., 0, 3] += 0.01


def spoils_its_input(result, a) -> None:
    a[..., 0, 0] = 0


def writes_too_far(result, _) -> None:
    end = result.ctypes.data + result.nbytes
    (ctypes.c_char * 1).from_address(end)[0] = b"!"


def raises(result, _) -> None:
    raise OSError("no licence")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (first_wrong, "on random data it gives 1 elements that are too far"),
        (spoils_its_input, "it writes to an input. "),
        (writes_too_far, "on random data it gives bytes after the end of a buffer"),
        (raises, "it raised OSError: no licence."),
    ],
)
def test_a_wrong_program_is_refused_with_a_message(
    device, rng, offered, pretend, spoil, reason
) -> None:
    pretend()
    provider = offered(Provider(spoil))
    with Context(POLY_KERNELS="provider"):
        with pytest.warns(errors.PluginWarning) as caught:
            found, expected = product(rng)
        launched = provider.launched
        again, right = product(rng)
    assert np.allclose(found, expected, atol=1e-5) and np.allclose(again, right, atol=1e-5)
    assert provider.launched == launched
    (message,) = [str(w.message) for w in caught]
    head, _, rest = message.partition(" is not used: ")
    assert head.startswith("the program that 'vendor' (registered) offers for k_")
    assert rest.startswith(reason)
    assert rest.endswith(" Disable: POLY_PLUGINS=-vendor")


@pytest.mark.parametrize(
    ("answer", "message"),
    [(lambda k: 5, "it is int, neither a LinearProgram nor callable"),
     (lambda k: replace(k.program, params=k.program.params[:1]), "its params are not those of"),
     (lambda k: replace(k.program, ops=k.program.ops[1:]), "k_")],
)  # fmt: skip
def test_an_offer_that_is_no_program_is_refused(device, rng, offered, answer, message) -> None:
    class Odd:
        @hookimpl
        def polygrad_provide_kernel(self, kernel):
            return answer(kernel)

    offered(Odd())
    with Context(POLY_KERNELS="provider", POLY_CACHE=0):
        with pytest.warns(errors.PluginWarning, match=message):
            x = Tensor(rng.normal(size=(3, 29)).astype("f"))
            assert np.allclose((x * 5).numpy(), x.numpy() * 5)


def test_a_linear_program_may_take_the_place_of_the_compilers(
    device, rng, offered, pretend
) -> None:
    """Another order of the same loops would be an offer; here it is the very program."""
    pretend()

    class Same:
        given = 0

        @hookimpl
        def polygrad_provide_kernel(self, kernel):
            Same.given += bool(kernel.program.ops)
            return kernel.program if kernel.program.ops else None

    offered(Same())
    with Context(POLY_KERNELS="provider", POLY_CACHE=0):
        x = rng.normal(size=(3, 31)).astype("f")
        assert np.allclose((Tensor(x) * 7).numpy(), x * 7)
    assert Same.given


def test_a_provider_that_fails_is_unplugged(device, rng, offered) -> None:
    class Failing:
        @hookimpl
        def polygrad_provide_kernel(self, kernel):
            raise SystemExit(1)

    offered(Failing(), "failing")
    with Context(POLY_KERNELS="provider"):
        with pytest.warns(errors.PluginWarning, match="polygrad_provide_kernel of 'failing'"):
            product(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (Tensor([3.0] * 37) * 2).tolist()
