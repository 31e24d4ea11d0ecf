"""A decoder of GPT-2's shape: one token with its keys and values cached, and a prompt of 64.

The peers share one forward pass in terms of a few operations that each spells its own way. Ours is
made of `nn` layers, its cache is written in place, and the position is a `Variable`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..frameworks import Framework
from .common import FLOAT, Goal, Maker, Step, Work, Workload, array
from .functions import gelu_tanh, layer_norm_of, softmax_of


class Shape(NamedTuple):
    layers: int
    width: int
    heads: int
    vocabulary: int
    context: int = 128  # places of the cache

    @property
    def head(self) -> int:
        return self.width // self.heads

    @property
    def matrices(self) -> int:
        """Weights of the matrices of all layers."""
        return self.layers * 12 * self.width**2


SMALL = Shape(12, 768, 12, 50257)
MINI = Shape(2, 256, 4, 1000)
POSITION = 64  # of the token that is decoded


# ---- ours


class Attention:
    def __init__(self, shape: Shape) -> None:
        from polygrad import Tensor, nn

        self.shape = shape
        self.project = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        places = (shape.heads, shape.context, shape.head)
        self.keys, self.values = (Tensor.zeros(*places).contiguous() for _ in range(2))

    def __call__(self, x: Any, position: Any) -> Any:
        """(positions, width) -> the same; with a position, of the one token that stands there."""
        shape = self.shape
        heads = self.project(x).reshape(-1, 3, shape.heads, shape.head).permute(1, 2, 0, 3)
        q, k, v = heads.unbind()
        if position is None:
            out = q.scaled_dot_product_attention(k, v, is_causal=True)
        else:
            self.keys[:, position], self.values[:, position] = k[:, 0], v[:, 0]
            past = slice(0, position + 1)
            out = q.scaled_dot_product_attention(self.keys[:, past], self.values[:, past])
        return self.out(out.transpose(0, 1).flatten(1))


class Block:
    def __init__(self, shape: Shape) -> None:
        from polygrad import nn

        width = shape.width
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(shape)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Any, position: Any) -> Any:
        x = x + self.attention(self.before(x), position)
        return x + self.down(self.up(self.between(x)).gelu())


class Decoder:
    """Of rows of embeddings: the logits of what follows the last."""

    def __init__(self, shape: Shape) -> None:
        from polygrad import nn

        self.blocks = [Block(shape) for _ in range(shape.layers)]
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def __call__(self, x: Any, position: Any = None) -> Any:
        for block in self.blocks:
            x = block(x, position)
        return self.head(self.norm(x[-1:]))

    def realize(self) -> Decoder:
        from polygrad import nn

        for tensor in nn.state.get_state_dict(self).values():  # one by one: the least scratch
            tensor.realize()
        return self


def _ours(shape: Shape, rows: int, framework: Framework) -> Step:
    from polygrad import Variable, jit

    net = Decoder(shape).realize()
    x = framework.tensor(array(rows, shape.width))
    if rows > 1:
        prompt = jit(lambda x: net(x))
        return lambda: prompt(x)
    decode = jit(lambda x, position: net(x, position))
    place = Variable("position", 0, shape.context - 1)
    return lambda: decode(x, place.bind(POSITION))


# ---- peers


class Ops(NamedTuple):
    """How a framework spells what the forward pass is made of."""

    linear: Callable[..., Any]  # x, weight (out, in), bias or None
    norm: Callable[..., Any]
    gelu: Callable[[Any], Any]
    permute: Callable[..., Any]
    write: Callable[..., Any]  # cache (heads, places, head), rows, position -> the cache
    attention: Callable[..., Any]  # q, k, v (heads, positions, head), is it causal


def forward(ops: Ops, shape: Shape, w: dict[str, Any], caches: list[Any], x: Any) -> Any:
    """Logits and caches; without caches x is a prompt."""
    rows, kept = x.shape[0], []
    for i in range(shape.layers):
        h = ops.norm(x, w[f"before{i}"], w[f"before_bias{i}"])
        h = ops.linear(h, w[f"project{i}"], w[f"project_bias{i}"])
        q, k, v = ops.permute(h.reshape(rows, 3, shape.heads, shape.head), (1, 2, 0, 3))
        if caches:
            pair = [ops.write(c, new, POSITION) for c, new in zip(caches[i], (k, v), strict=True)]
            kept.append(pair)
            k, v = (c[:, : POSITION + 1] for c in pair)
        o = ops.attention(q, k, v, rows > 1)
        o = ops.permute(o, (1, 0, 2)).reshape(rows, shape.width)
        x = x + ops.linear(o, w[f"out{i}"], w[f"out_bias{i}"])
        h = ops.norm(x, w[f"between{i}"], w[f"between_bias{i}"])
        h = ops.gelu(ops.linear(h, w[f"up{i}"], w[f"up_bias{i}"]))
        x = x + ops.linear(h, w[f"down{i}"], w[f"down_bias{i}"])
    return ops.linear(ops.norm(x[-1:], w["norm"], w["norm_bias"]), w["head"], None), kept


def weights(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = shape.width
    for i in range(shape.layers):
        for name, out, inputs in (
            ("project", 3 * width, width),
            ("out", width, width),
            ("up", 4 * width, width),
            ("down", width, 4 * width),
        ):
            yield f"{name}{i}", (out, inputs)
            yield f"{name}_bias{i}", (out,)
        for name in ("before", "between"):
            yield f"{name}{i}", (width,)
            yield f"{name}_bias{i}", (width,)
    yield from (("norm", (width,)), ("norm_bias", (width,)), ("head", (shape.vocabulary, width)))


def _peer(
    ops_of: Callable[[Framework], Ops], shape: Shape, rows: int, framework: Framework
) -> Step:
    ops = ops_of(framework)
    w = {n: framework.tensor(array(*s, seed=i) * 0.02) for i, (n, s) in enumerate(weights(shape))}
    x = framework.tensor(array(rows, shape.width))
    places = (shape.heads, shape.context, shape.head)
    count = shape.layers if rows == 1 else 0
    caches = [[framework.tensor(array(*places) * 0) for _ in "kv"] for _ in range(count)]
    call = _callable(framework, partial(forward, ops, shape), w, x)

    def step() -> Any:
        nonlocal caches
        logits, kept = call(caches)
        caches = kept or caches
        return framework.wait(logits)

    return step


def named_tensors(net: Decoder) -> dict[str, Any]:
    """The tensors of ours under the names of `weights`."""
    named = {"norm": net.norm.weight, "norm_bias": net.norm.bias, "head": net.head.weight}
    for i, block in enumerate(net.blocks):
        attention = block.attention
        layers = {"project": attention.project, "out": attention.out}
        layers |= {n: getattr(block, n) for n in ("up", "down", "before", "between")}
        for name, layer in layers.items():
            named[f"{name}{i}"], named[f"{name}_bias{i}"] = layer.weight, layer.bias
    return named


def _callable(framework: Framework, forward: Any, w: dict[str, Any], x: Any) -> Any:
    """A function of the caches. jax may use their memory again; torch and numpy write in place."""
    if framework.package == "jax":
        compiled = framework.module.jit(forward, donate_argnums=1)
        return lambda caches: compiled(w, caches, x)
    if framework.package == "tinygrad":

        def logits(x: Any, caches: Any) -> Any:
            return forward(w, caches, x)[0]

        jitted = framework.compiled(logits)
        held: list[Any] = []  # written in place: the first ones stay

        def call(caches: Any) -> Any:
            held[:] = held or [caches]
            return jitted(x, held[0]), None

        return call
    plain = framework.compiled(forward)
    return lambda caches: plain(w, caches, x)


def _torch_ops(framework: Framework) -> Ops:
    from torch.nn import functional

    def write(cache: Any, rows: Any, position: int) -> Any:
        cache[:, position] = rows[:, 0]
        return cache

    return Ops(
        linear=functional.linear,
        norm=lambda x, g, b: functional.layer_norm(x, x.shape[-1:], g, b),
        gelu=partial(functional.gelu, approximate="tanh"),
        permute=lambda x, order: x.permute(order),
        write=write,
        attention=lambda q, k, v, causal: functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal
        ),
    )


def _plain_ops(xp: Any, write: Callable[..., Any]) -> Ops:
    def attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = q @ xp.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]))
        if causal:
            scores = scores + xp.triu(xp.full(scores.shape[-2:], -1e30, xp.float32), 1)
        return softmax_of(xp, scores) @ v

    return Ops(
        linear=lambda x, w, b: x @ w.T if b is None else x @ w.T + b,
        norm=partial(layer_norm_of, xp),
        gelu=partial(gelu_tanh, xp),
        permute=xp.transpose,
        write=write,
        attention=attention,
    )


def _numpy_ops(framework: Framework) -> Ops:
    def write(cache: Any, rows: Any, position: int) -> Any:
        cache[:, position] = rows[:, 0]
        return cache

    return _plain_ops(np, write)


def _jax_ops(framework: Framework) -> Ops:
    def write(cache: Any, rows: Any, position: int) -> Any:
        return cache.at[:, position].set(rows[:, 0])

    return _plain_ops(framework.module.numpy, write)


def _tinygrad_ops(framework: Framework) -> Ops:
    def write(cache: Any, rows: Any, position: int) -> Any:
        cache[:, position : position + 1].assign(rows)
        return cache

    return Ops(
        linear=lambda x, w, b: x.linear(w.T, b),
        norm=lambda x, g, b: x.layernorm(eps=1e-5) * g + b,
        gelu=lambda x: x.gelu(),
        permute=lambda x, order: x.permute(order),
        write=write,
        attention=lambda q, k, v, causal: q.scaled_dot_product_attention(k, v, is_causal=causal),
    )


PEER_OPS = {
    "torch": _torch_ops,
    "numpy": _numpy_ops,
    "jax": _jax_ops,
    "tinygrad": _tinygrad_ops,
}


def decoder(shape: Shape, rows: int, goal: Goal | None = None) -> Workload:
    """One token at POSITION (1 row), or a prompt of as many rows."""
    steps: dict[str, Maker] = {"ours": partial(_ours, shape, rows)}
    for name, ops in PEER_OPS.items():
        steps[name] = partial(_peer, ops, shape, rows)
    head = shape.vocabulary * shape.width
    flops = 2.0 * (rows * shape.matrices + head)
    return Workload(steps, Work(flops, FLOAT * (shape.matrices + head)), goal)
