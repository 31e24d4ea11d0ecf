"""What the recipes choose for a given machine, looked at without running it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polygrad import Tensor
from polygrad import device as devices
from polygrad.codegen import compile_kernel
from polygrad.codegen.kernel import Kernel, canonical, length, misplaced, nodes_of, substitute
from polygrad.codegen.lower import lower
from polygrad.codegen.recipes import choose
from polygrad.codegen.transform import unmix
from polygrad.contract import Instr, LinearProgram
from polygrad.dtype import DType, dtypes
from polygrad.schedule import schedule
from polygrad.target import Target
from polygrad.uop.linear import coefficient, ranges_of
from polygrad.uop.ops import Ops, UOp, size, toposort

# A processor with 512-bit vectors, whatever this one has.
CACHES = (48 << 10, 2 << 20, 32 << 20)
WIDE = replace(devices.get("cpu").target, vector_bytes=64, registers=32, cache_bytes=CACHES)


def leaf(*shape: int) -> UOp:
    return UOp.buffer(dtypes.float32, shape, "cpu")


def chosen(root: UOp, target: Target = WIDE) -> Kernel:
    """The last kernel of a graph, as a machine should run it."""
    return choose(canonical(schedule([root], "cpu").items[-1].sink), target)


def matmul(a: UOp, b: UOp) -> UOp:
    (m, k), n = a.shape, b.shape[1]
    left = a.reshape((m, 1, k)).expand((m, n, k))
    right = b.permute((1, 0)).reshape((1, n, k)).expand((m, n, k))
    return (left * right).reduce(Ops.ADD, (2,))


def filter_gradient(x: UOp, g: UOp) -> UOp:
    """sum over rows and columns of g[m, y, x] * x[n, y, x + k]: (m, n, 3)"""
    (channels, rows, wide), (out, _, columns) = x.shape, g.shape
    windows = x.window(2, 3, 1, 1).permute((0, 3, 1, 2))
    shape = (out, channels, 3, rows, columns)
    left = g.reshape((out, 1, 1, rows, columns)).expand(shape)
    right = windows.reshape((1, channels, 3, rows, columns)).expand(shape)
    assert wide == columns + 2
    return (left * right).reduce(Ops.ADD, (3, 4))


def lanes(kernel: Kernel) -> list[int]:
    return sorted(length(r) for r in kernel.of_kind("vector"))


@pytest.mark.parametrize("shape", [(4096, 256), (64, 16384)])
def test_rows_of_a_scan_are_blocks(shape: tuple[int, int]) -> None:
    """What counts is the work of a row, not that it is one step of the loop over rows."""
    grid = chosen(leaf(*shape).scan(Ops.MAXIMUM, 1)).of_kind("grid")
    assert size([length(r) for r in grid]) >= 64


def test_columns_that_do_not_fill_a_vector_are_a_shorter_vector() -> None:
    assert lanes(chosen(matmul(leaf(64, 32), leaf(32, 56)))) == [8, 16]
    assert lanes(chosen(matmul(leaf(64, 32), leaf(32, 64)))) == [16]
    assert lanes(chosen(matmul(leaf(64, 32), leaf(32, 12)))) == [4, 8]


def test_a_tile_reaches_over_panels_of_one_vector() -> None:
    """A packed factor has its vectors apart, the result has them side by side."""
    tile = chosen((Tensor.empty(512, 512) @ Tensor.empty(512, 528)).uop)
    assert sorted(length(r) for r in tile.of_kind("unroll")) == [3, 8]
    assert lanes(tile) == [16]


def test_tiles_are_taken_as_caches_have_room() -> None:
    """In strips of columns; row by row where only the result is large, each core in strips of its
    own; in blocks of rows where neither factor stays in the second cache."""

    def steps(m: int, k: int, n: int, cores: int = 1) -> list[int]:
        target = replace(WIDE, cores=cores)
        product = schedule([matmul(leaf(m, k), leaf(k, n))], "cpu", lanes=lambda device: 16).items[
            -1
        ]
        return [length(r) for r in choose(canonical(product.sink), target).of_kind("grid")]

    assert steps(256, 256, 256) == [4, 42]
    assert steps(512, 512, 512) == steps(512, 512, 512, cores=3) == [64, 16]
    assert steps(512, 512, 512, cores=2) == [2, 64, 8]
    assert steps(8192, 32, 128, cores=2) == [2, 1365]  # a strip each
    assert steps(8192, 32, 128, cores=3) == [1365, 2]
    assert steps(1024, 1024, 1024) == [4, 32, 32]
    assert steps(1016, 1024, 1024) == [32, 127]  # a number of tiles that has no divisor


def test_blocks_of_few_rows_are_as_large_as_the_last_cache_has_room() -> None:
    """Where the second cache holds five tiles of rows, and their number has no such divisor."""
    narrow = replace(
        WIDE, vector_bytes=32, registers=16, cache_bytes=(32 << 10, 512 << 10, 32 << 20)
    )

    def steps(n: int) -> list[int]:
        product = schedule([matmul(leaf(n, n), leaf(n, n))], "cpu", lanes=lambda device: 8).items[
            -1
        ]
        return [length(r) for r in choose(canonical(product.sink), narrow).of_kind("grid")]

    assert steps(1024) == [17, 64, 10]
    assert steps(2048) == [11, 128, 31]
    assert steps(3072) == [16, 192, 32]


def test_steps_of_a_dot_product_that_do_not_fill_a_vector_are_a_shorter_vector() -> None:
    kernel = chosen(filter_gradient(leaf(16, 10, 58), leaf(8, 10, 56)))
    assert lanes(kernel) == [8, 16]


def test_columns_of_a_filter_are_summed_in_one_tile() -> None:
    """They read the same cache lines, so they are printed out together."""
    kernel = chosen(filter_gradient(leaf(16, 10, 58), leaf(8, 10, 56)))
    assert sorted(length(r) for r in kernel.of_kind("unroll")) == [2, 3, 4]


def test_scalars_of_a_tile_are_read_as_they_lie() -> None:
    """The gradient of a convolution's images sums over the filter's places and then its filters;
    in memory a filter's places are neighbours."""
    x, w = Tensor.empty(2, 16, 20, 20), Tensor.empty(24, 16, 3, 3)
    (slope,) = x.conv2d(w, padding=1).square().sum().gradient(x)
    kernel = chosen(slope.uop)
    (filters,) = (
        n
        for n in toposort(kernel.stores)
        if n.op is Ops.LOAD and size(w.shape) == n.src[0].src[0].arg[1]
    )
    reduced = [r for r in kernel.order if r in kernel.reduced]
    steps = [abs(coefficient(filters.src[0].src[1], r) or 0) for r in reduced]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] == 1


