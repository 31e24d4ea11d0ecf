"""Reads along one axis, writes along another: squares of lanes that are turned in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from polygrad import Context, Tensor
from polygrad import device as devices
from polygrad.codegen import compile_kernel
from polygrad.codegen.turning import rounds
from polygrad.contract import LinearProgram
from polygrad.engine import Runtime, use
from polygrad.errors import SpecError
from polygrad.schedule import schedule
from polygrad.target import Target
from polygrad.uop.ops import Ops
from polygrad.uop.spec_program import verify_program

# Processors with vectors of 512 and 256 bits, whatever this one has.
WIDE = replace(devices.get("cpu").target, vector_bytes=64, registers=32)
HALF = replace(WIDE, vector_bytes=32, registers=16)
APART = replace(WIDE, shuffle_sources=1)  # takes lanes from one vector at a time
SHAPES = [
    (16, 16),
    (64, 256),
    (37, 65),
    (100, 33),
    (31, 257),
    (1, 90),
    (90, 1),
    (131, 127),
    (48, 58),
]
DTYPES = ["int8", "uint8", "bool", "int16", "float16", "int32", "float32", "int64", "float64"]


def program(x: Tensor, target: Target = WIDE) -> LinearProgram:
    """The last kernel of a graph, as a target should run it."""
    made = compile_kernel(schedule([x.uop], "cpu").items[-1].sink, target, "k")
    verify_program(made, target)
    return made


def turns(program: LinearProgram) -> int:
    return sum(i.op is Ops.SHUFFLE and len(i.src) == 2 for i in program.ops)


def moved(program: LinearProgram, op: Ops) -> set[int]:
    """The lanes of all accesses of one kind to buffers."""
    ops, at = program.ops, 0 if op is Ops.LOAD else 1
    used = [i for i in ops if i.op is op and ops[ops[i.src[0]].src[0]].op is Ops.PARAM]
    return {(i if at == 0 else ops[i.src[1]]).dtype.lanes for i in used}


def data(shape: tuple[int, ...], dtype: str, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


@pytest.fixture(scope="module", params=[16, 32, 64])
def width(request: pytest.FixtureRequest) -> Iterator[int]:
    """The cpu device, opened anew for vectors of so many bytes."""
    settings = Context(POLY_CPU_VECTOR=request.param, POLY_CACHE=0, POLY_SPEC=1, POLY_DEV="cpu")
    with settings, devices.isolated(), use(Runtime(f"vectors of {request.param}")):
        yield request.param


# ---- the rounds


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("unit", [1, 2, 4, 8, 16])
def test_rounds_exchange_rows_and_lanes(lanes: int, unit: int) -> None:
    rows = [[(row, lane) for lane in range(lanes)] for row in range(lanes)]
    for bit, orders in rounds(lanes, unit):
        for i in (i for i in range(lanes) if not i & bit):
            both = rows[i] + rows[i | bit]
            rows[i], rows[i | bit] = ([both[lane] for lane in order] for order in orders)
    assert rows == [[(lane, row) for lane in range(lanes)] for row in range(lanes)]


# ---- what is printed


@pytest.mark.parametrize(
    "target,dtype,lanes",
    [
        (WIDE, "float32", 16), (WIDE, "float64", 8), (WIDE, "float16", 32), (WIDE, "int8", 32),
        (HALF, "float32", 8), (HALF, "float64", 4), (HALF, "int8", 16),
    ],
)  # fmt: skip
def test_squares_are_read_and_written_as_vectors(target: Target, dtype: str, lanes: int) -> None:
    made = program(Tensor.empty(256, 512, dtype=dtype).transpose().contiguous(), target)
    assert turns(made) == lanes * (lanes.bit_length() - 1)
    assert moved(made, Ops.LOAD) == moved(made, Ops.STORE) == {lanes}


def test_a_machine_that_shuffles_one_vector_reads_element_by_element() -> None:
    x = Tensor.empty(256, 512).transpose().contiguous()
    assert turns(program(x, APART)) == 0 and moved(program(x, APART), Ops.LOAD) == {1}
    with pytest.raises(SpecError, match="takes lanes from two vectors"):
        verify_program(program(x), APART)


def test_padding_closes_lanes_and_what_is_computed_stays_in_vectors() -> None:
    """Rows outside of the image are zeros, whole; the bias is a vector as well."""
    image, bias = Tensor.empty(4, 56, 56, 64), Tensor.empty(64)
    turned = (image + bias).relu().permute(0, 3, 1, 2).pad(((0, 0), (0, 0), (1, 1), (1, 1)))
    made = program(turned.contiguous())
    assert turns(made) >= 64
    assert 16 in moved(made, Ops.LOAD) and 16 in moved(made, Ops.STORE)


def test_gates_of_lanes_are_left_to_machines_that_have_them() -> None:
    """Without them the rows of a padded image come as scalars, and nothing is turned."""
    padded = Tensor.empty(4, 64, 56, 62).pad(((0, 0), (0, 0), (0, 0), (1, 1)))
    made = program(padded.permute(0, 2, 3, 1).contiguous(), replace(WIDE, lane_gates=False))
    assert turns(made) == 0


def test_whole_lines_go_past_the_caches_and_parts_of_lines_do_not() -> None:
    def streamed(n: int, dtype: str, target: Target) -> bool:
        made = program(Tensor.empty(n, n, dtype=dtype).transpose().contiguous(), target)
        return any(i.op is Ops.STORE and i.arg == "nt" for i in made.ops)

    assert streamed(4096, "float32", WIDE) and not streamed(1024, "float32", WIDE)
    assert not streamed(4096, "float32", HALF) and not streamed(8192, "int8", WIDE)


def test_large_matrices_whose_rows_begin_anywhere_stay_in_strips() -> None:
    """A vector across two lines on both sides is no faster than its elements."""

    def turned(*shape: int) -> bool:
        return turns(program(Tensor.empty(*shape).transpose().contiguous())) > 0

    assert not turned(4001, 3999) and turned(1025, 1023)
    assert turned(4001, 4096) and turned(4096, 4001)


# ---- values


@pytest.mark.parametrize("dtype", DTYPES)
def test_turned_arrays_are_numpys(width: int, dtype: str) -> None:
    for shape in SHAPES:
        x = data(shape, dtype)
        np.testing.assert_array_equal(Tensor(x).transpose().contiguous().numpy(), x.T)
        three = data((3, *shape), dtype)
        for order in ((0, 2, 1), (2, 1, 0), (2, 0, 1)):
            turned = Tensor(three).permute(order).contiguous()
            np.testing.assert_array_equal(turned.numpy(), three.transpose(order))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_what_is_padded_cut_flipped_and_computed_is_turned(width: int, dtype: str) -> None:
    for shape in SHAPES[:6]:
        x, y = data(shape, dtype), data(shape[::-1], dtype, 4)
        t = Tensor(x)
        pairs = [
            (t.pad(((1, 2), (2, 1))).transpose(), np.pad(x, ((1, 2), (2, 1))).T),
            (t.transpose().flip(0), x.T[::-1]),
            (t.transpose().flip(1), x.T[:, ::-1]),
            (t.transpose().pad(((3, 1), (0, 5)))[1:], np.pad(x.T, ((3, 1), (0, 5)))[1:]),
            (t.transpose() + Tensor(y), x.T + y),
            (t.transpose().cast("float64") * 3, x.T.astype("float64") * 3),
            (t.transpose().cast("int32"), x.T.astype("int32")),
        ]
        for ours, theirs in pairs:
            np.testing.assert_array_equal(ours.contiguous().numpy(), theirs)


def test_two_arrays_are_turned_at_once(width: int) -> None:
    x, y = data((130, 70), "float32"), data((130, 70), "float32", 5)
    both = (Tensor(x).transpose() - Tensor(y).transpose() * Tensor(x.T.copy())).contiguous()
    np.testing.assert_array_equal(both.numpy(), x.T - y.T * x.T)


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16"])
def test_kernels_that_read_much_turn_smaller_squares(dtype: str) -> None:
    """Six arrays of bytes in squares of 64 lanes took a C compiler 20 seconds."""
    parts = [Tensor.empty(97, 4, 131, dtype=dtype).permute(2, 1, 0) for _ in range(6)]
    assert 0 < turns(program(parts[0].cat(*parts[1:], dim=0).contiguous())) <= 400
