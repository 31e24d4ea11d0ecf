"""What is legal on each floor; a message names the node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polygrad.contract import Instr, LinearProgram, Param, VariableSpec
from polygrad.dtype import dtypes
from polygrad.errors import SpecError
from polygrad.target import Target
from polygrad.uop.ops import Ops, UOp
from polygrad.uop.provenance import here, mark
from polygrad.uop.spec import verify_kernel, verify_program, verify_tensor

f32, i32, boolean, void = dtypes.float32, dtypes.int32, dtypes.bool, dtypes.void


def buffer(dtype=f32, shape=(2, 3)) -> UOp:
    return UOp.buffer(dtype, shape, "cpu")


# ---- tensor floor


def test_a_legal_graph_of_tensors() -> None:
    x, at = buffer(), buffer(i32, (4,))
    y = UOp.alu(Ops.EXP, x).permute((1, 0)).pad(((1, 1, 0), (0, 0, 0))).gather(at, 0)
    z = y.reduce(Ops.MAXIMUM, (1,)).cast(dtypes.float16).detach().contiguous().copy_to("other")
    kept = x.after(x.store(x * x))
    verify_tensor([z, kept, (x < kept).where(x, kept), UOp.iota(7)])


ILLEGAL = {
    "a kernel's op": lambda x, n: UOp.range(0, 4, 0),
    "exp of integers": lambda x, n: UOp(Ops.EXP, i32, (n,)),
    "exp of an unknown kind": lambda x, n: UOp(Ops.EXP, x.dtype, (x,), "grow"),
    "an argument that no sum has": lambda x, n: UOp(Ops.ADD, x.dtype, (x, x), "decay"),
    "mixed types": lambda x, n: UOp(Ops.ADD, f32, (x, n)),
    "result of another type": lambda x, n: UOp(Ops.ADD, i32, (x, x)),
    "comparison that gives no bool": lambda x, n: UOp(Ops.CMPLT, f32, (x, x)),
    "choice by a number": lambda x, n: UOp(Ops.WHERE, f32, (n, x, x)),
    "two of three sources": lambda x, n: UOp(Ops.ADD, f32, (x,)),
    "bits of another size": lambda x, n: UOp(Ops.BITCAST, dtypes.int64, (x,)),
    "movement that changes the type": lambda x, n: UOp(Ops.PERMUTE, i32, (x,), (1, 0)),
    "axis that is not there": lambda x, n: UOp(Ops.REDUCE, f32, (x,), (Ops.ADD, (5,))),
    "reduction by division": lambda x, n: UOp(Ops.REDUCE, f32, (x,), (Ops.DIV, (0,))),
    "indices that are floats": lambda x, n: UOp(Ops.GATHER, f32, (x, x), 0),
    "a mode nobody knows": lambda x, n: UOp(Ops.SCATTER, f32, (x, n, x.gather(n, 0)), (0, "or")),
    "assignment to an expression": lambda x, n: (x * x).store(x),
    "assignment of another type": lambda x, n: x.store(n),
    "constant outside its type": lambda x, n: UOp(Ops.CONST, dtypes.uint8, (), 256),
    "constant of another type": lambda x, n: UOp(Ops.CONST, f32, (), 1),
}


@pytest.mark.parametrize("make", ILLEGAL.values(), ids=ILLEGAL.keys())
def test_an_illegal_graph_of_tensors(make) -> None:
    x, n = buffer(), buffer(i32)
    with pytest.raises(SpecError, match="tensor floor: .*\n  in <"):
        verify_tensor(make(x, n))


def test_the_message_says_what_and_where() -> None:
    x, n = buffer(), buffer(i32)
    u = mark(UOp(Ops.ADD, f32, (x, n)), here("net.fc1"))
    with pytest.raises(SpecError) as caught:
        verify_tensor(u)
    lines = str(caught.value).splitlines()
    assert lines[0] == "tensor floor: cannot take float32, int32"
    assert lines[1].startswith("  in <(buffer")
    assert "net.fc1" in lines[2]
    assert len(lines) <= 4


# ---- kernel floor


def address(slot: int, offset: UOp, dtype=f32, size: int = 24) -> UOp:
    return UOp(Ops.INDEX, dtype, (UOp(Ops.PARAM, dtype, (), (slot, size)), offset))


def store(at: UOp, *rest: UOp) -> UOp:
    return UOp(Ops.STORE, void, (at, *rest))


def sink(*effects: UOp) -> UOp:
    return UOp(Ops.SINK, void, effects)


i, j = UOp.range(0, 6, 0), UOp.range(0, 4, 1)


def test_a_legal_kernel() -> None:
    value = UOp(Ops.LOAD, f32, (address(1, i * 4 + j), i < j))
    total = UOp(Ops.REDUCE, f32, (value * 2.0, j), Ops.ADD)
    verify_kernel(sink(store(address(0, i), total), store(address(2, i), total, i < 3)))


ILLEGAL_KERNELS = {
    "a tensor's op": lambda: sink(buffer().store(buffer())),
    "an effect that is none": lambda: sink(i.cast(f32)),
    "an integer offset": lambda: sink(store(address(0, i.cast(i32)), UOp.const(f32, 1.0))),
    "an access outside": lambda: sink(store(address(0, i + 24), UOp.const(f32, 1.0))),
    "another type in memory": lambda: sink(store(address(0, i), i.cast(i32))),
    "bool in memory": lambda: sink(store(address(0, i, boolean), i < 3)),
    "a gate that is no bool": lambda: sink(store(address(0, i), UOp.const(f32, 1.0), i)),
    "no counter": lambda: sink(
        store(address(0, i), UOp(Ops.REDUCE, f32, (j.cast(f32), j * 2), Ops.ADD))
    ),
    "two loops of one number": lambda: sink(
        store(address(0, i + UOp.range(0, 3, 0)), UOp.const(f32, 1.0))
    ),
}


@pytest.mark.parametrize("make", ILLEGAL_KERNELS.values(), ids=ILLEGAL_KERNELS.keys())
def test_an_illegal_kernel(make) -> None:
    with pytest.raises(SpecError, match="kernel floor: .*\n  in <"):
        verify_kernel(make())


def test_a_gate_may_guard_an_address_outside() -> None:
    gate = UOp.variable("n", 0, 9) < i
    verify_kernel(sink(store(address(0, i + 24), UOp.const(f32, 1.0), gate)))


# ---- LinearProgram

I64 = dtypes.int64
LEGAL = (
    Instr(Ops.PARAM, f32, (), 0),
    Instr(Ops.PARAM, f32, (), 1),
    Instr(Ops.CONST, I64, (), 0),
    Instr(Ops.CONST, I64, (), 8),
    Instr(Ops.RANGE, I64, (2, 3), "loop"),
    Instr(Ops.INDEX, f32, (0, 4)),
    Instr(Ops.LOAD, f32, (5,)),
    Instr(Ops.ADD, f32, (6, 6)),
    Instr(Ops.INDEX, f32, (1, 4)),
    Instr(Ops.STORE, void, (8, 7)),
    Instr(Ops.END, void, (4,)),
)
PROGRAM = LinearProgram(
    "k",
    LEGAL,
    (Param(0, f32, 8, "r"), Param(1, f32, 8, "w")),
    (VariableSpec("n", I64, 1, 9),),
    grid=((4,),),
)
SMALL = Target(name="small", arch="x", ops={Ops.ADD: frozenset({i32})}, vector_bytes=16)


def program(*ops: Instr, at: int | None = None) -> LinearProgram:
    """The legal program with its end (from `at` on) replaced."""
    return replace(PROGRAM, ops=(*LEGAL[:at], *ops))


def test_a_legal_program() -> None:
    verify_program(PROGRAM)
    mask, four = boolean.vec(4), f32.vec(4)
    verify_program(
        program(
            Instr(Ops.VARIABLE, I64, (), "n"),
            Instr(Ops.GRID, I64, (), 0),
            Instr(Ops.CMPLT, boolean, (11, 12)),
            Instr(Ops.IF, void, (13,)),
            Instr(Ops.INDEX, f32, (0, 2)),
            Instr(Ops.LOAD, four, (15,)),
            Instr(Ops.CMPLT, mask, (16, 16)),
            Instr(Ops.WHERE, four, (17, 16, 16)),
            Instr(Ops.EXTRACT, f32, (18,), 3),
            Instr(Ops.BROADCAST, four, (19,)),
            Instr(Ops.SHUFFLE, f32.vec(2), (20,), (3, 0)),
            Instr(Ops.LANES, f32, (21,), Ops.ADD),
            Instr(Ops.LOCAL, four, (), (2, "register")),
            Instr(Ops.INDEX, four, (23, 2)),
            Instr(Ops.STORE, void, (24, 20, 17)),
            Instr(Ops.ENDIF, void, (14,)),
        )
    )


BROKEN = {
    "an op of another floor": (Instr(Ops.PERMUTE, f32, (6,)),),
    "a source from later": (Instr(Ops.ADD, f32, (11, 11)),),
    "a value of a closed loop": (Instr(Ops.NEG, f32, (6,)),),
    "types that differ": (Instr(Ops.ADD, f32, (2, 2)),),
    "a float division of integers": (Instr(Ops.DIV, I64, (2, 3)),),
    "a mask of other lanes": (Instr(Ops.CMPLT, boolean.vec(4), (2, 3)),),
    "a constant of another type": (Instr(Ops.CONST, f32, (), 1),),
    "a constant with too few lanes": (Instr(Ops.CONST, I64.vec(4), (), (1, 2)),),
    "a variable nobody declared": (Instr(Ops.VARIABLE, I64, (), "m"),),
    "an axis the grid lacks": (Instr(Ops.GRID, I64, (), 1),),
    "a parameter nobody declared": (Instr(Ops.PARAM, f32, (), 2),),
    "a parameter of another type": (Instr(Ops.PARAM, I64, (), 0),),
    "a lane too far": (Instr(Ops.EXTRACT, I64, (2,), 1),),
    "a loop left open": (Instr(Ops.RANGE, I64, (2, 3), "loop"),),
    "an end without a loop": (Instr(Ops.END, void, (4,)),),
    "a loop of no kind": (Instr(Ops.RANGE, I64, (2, 3), "fast"), Instr(Ops.END, void, (11,))),
    "a branch on a number": (Instr(Ops.IF, void, (2,)), Instr(Ops.ENDIF, void, (11,))),
    "a read of what is only written": (
        Instr(Ops.INDEX, f32, (1, 2)),
        Instr(Ops.LOAD, f32, (11,)),
    ),
    "a write to what is only read": (
        Instr(Ops.INDEX, f32, (0, 2)),
        Instr(Ops.LOAD, f32, (11,)),
        Instr(Ops.STORE, void, (11, 12)),
    ),
    "a fixed element outside": (Instr(Ops.INDEX, f32, (0, 3)), Instr(Ops.LOAD, f32, (11,))),
    "a load of another type": (Instr(Ops.INDEX, f32, (0, 2)), Instr(Ops.LOAD, I64, (11,))),
    "a load through a value": (Instr(Ops.LOAD, f32, (2,)),),
}


@pytest.mark.parametrize("ops", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_program(ops: tuple[Instr, ...]) -> None:
    with pytest.raises(SpecError, match=r"LinearProgram 'k': .*\n  in %\d+ = "):
        verify_program(program(*ops))


def test_blocks_nest() -> None:
    crossed = (
        Instr(Ops.CMPLT, boolean, (2, 3)),
        Instr(Ops.IF, void, (11,)),
        Instr(Ops.RANGE, I64, (2, 3), "loop"),
        Instr(Ops.ENDIF, void, (12,)),
        Instr(Ops.END, void, (13,)),
    )
    with pytest.raises(SpecError, match="innermost block"):
        verify_program(program(*crossed))


def test_a_barrier_stands_in_uniform_flow() -> None:
    with_threads = replace(PROGRAM, block=((32,),))
    uniform = (
        Instr(Ops.GRID, I64, (), 0),
        Instr(Ops.CMPLT, boolean, (11, 3)),
        Instr(Ops.IF, void, (12,)),
        Instr(Ops.BARRIER, void, (), "block"),
        Instr(Ops.ENDIF, void, (13,)),
    )
    verify_program(replace(with_threads, ops=(*LEGAL, *uniform)))
    apart = (Instr(Ops.BLOCK, I64, (), 0), *uniform[1:])
    with pytest.raises(SpecError, match="threads may leave apart"):
        verify_program(replace(with_threads, ops=(*LEGAL, *apart)))


def test_a_target_must_have_each_op_and_lane() -> None:
    with pytest.raises(SpecError, match="small has no ADD of float32"):
        verify_program(PROGRAM, SMALL)
    wide = program(Instr(Ops.CONST, f32.vec(32), (), tuple([0.0] * 32)), at=0)
    with pytest.raises(SpecError, match="32 lanes are too many"):
        verify_program(wide, SMALL)


def test_memory_holds_no_bool() -> None:
    with pytest.raises(SpecError, match="memory holds no bool"):
        verify_program(replace(PROGRAM, params=(Param(0, boolean, 8, "r"),)))