def asked(kernel: Kernel) -> list[tuple[int, int]]:
    """The distances of a kernel's prefetches, each with the size of what is read."""
    found = [n for n in toposort(kernel.stores) if n.op is Ops.LOAD and n.arg]
    return [(n.arg, n.src[0].src[0].arg[1]) for n in found]


def test_a_matrix_from_memory_is_asked_for_ahead() -> None:
    """The next row where it meets one vector, a later one where rows are short, and the next tile's
    rows where it meets a few vectors; each is read once then."""
    far = leaf(3072, 768)
    row = far * leaf(768).reshape((1, 768)).expand((3072, 768))
    assert asked(chosen(row.reduce(Ops.ADD, (1,)))) == [(768, 3072 * 768)]
    short = leaf(3072, 384) * leaf(384).reshape((1, 384)).expand((3072, 384))
    assert asked(chosen(short.reduce(Ops.ADD, (1,)))) == [(2 * 384, 3072 * 384)]
    items = schedule([(Tensor.empty(64, 768) @ Tensor.empty(3072, 768).T).uop], "cpu").items
    kernels = [choose(canonical(item.sink), WIDE) for item in items]
    (few,) = (k for k in kernels if k.recipe == "contraction")
    assert asked(few) == [(6 * 768, 3072 * 768)]
    assert [length(r) for r in few.of_kind("grid")] == [3072 // 6]


@pytest.mark.parametrize(
    ("shape", "cores", "blocks"),
    [
        ((4096, 4096), 1, [2]),
        ((4096, 4096), 8, [8]),
        ((8192, 2048), 2, [2]),
        ((8192, 2048), 3, [4]),
        ((2, 8192, 2048), 2, [2]),  # a matrix each
        ((65536, 256), 2, [2]),
        ((65536, 256), 8, [4]),
        ((65536, 144), 2, []),  # nine vectors
    ],
)
def test_columns_from_memory_are_summed_by_all_cores(
    shape: tuple[int, ...], cores: int, blocks: list[int]
) -> None:
    """In strips that may be narrow, none of which has its sums in registers: see below."""
    root = leaf(*shape).reduce(Ops.ADD, (len(shape) - 2,))
    kernel = choose(canonical(schedule([root], "cpu").items[-1].sink), replace(WIDE, cores=cores))
    assert [length(r) for r in kernel.of_kind("grid")] == blocks
    (subtotal,) = kernel.of_kind("subtotal")  # of as many rows, however wide a strip is
    assert shape[-2] % 128 or length(subtotal) == shape[-2] // 512


def test_the_tiles_of_a_matrix_ask_for_the_next_of_its_batch() -> None:
    """Of both factors, in every step of every tile; what is left over of the rows asks nothing."""
    target = replace(WIDE, cache_bytes=(48 << 10, 2 << 20))
    root = (Tensor.empty(256, 64, 64) @ Tensor.empty(256, 64, 64)).uop
    kernel = choose(canonical(schedule([root], "cpu").items[-1].sink), target)
    batch, tiles = kernel.of_kind("grid")
    (steps,) = (r for r in kernel.of_kind("loop") if r in kernel.reduced)
    asked_for: dict[UOp, set[int]] = {}
    for hint in toposort(kernel.stores):
        if hint.op is Ops.LOAD and hint.arg == 0:
            param, place = hint.src[0].src
            assert place.lo >= 0
            assert place.hi < param.arg[1]
            asked_for.setdefault(param, set()).update(
                substitute(
                    (place,), {batch: UOp.index(255), tiles: UOp.index(t), steps: UOp.index(k)}
                )[0].arg
                for t in range(length(tiles))
                for k in range(length(steps))
            )
    assert len(asked_for) == 2
    for places in asked_for.values():
        assert {place // 16 for place in places} == set(range(64 * 64 // 16))  # of the first again
    assert [tiles in ranges_of(s) for s in kernel.stores] == [True, False]
    near = choose(
        canonical(schedule([root], "cpu").items[-1].sink),
        replace(target, cache_bytes=(48 << 10, 16 << 20)),
    )
    assert not [e for e in near.log if e[0] == "ask"]


def test_the_tiles_of_a_strip_ask_for_all_of_the_next() -> None:
    """A product whose second factor lies in panels beyond the second cache."""
    n = 1024
    items = schedule([matmul(leaf(n, n), leaf(n, n))], "cpu", lanes=lambda device: 16).items
    kernel = choose(canonical(items[-1].sink), WIDE)
    (hint,) = (s for s in toposort(kernel.stores) if s.op is Ops.LOAD and s.arg == 0)
    place = hint.src[0].src[1]
    (strip,) = (entry[2] for entry in kernel.log if entry[0] == "ask")
    assert place.lo == 0
    assert place.hi is not None and place.hi < n * n
    moving = [r for r in ranges_of(place) if r.arg[0] != strip]
    reached = {0}
    for loop in moving:
        step = coefficient(place, loop)
        assert step
        reached = {at + i * step for at in reached for i in range(length(loop))}
    assert {at // 16 for at in reached} == set(range(32 * n // 16))


def test_long_arrays_are_asked_for_ahead() -> None:
    """Each by itself, 3 KB before it is read; what is read again and again is not."""
    far, other, row = leaf(2048, 768), leaf(2048, 768), leaf(768)
    both = far * other + row.reshape((1, 768)).expand((2048, 768))
    assert asked(chosen(both)) == [(768, 2048 * 768), (768, 2048 * 768)]
    assert asked(chosen(leaf(1_000_003) * 2.0)) == [(768, 1_000_003)]  # not by what is left over


def test_short_pieces_are_asked_for_in_the_loop_around_them() -> None:
    """A panel of 32 columns: two vectors of each row, 24 rows before they are read."""
    panels = leaf(768, 3072).reshape((768, 96, 32)).permute((1, 0, 2)).contiguous()
    assert asked(chosen(panels)) == [(24 * 3072, 768 * 3072)]


def test_what_the_caches_hold_is_not_asked_for() -> None:
    near = leaf(128, 768)
    assert not asked(chosen(near * 2.0))
    row = near * leaf(768).reshape((1, 768)).expand((128, 768))
    assert not asked(chosen(row.reduce(Ops.ADD, (1,))))
    assert not asked(chosen(matmul(near, leaf(768, 64))))


def test_rows_of_a_tile_are_neighbours_and_the_vectors_stay_near() -> None:
    """Filters in panels are read again for every place; a tile has places of one row."""
    x, w = Tensor.empty(32, 48, 16, 16), Tensor.empty(96, 48, 3, 3)
    items = schedule([x.conv2d(w).uop], "cpu", lanes=lambda device: 16).items
    kernel = choose(canonical(items[1].sink), WIDE)
    (images,) = (
        n for n in toposort(kernel.stores)
        if n.op is Ops.LOAD and size(x.shape) == n.src[0].src[0].arg[1]
    )  # fmt: skip
    place = images.src[0].src[1]
    rows = [r for r in kernel.of_kind("unroll") if r not in kernel.reduced]
    assert [coefficient(place, r) for r in rows if coefficient(place, r)] == [1]
    moving = [coefficient(place, r) for r in kernel.of_kind("grid")]
    assert moving[0] == 0  # the panel
    assert all(moving[1:])


# One with 256-bit vectors.
SHORT = replace(WIDE, vector_bytes=32, registers=16, cache_bytes=(32 << 10, 512 << 10))


def of_products(root: Tensor, target: Target = SHORT) -> Kernel:
    """The kernel of a graph that sums products, as this machine should run it."""
    lanes = target.vector_bytes // 4
    items = schedule([root.uop], "cpu", lanes=lambda device: lanes).items
    kernels = [choose(canonical(i.sink), target) for i in items]
    (kernel,) = (k for k in kernels if k.recipe == "contraction")
    return kernel


def test_long_chains_are_computed_two_vectors_abreast_where_one_is_no_line() -> None:
    target, n = replace(SHORT, memory_bytes=tuple(1 << i for i in range(7))), 1 << 16
    narrow = replace(target, memory_bytes=target.memory_bytes[:-1])
    exponentials = [chosen(leaf(k).exp(), target) for k in (n, n + 8, 1 << 12)]
    others = [chosen(leaf(n) + leaf(n), target), chosen(leaf(n).exp(), narrow)]
    assert [lanes(k)[-1] for k in (*exponentials, *others)] == [16, 8, 8, 8, 8]


@pytest.mark.parametrize(("side", "rows"), [(56, 2), (40, 2), (48, 1), (64, 1)])
def test_a_tile_takes_rows_of_an_image_that_leave_no_vector_over(side: int, rows: int) -> None:
    x, w = Tensor.empty(2, 32, side, side), Tensor.empty(36, 32, 3, 3)
    kernel = of_products(x.conv2d(w, padding=1))
    (store,) = kernel.stores
    steps = {coefficient(store.src[0].src[1], r) for r in kernel.of_kind("unroll")} - {0}
    assert steps == {side * side, side if rows == 2 else 8}
    if rows == 2:  # filters stay near while their tile goes along a row
        last = kernel.of_kind("grid")[-1]
        assert coefficient(store.src[0].src[1], last) == 8


def test_the_filters_of_an_image_s_gradient_lie_as_they_are_read() -> None:
    x, w = Tensor.empty(4, 32, 56, 56), Tensor.empty(48, 32, 3, 3)
    (slope,) = (x.conv2d(w, padding=1) * Tensor.empty(4, 48, 56, 56)).sum().gradient(x)
    kernel = of_products(slope)
    (filters,) = (
        n.src[0].src[1]
        for n in toposort(kernel.stores)
        if n.op is Ops.LOAD and size(w.shape) == n.src[0].src[0].arg[1]
    )
    steps = {coefficient(filters, r) for r in kernel.reduced}
    assert {1, 3, 9} <= steps


@pytest.mark.parametrize(("side", "printed"), [(28, 30), (14, 1)])
def test_steps_that_have_too_much_in_common_are_not_printed_out(side: int, printed: int) -> None:
    """Of a tile of six places and two vectors eight scalars at once are too many. Five may stay."""
    x, w = Tensor.empty(4, 64, side, side), Tensor.empty(64, 64, 3, 3)
    kernel = of_products(x.conv2d(w, padding=1))
    images = [
        n.src[0].src[1]
        for n in toposort(kernel.stores)
        if n.op is Ops.LOAD and n.src[0].src[0].arg[1] == 4 * 64 * (side + 2) ** 2
    ]
    steps = [coefficient(images[0], r) for r in kernel.of_kind("unroll") if r in kernel.reduced]
    assert steps == [printed]


def test_the_rows_of_a_filters_gradient_stay_while_the_images_pass_by() -> None:
    x, w = Tensor.empty(4, 32, 56, 56), Tensor.empty(48, 32, 3, 3)
    (slope,) = (x.conv2d(w, padding=1) * Tensor.empty(4, 48, 56, 56)).sum().gradient(w)
    kernel = of_products(slope)
    (rows,) = {
        n.src[0].src[1]
        for n in toposort(kernel.stores)
        if n.op is Ops.LOAD and n.src[0].src[0].arg[1] == 4 * 48 * 56 * 56
    }
    moving = [bool(coefficient(rows, r)) for r in kernel.of_kind("grid")]
    assert moving == sorted(moving, reverse=True)


def test_what_a_result_meets_is_asked_for_down_a_strip() -> None:
    """A weight that is updated where its gradient is computed."""
    weight = Tensor.empty(512, 784)
    slope = Tensor.empty(256, 512).T @ Tensor.empty(256, 784)
    assert asked(of_products(weight - slope)) == [(6 * 784, 512 * 784)]
    assert not asked(of_products(Tensor.empty(784) - slope))


@pytest.mark.parametrize("target", ["narrow", "short"])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16])
@pytest.mark.parametrize(("m", "k", "n", "wide"), [(4096, 64, 16, 512), (127, 2048, 1024, 1024)])
def test_what_a_result_meets_is_asked_for_once(
    m: int, k: int, n: int, wide: int, dtype: DType, target: str
) -> None:
    """Rows that one tile reads, of a matrix that is wider than the result."""
    x, w, z = Tensor.empty(m, k, dtype=dtype), Tensor.empty(k, n), Tensor.empty(m, wide)
    out = x @ w.cast(dtype) + z[:, :n].cast(dtype)
    machine = SHORT if target == "short" else WIDE
    lanes = machine.vector_bytes // 4
    for item in schedule([out.uop], "cpu", lanes=lambda device: lanes).items:
        compile_kernel(item.sink, machine, "k")


def test_what_is_near_for_the_next_place_of_a_window_is_read_then() -> None:
    """A filter's gradient goes through the places of the window inside of the channels."""
    x, w = Tensor.empty(4, 96, 16, 16), Tensor.empty(64, 96, 3, 3)
    g = Tensor.empty(4, 64, 14, 14)
    (slope,) = (x.conv2d(w) * g).sum().gradient(w)
    items = schedule([slope.uop], "cpu", lanes=lambda device: 16).items
    kernels = [choose(canonical(i.sink), WIDE) for i in items]
    (kernel,) = (k for k in kernels if k.recipe == "contraction")
    (images,) = {
        n.src[0].src[1] for n in toposort(kernel.stores)
        if n.op is Ops.LOAD and size(x.shape) == n.src[0].src[0].arg[1]
    }  # fmt: skip
    steps = [abs(coefficient(images, r) or 0) for r in kernel.of_kind("grid")]
    moving = [s for s in steps if s]
    assert moving == sorted(moving, reverse=True)
    assert moving[-2:] == [16, 1]


def test_a_split_range_leaves_every_reduction_a_place() -> None:
    """The maxima of columns need one half of the range that pairs of columns split."""
    x, y = Tensor.empty(64, 4), Tensor.empty(1, 4)
    less = x - x.max(axis=0, keepdim=True)
    root = less.reshape(32, 4, 1, 2, 1) @ y.mean(axis=1, keepdim=True)
    kernel = canonical(schedule([root.uop], "cpu").items[-1].sink)
    made = unmix(kernel)
    assert made.order != kernel.order
    assert misplaced(made) is None


def test_masks_are_computed_before_the_loops_that_do_not_change_them() -> None:
    """The gradient of a filter that differs from place to place sums shifted rows, each lane under
    a condition: the mask of a shift serves all channels."""
    x, w, g = (Tensor.empty(*shape) for shape in ((4, 50), (8, 4, 3, 48), (8, 48)))
    windows = x.unfold(1, 3, 1).permute(0, 2, 1).reshape(1, 4, 3, 48)
    (slope,) = ((windows * w).sum((1, 2)) * g).sum().gradient(x)
    program = lower(chosen(slope.uop), WIDE, "k")
    assert _innermost_masks(program.ops) > 0
    assert _innermost_masks(program.expanded()) == 0
    assert _verified(program)


def _innermost_masks(ops: tuple[Instr, ...]) -> int:
    """Vector comparisons in loops that hold no other real loop."""
    innermost, found = 0, 0
    for instr in ops:
        if instr.op is Ops.RANGE and instr.arg == "loop":
            innermost = 0
        innermost += instr.op is Ops.CMPLT and instr.dtype.lanes > 1
        if instr.op is Ops.END and ops[instr.src[0]].arg == "loop":
            found, innermost = max(found, innermost), 0
    return found


def _verified(program: LinearProgram) -> bool:
    """Is every source of an expanded program made before it, in a scope that is still open?"""
    scopes: list[set[int]] = [set()]
    for i, instr in enumerate(program.expanded()):
        seen = set().union(*scopes)
        assert set(instr.src) <= seen, (i, instr)
        if instr.op in (Ops.END, Ops.ENDIF):
            scopes.pop()
        scopes[-1].add(i)
        if instr.op in (Ops.RANGE, Ops.IF):
            scopes.append({i})
    return True


def test_what_is_read_across_the_vectors_is_read_in_strips() -> None:
    """A strip of 16 rows is written for each vector, so that cache lines are used up at once; of
    squares that are turned, pieces of 1 KB that become two lines of each row."""
    copy = leaf(64, 256).permute((1, 0)).contiguous()
    (item,) = schedule([copy], "cpu").items
    kernel = choose(canonical(item.sink), replace(WIDE, shuffle_sources=1))
    assert [length(r) for r in kernel.order] == [16, 4, 16, 16]
    assert kernel.kind(kernel.order[0]) == "grid"
    assert [length(r) for r in chosen(leaf(64, 512).permute((1, 0)).contiguous()).order] == [
        2, 2, 16, 2, 16, 16,
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [(64, 256), (37, 65), (100, 33), (3, 50, 70), (17, 129)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_transposes_of_every_size_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    y = np.arange(np.prod(shape))[::-1].reshape(shape).astype(dtype)
    a, b = Tensor(x, device="cpu"), Tensor(y.swapaxes(-1, -2).copy(), device="cpu")
    np.testing.assert_array_equal(a.transpose(-1, -2).contiguous().numpy(), x.swapaxes(-1, -2))
    np.testing.assert_array_equal((a.transpose(-1, -2) + b).numpy(), (x + y).swapaxes(-1, -2))


def test_of_several_passes_over_rows_from_memory_a_later_one_asks() -> None:
    """The first waits for memory; the one that takes exponentials has time."""
    target = replace(WIDE, cache_bytes=(1 << 15, 1 << 20, 1 << 25))
    for n, width, rows in ((4096, 2048, True), (64, 512, False), (64, 1 << 18, False)):
        (item,) = schedule([Tensor.empty(n, width).softmax(1).uop], "cpu").items
        kernel = choose(canonical(item.sink), target)
        assert asked(kernel) == ([(width, n * width)] if rows else [])
        if rows:
            largest, total = kernel.reductions
            later = set(toposort((total.src[0],), lambda n: n is not largest))
            assert [n.arg for n in later if n.op is Ops.LOAD] == [width]


def test_what_is_larger_than_a_near_cache_can_be_is_written_past_the_last() -> None:
    """A last cache of a machine with many cores is far, and not all of it is one core's."""
    for last in (1 << 22, 1 << 25, 1 << 29):
        target = replace(WIDE, cache_bytes=(1 << 15, 1 << 20, last))
        for nbytes, past in ((1 << 26, True), (1 << 20, False)):
            x = Tensor.empty(nbytes // 4)
            (kernel,) = (canonical(i.sink) for i in schedule([(x + 1).uop], "cpu").items)
            assert [s.arg for s in choose(kernel, target).stores] == ["nt" if past else None]


def test_the_passes_over_a_kernel_walk_its_nodes_once_and_keep_none() -> None:
    x = Tensor.empty(8, 8)
    (item,) = schedule([(x * 2 + 1).uop], "cpu").items
    made = canonical(item.sink)
    assert made.nodes is made.nodes
    assert set(made.nodes) == set(item.sink.toposort()) - {item.sink}
    compile_kernel(item.sink, devices.get("cpu").target, "k")
    assert nodes_of.cache_info().currsize == 0
