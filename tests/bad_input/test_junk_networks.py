"""Whatever is given for one argument of a layer, optimizer, schedule or file function, the answer
is a result or an error of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polygrad import Context, Tensor, fetch, nn
from polygrad.errors import PolygradError

from .test_junk import junk

Call = Callable[..., Any]


def parameter() -> Tensor:
    return Tensor.ones(2, 2, requires_grad=True)


# name of a layer -> arguments that fit, and an input that fits
LAYERS: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    "Linear": ((3, 2), (2, 3)),
    "Conv1d": ((2, 2, 1), (1, 2, 4)),
    "Conv2d": ((2, 2, 1), (1, 2, 4, 4)),
    "Conv3d": ((2, 2, 1), (1, 2, 2, 2, 2)),
    "ConvTranspose1d": ((2, 2, 1), (1, 2, 4)),
    "ConvTranspose2d": ((2, 2, 1), (1, 2, 4, 4)),
    "ConvTranspose3d": ((2, 2, 1), (1, 2, 2, 2, 2)),
    "BatchNorm": ((3,), (2, 3)),
    "BatchNorm1d": ((3,), (2, 3)),
    "BatchNorm2d": ((3,), (2, 3, 2, 2)),
    "BatchNorm3d": ((3,), (2, 3, 2, 2, 2)),
    "LayerNorm": ((3,), (2, 3)),
    "LayerNorm2d": ((3,), (2, 3, 2, 2)),
    "RMSNorm": ((3,), (2, 3)),
    "GroupNorm": ((2, 4), (1, 4)),
    "InstanceNorm": ((3,), (2, 3, 4)),
    "LSTM": ((3, 4), (4, 2, 3)),
    "GRU": ((3, 4), (4, 2, 3)),
    "LSTMCell": ((3, 4), (2, 3)),
    "GRUCell": ((3, 4), (2, 3)),
    "MultiheadAttention": ((4, 2), (4, 2, 4)),
}
SCHEDULES: dict[str, tuple[Any, ...]] = {
    "constant": (0.1,),
    "linear_decay": (1.0, 0.0, 4),
    "cosine_decay": (1.0, 0.0, 4),
    "warmup": (1.0, 4, 0.5),
    "step": (1.0, 2),
    "multi_step": (1.0, [2]),
    "one_cycle": (1.0, 10),
}
STARTS: dict[str, tuple[Any, ...]] = {
    "randn": (0.1,),
    "uniform": (0.1,),
    "kaiming": (1.0,),
    "kaiming_uniform": (1.0,),
    "literal": ([1.0] * 6,),
}


def calls() -> dict[str, tuple[Call, tuple[Any, ...], Call]]:
    """name -> (what is called, arguments that fit, whose signature it has)."""
    found: dict[str, tuple[Call, tuple[Any, ...], Call]] = {}

    def put(name: str, call: Call, *given: Any, like: Call | None = None) -> None:
        found[name] = call, given, like or call

    for name, (arguments, shape) in LAYERS.items():
        put(name, getattr(nn, name), *arguments)
        layer = getattr(nn, name)(*arguments)
        put(f"{name}(...)", layer, Tensor.ones(*shape))
    put("Embedding", nn.Embedding, 5, 3)
    put("Embedding(...)", nn.Embedding(5, 3), Tensor([1]))
    put("Dropout", nn.Dropout, 0.5)
    for name in ("SGD", "Adam", "AdamW", "LAMB", "LARS", "Muon"):
        put(name, getattr(nn.optim, name), [parameter()])
    sgd = nn.optim.SGD([parameter()])
    put("OptimizerGroup", nn.optim.OptimizerGroup, sgd)
    put("make", nn.optim.make, "sgd")
    put("clip_grad_norm_", nn.clip_grad_norm_, [parameter()], 1.0)
    for name, given in SCHEDULES.items():
        make = getattr(nn.lr, name)
        put(name, lambda *a, m=make, **o: nn.lr.resolve(m(*a, **o), 3), *given, like=make)
    put("resolve", nn.lr.resolve, 0.1, 1)
    put("LR_Scheduler", nn.lr.LR_Scheduler, sgd, 0.1)
    put("OneCycleLR", nn.lr.OneCycleLR, sgd, 0.1, 10)
    put("LRSchedulerGroup", nn.lr.LRSchedulerGroup, nn.lr.LR_Scheduler(sgd, 0.1))
    for name, given in STARTS.items():
        make = getattr(nn.init, name)
        put(f"init.{name}", lambda *a, m=make, **o: m(*a, **o)((2, 3)), *given, like=make)
    put("load_state_dict", nn.load_state_dict, nn.Linear(1, 1), {"weight": [[1.0]], "bias": [0.0]})
    for name in ("safe_load", "zip_extract", "tar_extract"):
        put(name, getattr(nn.state, name), b"")
    put("safe_save", nn.safe_save, {}, "x.safetensors")
    put("fetch", fetch, "https://127.0.0.1:9/x")
    ones, zeros = Tensor.ones(1, 2, 3, 4), Tensor.zeros(1, 2, 3)
    put("gated_delta_rule", nn.gated_delta_rule, ones, ones, ones, zeros, zeros)
    return found


NAMES = [
    *(name for layer in LAYERS for name in (layer, f"{layer}(...)")),
    *("Embedding", "Embedding(...)", "Dropout", "SGD", "Adam", "AdamW", "LAMB", "LARS", "Muon"),
    *("OptimizerGroup", "make", "clip_grad_norm_", *SCHEDULES, "resolve", "LR_Scheduler"),
    *("OneCycleLR", "LRSchedulerGroup", *(f"init.{name}" for name in STARTS), "load_state_dict"),
    *("safe_load", "zip_extract", "tar_extract", "safe_save", "fetch", "gated_delta_rule"),
]


@pytest.mark.parametrize("name", NAMES)
def test_junk_is_refused_as_junk(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Context(POLY_DEV="interp", TRAINING=1, POLY_CACHE_DIR=str(tmp_path / "cache")):
        call, fitting, like = calls()[name]
        for place, wrong in enumerate(inspect.signature(like).parameters.values()):
            for value in junk():
                if wrong.kind is wrong.VAR_KEYWORD:
                    continue
                given, named = list(fitting), {}
                if wrong.kind is wrong.VAR_POSITIONAL:
                    given = [value]
                elif place < len(given):
                    given[place] = value
                else:
                    named[wrong.name] = value
                try:
                    call(*given, **named)
                except PolygradError as error:
                    assert 0 < len(str(error)) <= 400
                    assert len(str(error).splitlines()) <= 2


@pytest.mark.parametrize(
    "huge",
    [10**6, 2**40, 2**62, 10**30, 10**400],
    ids=lambda n: f"{n:.0e}" if n < 10**99 else "endless",
)
@pytest.mark.parametrize("name", [*LAYERS, "Embedding", "Muon", "gated_delta_rule"])
def test_a_huge_count_ends(name: str, huge: int) -> None:
    """It is refused, or a size that costs nothing before it is used; nothing loops over it."""
    with Context(POLY_DEV="interp"):
        call, fitting, like = calls()[name]
        for place, wrong in enumerate(inspect.signature(like).parameters.values()):
            if "int" not in str(wrong.annotation) and wrong.annotation != "Sizes":
                continue
            given, named = list(fitting), {}
            if place < len(given):
                given[place] = huge
            else:
                named[wrong.name] = huge
            try:
                call(*given, **named)
            except PolygradError as error:
                assert 0 < len(str(error)) <= 400


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_layers_that_are_made_one_by_one_are_bounded(make: Any) -> None:
    assert len(nn.get_parameters(make(1, 1, num_layers=50))) == 200
    for n in (0, -1, 10_001, 10**30):
        with pytest.raises(PolygradError, match="num_layers"):
            make(1, 1, num_layers=n)


def test_every_call_is_tried() -> None:
    assert set(NAMES) == set(calls())
