"""Workloads that are one function of arrays: products, elementwise chains, rows, sums, convolution
and attention. Each contestant's body is what its own users would write."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import FLOAT, Goal, Work, Workload, alike, elements, function

NO_HALVES = ("numpy", "tinygrad")  # numpy has no bfloat16, tinygrad's compiler neither of them


def matmul(n: int, goal: float) -> Workload:
    square = FLOAT * n * n
    return function(
        ((n, n), (n, n)),
        alike(lambda a, b: a @ b),
        Work(2 * n**3, 2 * square, square),
        Goal(goal, 0.85),
    )


def matmul_of_halves(n: int, dtype: str) -> Workload:
    square = 2 * n * n
    work = Work(2 * n**3, 2 * square, square)
    return function(((n, n),) * 2, alike(lambda a, b: a @ b, *NO_HALVES), work, dtype=dtype)


def batched() -> Workload:
    shape = (256, 64, 64)
    one = FLOAT * elements(shape)
    work = Work(2 * 256 * 64**3, 2 * one, one)
    return function((shape,) * 2, alike(lambda a, b: a @ b), work, Goal(1.4, 0.85))


# ---- elementwise


def gelu_chain() -> Workload:
    def torch(x: Any, y: Any, z: Any) -> Any:
        from torch.nn.functional import gelu

        return gelu(x, approximate="tanh") * y + z

    def numpy(x: Any, y: Any, z: Any) -> Any:
        return gelu_tanh(np, x) * y + z

    def jax(x: Any, y: Any, z: Any) -> Any:
        from jax.nn import gelu

        return gelu(x, approximate=True) * y + z

    def methods(x: Any, y: Any, z: Any) -> Any:
        return x.gelu() * y + z

    shape = (4096, 4096)
    one = FLOAT * elements(shape)
    bodies = {"ours": methods, "torch": torch, "numpy": numpy, "jax": jax, "tinygrad": methods}
    return function((shape,) * 3, bodies, Work(0, 3 * one, one), Goal(6.0, 0.9))


def gelu_tanh(xp: Any, x: Any) -> Any:
    return 0.5 * x * (1 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


# ---- rows


def softmax() -> Workload:
    shape = (4096, 4096)

    def torch_out() -> Any:
        given: list[Any] = []  # a user who keeps the memory of the result

        def body(x: Any) -> Any:
            import torch

            if not given:
                given.append(torch.empty_like(x))
            return torch.softmax(x, -1, out=given[0])

        return body

    def jax(x: Any) -> Any:
        from jax.nn import softmax

        return softmax(x, -1)

    def methods(x: Any) -> Any:
        return x.softmax(-1)

    one = FLOAT * elements(shape)
    bodies = {
        "ours": methods,
        "torch": methods,
        "torch_out": torch_out(),
        "numpy": lambda x: softmax_of(np, x),
        "jax": jax,
        "tinygrad": methods,
    }
    return function((shape,), bodies, Work(0, one, one), Goal(2.5, 0.5))


def softmax_of(xp: Any, x: Any) -> Any:
    e = xp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm() -> Workload:
    shape, width = (4096, 1024), (1024,)

    def torch(x: Any, g: Any, b: Any) -> Any:
        from torch.nn.functional import layer_norm

        return layer_norm(x, width, g, b)

    def methods(x: Any, g: Any, b: Any) -> Any:
        return x.layernorm(eps=1e-5) * g + b

    def jax(x: Any, g: Any, b: Any) -> Any:
        import jax.numpy as jnp

        return layer_norm_of(jnp, x, g, b)

    one = FLOAT * elements(shape)
    bodies = {
        "ours": methods,
        "torch": torch,
        "numpy": lambda x, g, b: layer_norm_of(np, x, g, b),
        "jax": jax,
        "tinygrad": methods,
    }
    return function((shape, width, width), bodies, Work(0, one, one), Goal(1.4))


def layer_norm_of(xp: Any, x: Any, g: Any, b: Any) -> Any:
    c = x - x.mean(-1, keepdims=True)
    return c / xp.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * g + b


def total(axis: int | None, goal: float) -> Workload:
    shape = (4096, 4096)
    bodies = alike(lambda x: x.sum() if axis is None else x.sum(axis))
    return function((shape,), bodies, Work(0, FLOAT * elements(shape)), Goal(goal, 0.9))


def running_total() -> Workload:
    shape = (1000, 4096)
    one = FLOAT * elements(shape)
    return function((shape,), alike(lambda x: x.cumsum(1)), Work(0, one, one))


def ordering() -> Workload:
    """Without tinygrad, whose graph for this takes minutes to compile."""

    def values(x: Any) -> Any:
        return x.sort(1)[0]

    def jax(x: Any) -> Any:
        import jax.numpy as jnp

        return jnp.sort(x, 1)

    bodies = {"ours": values, "torch": values, "numpy": lambda x: np.sort(x, 1), "jax": jax}
    return function(((64, 4096),), bodies)


# ---- convolution

IMAGES, FILTERS = (32, 64, 56, 56), (64, 64, 3, 3)


def _torch_convolution(groups: int) -> Any:
    def body(x: Any, w: Any) -> Any:
        from torch.nn.functional import conv2d

        return conv2d(x, w, padding=1, groups=groups)

    return body


def _jax_convolution(groups: int) -> Any:
    def body(x: Any, w: Any) -> Any:
        from jax.lax import conv_general_dilated

        sides = ((1, 1), (1, 1))
        return conv_general_dilated(x, w, (1, 1), sides, feature_group_count=groups)

    return body


def _convolve(x: Any, w: Any, groups: int = 1) -> Any:
    return x.conv2d(w, padding=1, groups=groups)


def _convolution_work(groups: int = 1) -> Work:
    images, filters = elements(IMAGES), elements(FILTERS) // groups
    flops = 2 * images * filters // FILTERS[0]  # a filter at each place of each image
    return Work(flops, FLOAT * (images + filters), FLOAT * images)


def convolution(groups: int = 1) -> Workload:
    def methods(x: Any, w: Any) -> Any:
        return _convolve(x, w, groups)

    bodies = {
        "ours": methods,
        "torch": _torch_convolution(groups),
        "jax": _jax_convolution(groups),
        "tinygrad": methods,
    }
    filters = (FILTERS[0], FILTERS[1] // groups, *FILTERS[2:])
    goal = Goal(1.5, 0.75) if groups == 1 else None
    return function((IMAGES, filters), bodies, _convolution_work(groups), goal)


def convolution_gradient(to: int) -> Workload:
    """Of a convolution's result, to its images (0) or its filters (1)."""

    def methods(x: Any, w: Any, g: Any) -> Any:
        return (_convolve(x, w) * g).sum().gradient((x, w)[to])[0]

    def torch(x: Any, w: Any, g: Any) -> Any:
        import torch

        wanted = [to == 0, to == 1, False]
        backward = torch.ops.aten.convolution_backward
        return backward(g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted)[to]

    def jax(x: Any, w: Any, g: Any) -> Any:
        from jax import vjp

        return vjp(_jax_convolution(1), x, w)[1](g)[to]

    bodies = {"ours": methods, "torch": torch, "jax": jax, "tinygrad": methods}
    return function((IMAGES, FILTERS, IMAGES), bodies, _convolution_work(), Goal(1.2, 0.75))


