"""Losses and attention against torch: values and gradients, over every argument."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from polygrad import Context, Tensor

from .rows import Row, compare, first, row

Function = Callable[..., Any]
REDUCTIONS = ("mean", "sum", "none")
NUMBERS = np.array([[0, 1, 2], [3, -100, 1]])


def classes() -> Iterator[Row]:
    mine, other = NUMBERS, torch.tensor(NUMBERS)
    for reduction, smoothing in itertools.product(REDUCTIONS, (0.0, 0.2)):
        name = f"{reduction} {smoothing}"
        o = {"reduction": reduction, "label_smoothing": smoothing}
        yield row(
            f"cross_entropy {name}",
            lambda x, o=o: x.cross_entropy(mine, **o),
            lambda x, o=o: F.cross_entropy(x, other, **o),
            (2, 4, 3),
        )
        yield row(
            f"cross_entropy of probabilities {name}",
            lambda x, y, o=o: x.cross_entropy(y.softmax(1), **o),
            lambda x, y, o=o: F.cross_entropy(x, y.softmax(1), **o),
            (3, 4),
            (3, 4),
        )
        yield first(
            f"cross_entropy with weights {name}",
            lambda x, w, o=o: x.cross_entropy(mine, weight=w.exp().detach(), **o),
            lambda x, w, o=o: F.cross_entropy(x, other, weight=w.exp().detach(), **o),
            (2, 4, 3),
            (4,),
        )
        yield row(
            f"sparse_categorical_crossentropy {name}",
            lambda x, o=o: x.sparse_categorical_crossentropy(Tensor([0, -1, 2]), **o),
            lambda x, o=o: F.cross_entropy(x, torch.tensor([0, -1, 2]), ignore_index=-1, **o),
            (3, 4),
        )
    for reduction in REDUCTIONS:
        yield first(
            f"nll_loss {reduction}",
            lambda x, w, r=reduction: x.log_softmax(1).nll_loss(
                mine, w.exp().detach(), reduction=r
            ),
            lambda x, w, r=reduction: F.nll_loss(
                x.log_softmax(1), other, w.exp().detach(), reduction=r
            ),
            (2, 4, 3),
            (4,),
        )


def _with(name: str, reduction: str, **options: Any) -> tuple[Function, Function]:
    """A loss of the same name in both."""
    o = {"reduction": reduction, **options}
    return lambda x, y: getattr(x, name)(y, **o), lambda x, y: getattr(F, name)(x, y, **o)


def distances() -> Iterator[Row]:
    pair = (3, 4), (3, 4)
    for r in REDUCTIONS:
        for name, options in (
            ("mse_loss", {}),
            ("l1_loss", {}),
            ("huber_loss", {}),
            ("huber_loss", {"delta": 0.3}),
            ("smooth_l1_loss", {}),
            ("smooth_l1_loss", {"beta": 0.3}),
            ("smooth_l1_loss", {"beta": 0.0}),
        ):
            yield row(f"{name} {options} {r}", *_with(name, r, **options), *pair)
        yield first(
            f"binary_crossentropy {r}",
            lambda x, y, r=r: x.sigmoid().binary_crossentropy(y.sigmoid(), r),
            lambda x, y, r=r: F.binary_cross_entropy(
                x.sigmoid(), y.sigmoid().detach(), reduction=r
            ),
            *pair,
        )
        yield row(
            f"binary_crossentropy_logits {r}",
            lambda x, y, r=r: x.binary_crossentropy_logits(y.sigmoid(), r),
            lambda x, y, r=r: F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction=r),
            *pair,
        )
        yield first(
            f"binary_crossentropy_logits, pos_weight {r}",
            lambda x, y, w, r=r: x.binary_crossentropy_logits(y.sigmoid(), r, w.exp()),
            lambda x, y, w, r=r: F.binary_cross_entropy_with_logits(
                x, y.sigmoid().detach(), reduction=r, pos_weight=w.exp().detach()
            ),
            *pair,
            (4,),
        )
        yield row(
            f"pinball_loss {r}",
            lambda x, y, r=r: x.pinball_loss(y, 0.3, r),
            lambda x, y, r=r: _reduced((y - x).clamp(min=0) * 0.3 + (x - y).clamp(min=0) * 0.7, r),
            *pair,
        )
    for r, log in itertools.product((*REDUCTIONS, "batchmean"), (False, True)):
        yield row(
            f"kl_div {log} {r}",
            lambda x, y, r=r, g=log: x.log_softmax(-1).kl_div(_target(y, g), r, g),
            lambda x, y, r=r, g=log: F.kl_div(
                x.log_softmax(-1), _target(y, g), reduction=r, log_target=g
            ),
            *pair,
        )


def _target(y: Any, log: bool) -> Any:
    return y.log_softmax(-1) if log else y.softmax(-1)


def _reduced(x: Any, reduction: str) -> Any:
    return x if reduction == "none" else getattr(x, reduction)()


def alignments() -> Iterator[Row]:
    targets, given, wanted = [[1, 2, 2], [3, 1, 0]], [7, 6], [3, 2]
    for reduction in REDUCTIONS:
        yield row(
            f"ctc_loss {reduction}",
            lambda x, r=reduction: x.log_softmax(-1).ctc_loss(
                Tensor(targets), Tensor(given), Tensor(wanted), 0, r
            ),
            lambda x, r=reduction: F.ctc_loss(
                x.log_softmax(-1),
                torch.tensor(targets),
                torch.tensor(given),
                torch.tensor(wanted),
                0,
                r,
            ),
            (7, 2, 4),
        )


SEEN = np.array([[1, 0, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1], [0] * 6, [0, 1, 0, 0, 0, 0]], bool)
ATTENTION: dict[str, tuple[dict[str, Any], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "plain": ({}, (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2)),
    "two axes": ({}, (4, 5), (6, 5), (6, 2)),
    "causal": ({"is_causal": True}, (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2)),
    "causal, more queries": ({"is_causal": True}, (1, 6, 5), (1, 4, 5), (1, 4, 2)),
    "grouped heads": ({"enable_gqa": True}, (2, 4, 4, 5), (2, 2, 6, 5), (2, 2, 6, 2)),
    "a mask, one row all hidden": ({"attn_mask": SEEN}, (2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2)),
}


def attention() -> Iterator[Row]:
    for name, (options, *shapes) in ATTENTION.items():
        yield row(
            f"scaled_dot_product_attention {name}",
            lambda q, k, v, o=options: q.scaled_dot_product_attention(k, v, **_masked(o, Tensor)),
            lambda q, k, v, o=options: F.scaled_dot_product_attention(
                q, k, v, **_masked(o, torch.tensor)
            ),
            *shapes,
        )
    yield row(
        "scaled_dot_product_attention, a mask that is added",
        lambda q, k, v, m: q.scaled_dot_product_attention(k, v, m),
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        *((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2), (4, 6)),
    )


def _masked(options: dict[str, Any], tensor: Function) -> dict[str, Any]:
    return {k: tensor(v) if k == "attn_mask" else v for k, v in options.items()}


ROWS = [*classes(), *distances(), *alignments(), *attention()]


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("case", ROWS, ids=[r.name for r in ROWS])
def test_a_loss_is_torchs(case: Row, device: str, rng: np.random.Generator) -> None:
    compare(case, rng)


def test_dropout_of_attention_keeps_the_mean(device: str) -> None:
    Tensor.manual_seed(3)
    q, v = Tensor.zeros(1, 400, 2), Tensor.ones(1, 400, 1)
    with Context(TRAINING=1):
        dropped = q.scaled_dot_product_attention(q, v, dropout_p=0.5).numpy()
    assert dropped.std() > 0.01
    assert abs(dropped.mean() - 1) < 0.01
    assert q.scaled_dot_product_attention(q, v, dropout_p=0.5).allclose(1.0)
