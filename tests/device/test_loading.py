"""Loading a binary: every kernel becomes a program, or the error names it, its symbol, its text."""

from __future__ import annotations

from typing import Any

import pytest

from polygrad import Tensor
from polygrad.contract import Binary, Source
from polygrad.device import get, loading
from polygrad.errors import CompileError, DeviceContractError
from polygrad.testing.assembler import Assembler, launch
from polygrad.testing.lesser import LesserDevice, lesser

HINT = "\nPOLY_DUMP_KERNELS=1 POLY_CACHE=0 compiles anew and prints the source."


class Loader:
    """A device whose `load` is another."""

    name = "acme"

    def __init__(self, load: Any) -> None:
        self.load = load


def loaded(load: Any, **entries: str) -> Any:
    return loading.load(Loader(load), Binary(b"", entries))  # type: ignore[arg-type]


def test_what_a_driver_raises_is_told_with_kernel_and_symbol() -> None:
    with pytest.raises(CompileError) as error:
        loaded(lambda binary: {n: {}[s] for n, s in binary.entries.items()}, k_1="_k_1")
    assert str(error.value) == (
        "device 'acme': load() raised KeyError: '_k_1', for kernel 'k_1' (symbol '_k_1')." + HINT
    )
    assert isinstance(error.value.__cause__, KeyError)


def test_a_kernel_that_the_compiler_left_out_is_named() -> None:
    with pytest.raises(CompileError) as error:
        loaded(lambda binary: {"k_1": print}, k_1="a", k_2="b", k_3="c", k_4="d", k_5="e")
    assert str(error.value) == (
        "device 'acme': load() gave no program for kernel 'k_2' (symbol 'b'), kernel 'k_3' (symbol"
        " 'c'), kernel 'k_4' (symbol 'd'), 1 more: its compiler accepted the source without it."
        + HINT
    )


def test_something_else_than_programs_is_a_broken_contract() -> None:
    with pytest.raises(DeviceContractError, match=r"'acme': load\(\) gave a NoneType, expected"):
        loaded(lambda binary: None, k_1="k_1")


@pytest.mark.parametrize("error", [MemoryError("full"), CompileError("acme-ld: no")])
def test_an_error_that_says_it_already_stays(error: Exception) -> None:
    def load(binary: Binary) -> Any:
        raise error

    with pytest.raises(type(error)) as found:
        loaded(load, k_1="k_1")
    assert found.value is error


def test_users_and_tests_of_kernels_meet_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LesserDevice, "load", lambda self, binary: {})
    with lesser("halved") as name:
        with pytest.raises(CompileError, match="'halved': load.. gave no program for kernel 'k_"):
            (Tensor([1.0], device=name) + 1).tolist()
        with pytest.raises(CompileError, match="gave no program for kernel 'k_test'"):
            launch(get(name), Assembler().build())


class Maker:
    """A device whose renderer and compiler give what they are told."""

    name = "acme"

    def __init__(self, source: Any, binary: Any = None) -> None:
        self.renderer = self
        self.render = lambda programs: source
        self.compiler = lambda source: binary


PROGRAM = Assembler("k_1").build()


@pytest.mark.parametrize(
    "source,message",
    [
        (None, "render() gave a NoneType, expected a Source."),
        (
            Source(["ret"], {}),  # type: ignore[arg-type]
            "render() gave a Source of a list and a dict, expected str or bytes and a mapping of"
            " names.",
        ),
        (
            Source("ret", {"k_2": "k_2"}),
            "render() gave a Source without an entry for kernel 'k_1': each kernel has one.",
        ),
    ],
)
def test_what_a_renderer_gives_is_a_source_of_all_programs(source: Any, message: str) -> None:
    with pytest.raises(DeviceContractError) as error:
        loading.rendered(Maker(source), [PROGRAM])  # type: ignore[arg-type]
    assert str(error.value) == f"device 'acme': {message}"


@pytest.mark.parametrize(
    "binary,message",
    [
        (b"ret", "its compiler gave a bytes, expected a Binary."),
        (
            Binary("ret", {}),  # type: ignore[arg-type]
            "its compiler gave a Binary of a str and a dict, expected bytes and a mapping of"
            " names.",
        ),
        (
            Binary(b"ret", {}),
            "its compiler gave a Binary without an entry for kernel 'k_1': each kernel has one.",
        ),
    ],
)
def test_what_a_compiler_gives_is_a_binary_of_all_programs(binary: Any, message: str) -> None:
    source = Source("ret", {"k_1": "k_1"})
    with pytest.raises(DeviceContractError) as error:
        loading.made(Maker(source, binary), [PROGRAM])  # type: ignore[arg-type]
    assert str(error.value) == f"device 'acme': {message}"


def test_a_users_kernel_meets_it_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with lesser("halved") as name:
        monkeypatch.setattr(get(name).renderer, "render", lambda programs: None, raising=False)
        with pytest.raises(DeviceContractError, match=r"'halved': render\(\) gave a NoneType"):
            (Tensor([1.0], device=name) + 1).tolist()