# ---- attention

HEADS, POSITIONS, WIDTH = 12, 1024, 64
QUERIES = (1, HEADS, POSITIONS, WIDTH)
# One product of the scores' size; below the diagonal only.
HALF_PRODUCT = HEADS * POSITIONS * POSITIONS * WIDTH


def _torch_attention(q: Any, k: Any, v: Any) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(q, k, v, is_causal=True)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return q.scaled_dot_product_attention(k, v, is_causal=True)


def _attention_of(xp: Any, q: Any, k: Any, v: Any) -> Any:
    hidden = xp.triu(xp.full((POSITIONS, POSITIONS), -1e30, dtype=xp.float32), 1)
    return softmax_of(xp, q @ xp.swapaxes(k, -1, -2) * WIDTH**-0.5 + hidden) @ v


def _jax_attention(q: Any, k: Any, v: Any) -> Any:
    import jax.numpy as jnp

    return _attention_of(jnp, q, k, v)


def attention() -> Workload:
    one = FLOAT * elements(QUERIES)
    bodies = {
        "ours": _attention,
        "torch": _torch_attention,
        "numpy": lambda q, k, v: _attention_of(np, q, k, v),
        "jax": _jax_attention,
        "tinygrad": _attention,
    }
    return function((QUERIES,) * 3, bodies, Work(2 * HALF_PRODUCT, 3 * one, one), Goal(1.7, 0.6))


def attention_of_halves(dtype: str) -> Workload:
    one = 2 * elements(QUERIES)
    bodies = {"ours": _attention, "torch": _torch_attention, "jax": _jax_attention}
    return function((QUERIES,) * 3, bodies, Work(2 * HALF_PRODUCT, 3 * one, one), dtype=dtype)


def attention_training() -> Workload:
    """Forward and backward: the result and three gradients, as in a training step. Two products
    forward, five backward."""

    def methods(q: Any, k: Any, v: Any, g: Any) -> Any:
        out = _attention(q, k, v)
        return out, *(out * g).sum().gradient(q, k, v)

    def torch(q: Any, k: Any, v: Any, g: Any) -> Any:
        import torch

        with torch.inference_mode(False), torch.enable_grad():
            inputs = [t.detach().requires_grad_() for t in (q, k, v)]
            out = _torch_attention(*inputs)
            return out, *torch.autograd.grad(out, inputs, g)

    def jax(q: Any, k: Any, v: Any, g: Any) -> Any:
        from jax import vjp

        out, pull = vjp(_jax_attention, q, k, v)
        return out, *pull(g)

    one = FLOAT * elements(QUERIES)
    bodies = {"ours": methods, "torch": torch, "jax": jax, "tinygrad": methods}
    work = Work(7 * HALF_PRODUCT, 4 * one, 4 * one)
    return function((QUERIES,) * 4, bodies, work, Goal(1.3, 0.6))
