"""Operations of several tensors, or with arguments, against torch: values, dtypes, gradients.

A row gives the shapes of the operands, in the order of the functions' parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from polygrad import Tensor

from .rows import Row, Shape, compare, fixed, row

Function = Callable[..., Any]

# ---- elementwise, broadcast

BROADCASTS: list[tuple[Shape, Shape]] = [
    ((3, 1), (1, 4)), ((), (2, 3)), ((0, 3), (1, 3)), ((2, 1, 3), (4, 1)), ((2, 3), ()),
]  # fmt: skip
PAIRS = "add sub mul maximum minimum copysign logaddexp hypot fmod atan2 remainder pow floor_divide"


def elementwise() -> Iterator[Row]:
    for name, shapes in itertools.product(PAIRS.split(), BROADCASTS):
        make = fixed if name == "floor_divide" else row

        def both(a: Any, b: Any, name: str = name) -> Any:
            base = a.exp() if name == "pow" else a  # below 0 there is no power
            return getattr(base, name)(b)

        yield make(f"{name} {shapes}", both, None, *shapes)
    yield row("div", lambda a, b: a.div(b), None, (3, 1), (4,))
    yield fixed("div trunc", lambda a, b: a.div(b, rounding_mode="trunc"), None, (3, 4), (4,))
    yield row("lerp", lambda a, b, w: a.lerp(b, w), None, (3, 4), (3, 4), (3, 4))
    yield row("where", lambda a, b: (a > 0).where(a, b), _where, (3, 1), (1, 4))
    yield row("masked_fill", lambda a: a.masked_fill(a > 0, 3.0), None, (3, 4))
    yield row("clamp", lambda a, b, c: a.clamp(b, c), None, (3, 4), (4,), (3, 1))
    yield fixed("idiv", lambda a, b: a.idiv(b), lambda a, b: a // b, (3, 4), (4,))
    yield fixed("type_as", lambda a, b: a.int().type_as(b), None, (3,), (1,))
    yield fixed("short", lambda a: a.short(), None, (3, 4))
    yield fixed("double", lambda a: a.float().double(), None, (3, 4))
    yield row("sequential", lambda a: a.sequential([Tensor.exp]), lambda a: a.exp(), (3,))
    yield fixed("isclose", lambda a, b: a.isclose(b), None, (3, 4), (3, 4))


def _where(a: Any, b: Any) -> Any:
    return torch.where(a > 0, a, b)


# ---- products

PRODUCTS: list[tuple[Shape, Shape]] = [
    ((3, 4), (4,)), ((4,), (4, 5)), ((4,), (4,)), ((2, 3), (3, 4)), ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)), ((0, 3), (3, 4)),
    ((2, 0), (0, 3)),
]  # fmt: skip
EINSUMS: dict[str, tuple[Shape, ...]] = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "ii->i": ((3, 3),),
    "ii": ((3, 3),),
    "ij->ji": ((2, 3),),
    "ij,ij->": ((2, 3), (2, 3)),
    "i,j,k->ijk": ((2,), (3,), (4,)),
    "...ij,...jk->...ik": ((2, 3, 4), (5, 1, 4, 2)),
    "bij,bjk,bkl->bil": ((2, 3, 4), (2, 4, 2), (2, 2, 3)),
    "iij->j": ((3, 3, 2),),
    "ijk,ilm,njm,nlk->": ((2, 3, 2), (2, 4, 3), (2, 3, 3), (2, 4, 2)),
    "ii,i->i": ((3, 3), (3,)),
    "b...->...b": ((2, 3, 4),),
}


def products() -> Iterator[Row]:
    for shapes in PRODUCTS:
        yield row(f"matmul {shapes}", lambda a, b: a @ b, None, *shapes)
    for formula, operands in EINSUMS.items():
        ours = lambda *t, f=formula: Tensor.einsum(f, *t)  # noqa: E731
        yield row(f"einsum {formula}", ours, lambda *t, f=formula: torch.einsum(f, *t), *operands)
    yield row("mm", lambda a, b: a.mm(b), None, (2, 3), (3, 4))
    yield row("bmm", lambda a, b: a.bmm(b), None, (2, 2, 3), (2, 3, 4))
    yield row("outer", lambda a, b: a.outer(b), None, (3,), (4,))
    yield row("kron", lambda a, b: a.kron(b), None, (2, 3), (3, 2))
    yield row("tensordot", lambda a, b: a.tensordot(b), torch.tensordot, (2, 3, 4), (3, 4, 2))
    axes = ([0, 2], [1, 0])
    yield row(
        "tensordot axes",
        lambda a, b: a.tensordot(b, axes),
        lambda a, b: torch.tensordot(a, b, axes),
        (2, 3, 4),
        (4, 2, 5),
    )
    yield row("cross", lambda a, b: a.cross(b), torch.linalg.cross, (2, 3), (2, 3))
    yield row("addmm", lambda a, b, c: a.addmm(b, c, beta=0.5, alpha=2), None, (4,), (2, 3), (3, 4))
    for p in (1, 2, 3, np.inf, 0.5):
        yield row(
            f"cdist {p}",
            lambda a, b, p=p: a.cdist(b, p),
            lambda a, b, p=p: torch.cdist(a, b, p),
            (2, 5, 3),
            (4, 3),
        )
    yield row(
        "linear", lambda x, w, b: x.linear(w, b), lambda x, w, b: x @ w + b, (2, 5, 3), (3, 4), (4,)
    )


# ---- movement: the same expression for both unless a second one stands there

MOVES: dict[str, tuple[Function, Shape] | tuple[Function, Shape, Function]] = {
    "reshape": (lambda a: a.reshape(4, -1), (2, 2, 3)),
    "view": (lambda a: a.contiguous().view(4, -1), (2, 2, 3)),
    "permute": (lambda a: a.permute(2, 0, 1), (2, 3, 4)),
    "transpose": (lambda a: a.transpose(0, -1), (2, 3, 4)),
    "swapaxes": (lambda a: a.swapaxes(0, 1), (2, 3, 4)),
    "expand": (lambda a: a.expand(2, -1, 4), (3, 1)),
    "broadcast_to": (lambda a: a.broadcast_to((2, 3, 4)), (3, 1)),
    "squeeze an axis": (lambda a: a.squeeze(0), (1, 3, 1)),
    "flatten": (lambda a: a.flatten(1), (2, 3, 4)),
    "flatten 0-d": (lambda a: a.flatten(), ()),
    "unflatten": (lambda a: a.unflatten(1, (2, -1)), (2, 6)),
    "flip": (lambda a: a.flip((0, 2)), (2, 3, 4)),
    "roll": (lambda a: a.roll((1, -2), (0, 1)), (3, 5)),
    "repeat": (lambda a: a.repeat(2, 1, 3), (2, 3)),
    "repeat 0": (lambda a: a.repeat(2, 0), (2, 3)),
    "tile": (lambda a: a.tile(2), (2, 3), lambda a: a.tile((2,))),
    "repeat_interleave": (lambda a: a.repeat_interleave(2), (2, 3)),
    "unfold": (lambda a: a.unfold(1, 3, 2), (2, 8, 3)),
    "diagonal": (lambda a: a.diagonal(1, 0, 2), (3, 2, 4)),
    "diag": (lambda a: a.diag(1), (3,)),
    "diag of a matrix": (lambda a: a.diag(-1), (3, 4)),
    "diag_embed": (lambda a: a.diag_embed(-2), (2, 3)),
    "split": (lambda a: a.split(2, 1)[-1], (2, 5)),
    "split sizes": (lambda a: a.split([1, 4], 1)[1], (2, 5)),
    "chunk": (lambda a: a.chunk(3, 0)[1], (7, 2)),
    "unbind": (lambda a: a.unbind(1)[1], (2, 3)),
    "narrow": (lambda a: a.narrow(1, 1, 2), (2, 4)),
    "movedim": (lambda a: a.movedim((0, 1), (2, 0)), (2, 3, 4)),
    "moveaxis": (lambda a: a.moveaxis(0, 1), (2, 3, 4)),
    "rot90": (lambda a: a.rot90(3, (1, 2)), (2, 3, 4)),
    "diff": (lambda a: a.diff(2, 0), (5, 2)),
    "T": (lambda a: a.T, (2, 3, 4), lambda a: a.permute(2, 1, 0)),
    "mT": (lambda a: a.mT, (2, 3, 4)),
    "a negative step": (lambda a: a[::-2, 1:], (5, 3), lambda a: a.flip(0)[::2, 1:]),
    "index lists": (lambda a: a[[0, 2], :, [1, 1]], (3, 4, 2)),
    "index lists together": (lambda a: a[:, [[0], [2]], [0, 1]], (3, 4, 2)),
    "None and ...": (lambda a: a[None, ..., -1], (3, 4, 2)),
    "shrink": (lambda a: a.shrink(((1, 3), None)), (4, 2), lambda a: a[1:3]),
    "shrink_to": (lambda a: a.shrink_to(2, None), (4, 2), lambda a: a[:2]),
    "pad_to": (lambda a: a.pad_to(4, 5), (2, 3), lambda a: F.pad(a, (0, 2, 0, 2))),
    "rearrange": (
        lambda a: a.rearrange("a (b c) -> c (b a)", c=2), (3, 6),
        lambda a: a.reshape(3, 3, 2).permute(2, 1, 0).reshape(2, 9),
    ),
    "expand_as": (lambda a: a.expand_as(a + a), (2, 3)),
    "view_as": (lambda a: a.view_as(a + a), (2, 3)),
    "contiguous_backward": (lambda a: a.contiguous_backward(), (2, 3), lambda a: a * 1.0),
}  # fmt: skip
PADS: dict[str, tuple[Shape, dict[str, Any]]] = {
    "negative": ((-1, 2, 1, -1), {}),
    "reflect": ((2, 1, 1, 2), {"mode": "reflect"}),
    "replicate": ((2, 1, 1, 2), {"mode": "replicate"}),
    "circular": ((2, 1, 1, 2), {"mode": "circular"}),
    "-inf": ((1, 1), {"value": -np.inf}),
}


def movement() -> Iterator[Row]:
    for name, (ours, shape, *theirs) in MOVES.items():
        yield row(name, ours, theirs[0] if theirs else None, shape)
    for name, (around, options) in PADS.items():
        yield row(
            f"pad {name}",
            lambda a, p=around, o=options: a.pad(p, **o),
            lambda a, p=around, o=options: F.pad(a, p, **o),
            (2, 4, 5),
        )
    yield row("cat", lambda a, b: a.cat(b, dim=1), _joined(torch.cat, 1), (2, 3), (2, 1))
    yield row("cat empty", lambda a, b: a.cat(b), _joined(torch.cat, 0), (0, 3), (2, 3))
    yield row("concat", lambda a, b: a.concat(b), _joined(torch.cat, 0), (1, 3), (2, 3))
    yield row("stack", lambda a, b: a.stack(b, dim=-1), _joined(torch.stack, -1), (2, 3), (2, 3))
    yield row("vstack", Tensor.vstack, lambda *t: torch.vstack(t), (3,), (2, 3))
    yield row("hstack", Tensor.hstack, lambda *t: torch.hstack(t), (3,), (2,))
    yield row(
        "meshgrid",
        lambda *t: _multiplied(Tensor.meshgrid(*t)),
        lambda *t: _multiplied(torch.meshgrid(*t, indexing="ij")),
        (3,),
        (2,),
    )


def _joined(function: Function, axis: int) -> Function:
    return lambda *t: function(t, axis)


def _multiplied(pair: Any) -> Any:
    return pair[0] * pair[1]


# ---- indices

AT = np.array([[0, 2, 1], [2, 2, 0]])


def indices() -> Iterator[Row]:
    i, j = AT, torch.tensor(AT)
    k, n = np.array([2, 0, 2]), torch.tensor([2, 0, 2])
    yield row("gather", lambda x: x.gather(1, i), lambda x: x.gather(1, j), (3, 4))
    yield row(
        "take_along_axis",
        lambda x: x.take_along_axis(i, 1),
        lambda x: torch.take_along_dim(x, j, 1),
        (2, 3),
    )
    yield row("take", lambda x: x.take(i), lambda x: x.take(j), (2, 3))
    yield row(
        "index_select", lambda x: x.index_select(1, k), lambda x: x.index_select(1, n), (2, 3)
    )
    yield row(
        "scatter_add",
        lambda x, s: x.scatter_add(0, i, s),
        lambda x, s: x.scatter_add(0, j, s),
        (3, 4),
        (2, 3),
    )
    once = [[0, 2, 1], [2, 1, 0]]
    yield row(
        "scatter",
        lambda x, s: x.scatter(1, Tensor(once), s),
        lambda x, s: x.scatter(1, torch.tensor(once), s),
        (3, 4),
        (2, 3),
    )
    for reduce, whole in itertools.product(("sum", "prod", "mean", "amax", "amin"), (True, False)):
        yield row(
            f"scatter_reduce {reduce} {whole}",
            lambda x, s, r=reduce, w=whole: x.scatter_reduce(0, i, s, r, w),
            lambda x, s, r=reduce, w=whole: x.scatter_reduce(0, j, s, r, include_self=w),
            (3, 4),
            (2, 3),
        )
    yield row(
        "index_add",
        lambda x, s: x.index_add(0, k, s, 2.0),
        lambda x, s: x.index_add(0, n, s, alpha=2.0),
        (3, 4),
        (3, 4),
    )
    yield row(
        "index_put",
        lambda x, s: x.index_put((k,), s, True),
        lambda x, s: x.index_put((n,), s, True),
        (3, 4),
        (3, 4),
    )
    yield row("masked_select", lambda x: x.masked_select(x > 0), None, (3, 4))
    yield fixed("nonzero", lambda x: (x > 0).nonzero(), lambda x: (x > 0).nonzero().int(), (3, 4))
    yield row("topk", lambda x: x.topk(2, 0)[0], None, (5, 3))
    yield row("topk smallest", lambda x: x.topk(2, 0, False)[0], None, (5, 3))
    yield fixed(
        "bincount", lambda w: Tensor(k).bincount(w, 5), lambda w: torch.bincount(n, w, 5), (3,)
    )
    yield fixed(
        "searchsorted",
        lambda x, v: x.sort()[0].searchsorted(v),
        lambda x, v: torch.searchsorted(x.sort()[0], v.contiguous()).int(),
        (8,),
        (2, 3),
    )


# ---- convolution, pooling, resampling


def places() -> Iterator[Row]:
    for stride, dilation, pad, groups in itertools.product((1, 2), (1, 2), (0, 1), (1, 2)):
        name = f"stride {stride} dilation {dilation} padding {pad} groups {groups}"
        a = (groups, stride, dilation, pad)
        b = (stride, pad, dilation, groups)
        yield row(
            f"conv2d {name}",
            lambda x, w, b, a=a: x.conv2d(w, b, *a),
            lambda x, w, c, b=b: F.conv2d(x, w, c, *b),
            (2, 4, 7, 6),
            (4, 4 // groups, 3, 2),
            (4,),
        )
        c = (stride, pad, 0, groups, dilation)
        yield row(
            f"conv_transpose2d {name}",
            lambda x, w, a=a: x.conv_transpose2d(w, None, *a),
            lambda x, w, c=c: F.conv_transpose2d(x, w, None, *c),
            (1, 4, 4, 3),
            (4, 4 // groups, 3, 2),
        )
    more = {"stride": 2, "padding": 1, "output_padding": 1}
    yield row(
        "conv_transpose2d output_padding",
        lambda x, w: x.conv_transpose2d(w, **more),
        lambda x, w: F.conv_transpose2d(x, w, **more),
        (1, 3, 4, 3),
        (3, 2, 3, 3),
    )
    yield row(
        "conv1d",
        lambda x, w: x.conv1d(w, stride=2, padding=1),
        lambda x, w: F.conv1d(x, w, stride=2, padding=1),
        (2, 3, 9),
        (4, 3, 3),
    )
    yield row(
        "conv3d",
        lambda x, w: x.conv3d(w, padding=(1, 0, 1)),
        lambda x, w: F.conv3d(x, w, padding=(1, 0, 1)),
        (1, 2, 4, 4, 3),
        (3, 2, 2, 3, 2),
    )
    for k, s, p, ceil in [
        ((2, 2), None, 0, False),
        ((3, 3), 2, 1, True),
        ((2, 3), (1, 2), (1, 0), True),
    ]:
        for inside in (True, False):
            o = {"padding": p, "ceil_mode": ceil, "count_include_pad": inside}
            yield row(
                f"avg_pool2d {k} {o}",
                lambda x, k=k, s=s, o=o: x.avg_pool2d(k, s, **o),
                lambda x, k=k, s=s, o=o: F.avg_pool2d(x, k, s, **o),
                (2, 3, 7, 6),
            )
        yield row(
            f"max_pool2d {k}",
            lambda x, k=k, s=s, p=p, c=ceil: x.max_pool2d(k, s, 1, p, c),
            lambda x, k=k, s=s, p=p, c=ceil: F.max_pool2d(x, k, s, p, 1, c),
            (2, 3, 7, 6),
        )
    yield row(
        "max_unpool2d",
        lambda x: _unpooled(x.max_pool2d(return_indices=True)),
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        (2, 3, 6, 6),
    )
    for parts in ((2, 3), (3, 4), (1, 1), 5):
        yield row(
            f"adaptive_avg_pool2d {parts}",
            lambda x, p=parts: x.adaptive_avg_pool2d(p),
            lambda x, p=parts: F.adaptive_avg_pool2d(x, p),
            (2, 3, 7, 6),
        )
    for size, corners in itertools.product(((3, 4), (9, 11), (1, 1)), (False, True)):
        for ours, theirs in (("linear", "bilinear"), ("bicubic", "bicubic")):
            yield row(
                f"interpolate {ours} {size} {corners}",
                lambda x, s=size, m=ours, c=corners: x.interpolate(s, m, c),
                lambda x, s=size, m=theirs, c=corners: F.interpolate(x, s, mode=m, align_corners=c),
                (1, 2, 5, 6),
            )
    for mode, size in itertools.product(("nearest", "nearest-exact"), ((3, 4), (9, 11))):
        yield row(
            f"interpolate {mode} {size}",
            lambda x, s=size, m=mode: x.interpolate(s, m),
            lambda x, s=size, m=mode: F.interpolate(x, s, mode=m),
            (1, 2, 5, 6),
        )
    for axes, shape in ((1, (2, 3, 7)), (3, (1, 2, 5, 4, 6))):
        o = {"stride": 2, "padding": 1, "ceil_mode": True}
        for name in (f"avg_pool{axes}d", f"max_pool{axes}d"):
            yield row(
                name,
                lambda x, n=name, o=o: getattr(x, n)(3, **o),
                lambda x, n=name, o=o: getattr(F, n)(x, 3, **o),
                shape,
            )
    yield row(
        "conv_transpose1d",
        lambda x, w: x.conv_transpose1d(w, stride=2),
        lambda x, w: F.conv_transpose1d(x, w, stride=2),
        (1, 2, 4),
        (2, 3, 3),
    )
    yield row(
        "conv_transpose3d",
        lambda x, w: x.conv_transpose3d(w, padding=1),
        lambda x, w: F.conv_transpose3d(x, w, padding=1),
        (1, 2, 3, 4, 3),
        (2, 2, 3, 3, 3),
    )
    yield row("group_norm", lambda x: x.group_norm(2), lambda x: F.group_norm(x, 2), (2, 4, 3))
    yield row("instance_norm", lambda x: x.instance_norm(), F.instance_norm, (2, 4, 5))
    yield row(
        "layernorm of two",
        lambda x: x.layernorm((-2, -1)),
        lambda x: F.layer_norm(x, x.shape[-2:]),
        (2, 3, 4),
    )
    yield row(
        "batchnorm",
        lambda x, w, b, m, i: x.batchnorm(w, b, m, i),
        _batchnorm,
        (2, 3, 4),
        (3,),
        (3,),
        (3,),
        (3,),
    )


def _unpooled(pooled: Any) -> Any:
    return pooled[0].max_unpool2d(pooled[1])


def _batchnorm(x: Any, w: Any, b: Any, mean: Any, invstd: Any) -> Any:
    return (x - mean[:, None]) * invstd[:, None] * w[:, None] + b[:, None]


ROWS = [*elementwise(), *products(), *movement(), *indices(), *places()]
_NAMES = [r.name for r in ROWS]


@pytest.mark.parametrize("case", ROWS, ids=_NAMES)
def test_an_operation_is_torchs(case: Row, device: str, rng: np.random.Generator) -> None:
    compare(case, rng)
