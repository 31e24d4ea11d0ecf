"""Can this device run that operation? Answered by compiling it, without running anything.

An operation is called on symbols of the dtype and shapes asked for; the graph that comes out is
scheduled and compiled for the device. So yes is proved, for these shapes. No comes with its reason,
which may be that only values could tell.

Most operations are a method of Tensor that takes tensors; `_CALLS` says how the others are called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import device as devices
from ._jit import compile as compiled
from .dtype import DType, dtypes, to_dtype
from .engine.runtime import Runtime, use
from .errors import (
    ArgumentError,
    CaptureError,
    DeviceNotInstalled,
    DeviceUnknown,
    PolygradError,
    SpecError,
    UnknownName,
    did_you_mean,
    public,
    shown,
)
from .settings import Context
from .tensor import Tensor
from .tensor.axes import sizes
from .tensor.base import result
from .uop.opcodes import ELEMENTWISE, TERNARY, UNARY
from .uop.ops import Ops, UOp

Shape = tuple[int, ...]


class Support(NamedTuple):
    """The answer of `can_run`: true or false, and why not."""

    ok: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok


class Call(NamedTuple):
    """How an operation is called on tensors. `kinds` has a letter for each of them: x the dtype
    that was asked for, i int32, b bool, n int32 of the first axis alone."""

    kinds: str
    function: Callable[..., Any]
    shapes: tuple[Shape, ...] = ()


@public
def can_run(
    op: str | Ops,
    dtype: Any = "float32",
    shape: Sequence[int] | None = None,
    shapes: Sequence[Sequence[int]] | None = None,
    device: str = "auto",
) -> Support:
    """Whether a device can run an operation: the name of a Tensor method, or of one of `Ops`.

    `shape` is that of every operand, `shapes` one for each; without them small ones are taken.
    `device` "auto" is the current default. Nothing runs, but the kernels are compiled. Raises
    UnknownName, DTypeError, DeviceUnknown or DeviceNotInstalled for names that are none.

    >>> can_run("matmul", shapes=[(4, 8), (8, 2)], device="interp").ok
    True
    >>> can_run("matmul", shapes=[(4, 8), (4, 2)], device="interp").ok
    False
    """
    call, wanted = _call_of(op), to_dtype(dtype)
    if shape is not None and shapes is not None:
        raise ArgumentError("can_run: shape and shapes are the same argument; give one.")
    given = [sizes("can_run", s) for s in shapes] if shapes is not None else None
    same = None if shape is None else sizes("can_run", shape)
    if isinstance(call, Support):
        return call
    try:
        place = devices.default() if device == "auto" else devices.canonical(device)
        devices.get(place)
        with Context(POLY_DEV=place, POLY_SPEC=1), use(Runtime("can_run")):
            compiled(call.function).prepare(*_operands(call, wanted, same, given))
    except CaptureError:
        return Support(False, f"{op}: values are read while it is built; only running it can tell.")
    except (DeviceUnknown, DeviceNotInstalled):
        raise
    except SpecError:
        return Support(False, f"{op} takes no {wanted.name}.")
    except PolygradError as error:
        return Support(False, str(error))
    return Support(True)


def _operands(
    call: Call, dtype: DType, same: Shape | None, given: Sequence[Shape] | None
) -> list[Tensor]:
    kinds = call.kinds
    if given is not None:
        some = list(given)
        kinds = kinds + kinds[-1:] * (len(some) - len(kinds))
        kinds = kinds[: len(some)]
    elif same is None and call.shapes:
        some = list(call.shapes)
    else:
        some = [same if same is not None else (4, 4)] * len(kinds)
        some = [s[:1] if k == "n" else s for k, s in zip(kinds, some, strict=True)]
    types = {"i": dtypes.int32, "n": dtypes.int32, "b": dtypes.bool}
    return [Tensor.empty(s, dtype=types.get(k, dtype)) for k, s in zip(kinds, some, strict=True)]


# ---- what a name means


def _call_of(op: Any) -> Call | Support:
    name = op.name if isinstance(op, Ops) else op
    if not isinstance(name, str):
        raise ArgumentError(f"can_run: op is the name of an operation, not {shown(op)}.")
    method = name if isinstance(op, Ops) is False and name in _METHODS else ""
    if method:
        return _call_of_method(method)
    if name.upper() not in Ops.__members__:
        hint = did_you_mean(name, [*_METHODS, *map(str.lower, Ops.__members__)])
        raise UnknownName(
            f"no operation named {shown(name)}.{hint} Operations are the methods of Tensor, and"
            " polygrad.Ops."
        )
    return _call_of_node(Ops[name.upper()])


_METHODS = frozenset(
    n for n in dir(Tensor) if not n.startswith("_") and callable(getattr(Tensor, n))
)


def _call_of_method(name: str) -> Call | Support:
    if name in _NO_OPERATIONS:
        return Support(False, f"{name} is no operation on the device: {_NO_OPERATIONS[name]}.")
    found = _CALLS.get(name)
    if found is not None:
        return found
    method: Any = getattr(Tensor, name)
    needed = [
        p
        for p in inspect.signature(method).parameters.values()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    return Call("x" * len(needed), method)


def _call_of_node(op: Ops) -> Call | Support:
    if op in ELEMENTWISE and op not in (Ops.CAST, Ops.BITCAST, Ops.THREEFRY):
        kinds = "x" if op in UNARY else "bxx" if op in TERNARY else "xx"
        return Call(kinds, lambda *xs: result(UOp.alu(op, *[x.uop for x in xs]), *xs))
    method = _NODES.get(op.name, op.name.lower())
    if method not in _METHODS:
        return Support(False, f"{op.name} stands inside of kernels; no tensor asks for it alone.")
    return _call_of_method(method)


# Nodes that a method of another name makes.
_NODES = {
    "CONST": "full", "IOTA": "arange", "WINDOW": "unfold", "SCAN": "cumsum", "REDUCE": "sum",
    "COPY": "clone", "UNIQUE": "", "STORE": "assign", "AFTER": "assign",
}  # fmt: skip

_HOST = "it gives Python an answer"
_NO_OPERATIONS = {
    **dict.fromkeys(("data", "item", "numpy", "numpy_many", "tolist"), _HOST),
    **dict.fromkeys(("dim", "size", "numel", "element_size", "is_floating_point"), _HOST),
    **dict.fromkeys(("manual_seed", "no_grad", "train", "zero_grad", "dispose"), "it runs nothing"),
    **dict.fromkeys(("is_param_", "requires_grad_"), "it marks a tensor"),
    **dict.fromkeys(("set_logical_policy", "preserve_logical"), "it marks a tensor"),
    **dict.fromkeys(("to", "to_", "cpu", "cuda", "shard_"), "it moves between devices"),
    "from_url": "it fetches a file",
    **dict.fromkeys(("custom_kernel", "sequential"), "what it runs is a function of yours"),
}


def _on(name: str, *arguments: Any, kinds: str = "x", shapes: tuple[Shape, ...] = ()) -> Call:
    """The method with arguments after its tensors."""
    return Call(kinds, lambda *xs: getattr(Tensor, name)(*xs, *arguments), shapes)


def _shaped(name: str, *arguments: Any) -> Call:
    """A static method that makes a tensor of a shape."""
    return Call("x", lambda x: getattr(Tensor, name)(x.shape, *arguments, dtype=x.dtype))


def _indexed(name: str) -> Call:
    """An index tensor beside, along the last axis."""
    return Call("xi", lambda x, i: getattr(x, name)(i, axis=-1))


_IMAGE, _LINE, _VOLUME = (1, 2, 8, 8), (1, 2, 8), (1, 2, 4, 4, 4)
_HEADS = (1, 2, 4, 4)
_CALLS: dict[str, Call] = {
    # a shape, axes or numbers beside the tensor
    **{n: Call("x", lambda x, n=n: getattr(x, n)(x.shape))
       for n in ("reshape", "view", "expand", "broadcast_to", "pad_to", "shrink_to")},
    **{n: Call("x", lambda x, n=n: getattr(x, n)((2,) * x.ndim)) for n in ("repeat", "tile")},
    "permute": Call("x", lambda x: x.permute(*reversed(range(x.ndim)))),
    "flip": Call("x", lambda x: x.flip(*range(x.ndim))),
    "pad": Call("x", lambda x: x.pad([(1, 1)] * x.ndim)),
    "shrink": Call("x", lambda x: x.shrink([(0, max(n - 1, 0)) for n in x.shape])),
    "unflatten": Call("x", lambda x: x.unflatten(0, (x.shape[0], 1))),
    "rearrange": _on("rearrange", "a b -> b a"),
    "repeat_interleave": _on("repeat_interleave", 2),
    "roll": _on("roll", 1),
    "split": _on("split", 1, 0),
    "chunk": _on("chunk", 2, 0),
    "narrow": _on("narrow", 0, 0, 1),
    "select": _on("select", 0, 0),
    "tensor_split": _on("tensor_split", 2),
    "matrix_power": _on("matrix_power", 2),
    "threshold": _on("threshold", 0.5, 0),
    "unbind": _on("unbind", 0),
    "unsqueeze": _on("unsqueeze", 0),
    "unfold": _on("unfold", -1, 2, 1),
    "movedim": _on("movedim", 0, -1),
    "moveaxis": _on("moveaxis", 0, -1),
    "one_hot": Call("i", lambda x: x.one_hot(4)),
    "topk": _on("topk", 1),
    "kthvalue": _on("kthvalue", 1),
    "quantile": _on("quantile", 0.5),
    "group_norm": _on("group_norm", 1),
    "full_like": _on("full_like", 0),
    "const_like": _on("const_like", 0),
    **{n: Call("x", lambda x, n=n: getattr(x, n)(x.dtype)) for n in ("cast", "astype", "bitcast")},
    # tensors made of nothing
    **{n: _shaped(n) for n in
       ("zeros", "ones", "empty", "rand", "randn", "uniform", "normal", "scaled_uniform",
        "glorot_uniform", "kaiming_uniform", "kaiming_normal")},
    "full": _shaped("full", 0),
    **{n: Call("x", lambda x, n=n: getattr(x, n)(x.shape))
       for n in ("new_zeros", "new_ones", "new_empty")},
    "new_full": Call("x", lambda x: x.new_full(x.shape, 0)),
    "new_tensor": Call("x", lambda x: x.new_tensor([0])),
    "randint": Call("x", lambda x: Tensor.randint(x.shape)),
    "eye": Call("x", lambda x: Tensor.eye(4, dtype=x.dtype)),
    "arange": Call("x", lambda x: Tensor.arange(4, dtype=x.dtype)),
    "linspace": Call("x", lambda x: Tensor.linspace(0, 1, 4, dtype=x.dtype)),
    "logspace": Call("x", lambda x: Tensor.logspace(0, 1, 4, dtype=x.dtype)),
    "randperm": Call("x", lambda x: Tensor.randperm(4)),
    "const": Call("x", lambda x: Tensor.const(0, x.dtype)),
    # several tensors
    **{n: Call("xx", lambda *xs, n=n: getattr(xs[0], n)(*xs[1:], axis=0))
       for n in ("cat", "concat", "stack")},
    **{n: Call("xx", lambda *xs, n=n: getattr(Tensor, n)(*xs)) for n in ("vstack", "hstack")},
    "meshgrid": Call("xx", lambda *xs: Tensor.meshgrid(*xs), ((4,), (3,))),
    "einsum": Call("xx", lambda a, b: Tensor.einsum("ij,jk->ik", a, b)),
    "cross": _on("cross", kinds="xx", shapes=((4, 3), (4, 3))),
    "outer": _on("outer", kinds="xx", shapes=((4,), (3,))),
    "bmm": _on("bmm", kinds="xx", shapes=((2, 4, 4), (2, 4, 4))),
    "ger": _on("ger", kinds="xx", shapes=((4,), (3,))),
    "vdot": _on("vdot", kinds="xx", shapes=((4,), (4,))),
    "mv": _on("mv", kinds="xx", shapes=((4, 3), (3,))),
    "addmm": _on("addmm", kinds="xxx"),
    "baddbmm": _on("baddbmm", kinds="xxx", shapes=((2, 4, 4),) * 3),
    **{n: _on(n, kinds="xxx") for n in ("clamp", "clip", "clamp_")},
    "where": _on("where", kinds="bxx"),
    **{n: _on(n, kinds="xbx") for n in ("masked_fill", "masked_fill_")},
    "masked_select": _on("masked_select", kinds="xb"),
    "histogram": Call("x", lambda x: x.histogram(4, (0.0, 1.0))),
    "bincount": Call("n", lambda x: x.bincount()),
    "batchnorm": _on("batchnorm", kinds="xxxxx", shapes=(_IMAGE, (2,), (2,), (2,), (2,))),
    "instance_norm": _on("instance_norm", shapes=(_IMAGE,)),
    "scaled_dot_product_attention": _on(
        "scaled_dot_product_attention", kinds="xxx", shapes=(_HEADS,) * 3
    ),
    # places given by an index tensor
    **{n: _indexed(n) for n in ("take", "take_along_axis")},
    "gather": Call("xi", lambda x, i: x.gather(-1, i)),
    "index_select": Call("xn", lambda x, i: x.index_select(0, i)),
    **{n: Call("xnx", lambda x, i, y, n=n: getattr(x, n)(0, i, y))
       for n in ("index_add", "index_add_", "index_copy")},
    "index_fill": Call("xn", lambda x, i: x.index_fill(0, i, 0)),
    **{n: Call("xnx", lambda x, i, y, n=n: getattr(x, n)((i,), y))
       for n in ("index_put", "index_put_")},
    **{n: Call("xix", lambda x, i, y, n=n: getattr(x, n)(-1, i, y))
       for n in ("scatter", "scatter_", "scatter_add", "scatter_add_")},
    "scatter_reduce": Call("xix", lambda x, i, y: x.scatter_reduce(-1, i, y, "sum")),
    **{n: _on(n, kinds="xn") for n in
       ("cross_entropy", "nll_loss", "sparse_categorical_crossentropy")},
    "ctc_loss": _on("ctc_loss", kinds="xiii", shapes=((4, 2, 3), (2, 2), (2,), (2,))),
    "threefry": Call("x", lambda x: x.threefry(x)),
    # windows
    "conv1d": _on("conv1d", kinds="xx", shapes=(_LINE, (2, 2, 3))),
    "conv2d": _on("conv2d", kinds="xx", shapes=(_IMAGE, (2, 2, 3, 3))),
    "conv3d": _on("conv3d", kinds="xx", shapes=(_VOLUME, (2, 2, 3, 3, 3))),
    "conv_transpose1d": _on("conv_transpose1d", kinds="xx", shapes=(_LINE, (2, 2, 3))),
    "conv_transpose2d": _on("conv_transpose2d", kinds="xx", shapes=(_IMAGE, (2, 2, 3, 3))),
    "conv_transpose3d": _on("conv_transpose3d", kinds="xx", shapes=(_VOLUME, (2, 2, 3, 3, 3))),
    **{f"{kind}_pool{d}d": Call("x", lambda x, n=f"{kind}_pool{d}d", d=d: getattr(x, n)((2,) * d),
                                ((1, 2, *(4,) * d),))
       for kind in ("avg", "max") for d in (1, 2, 3)},
    "max_unpool2d": Call("xi", lambda x, i: x.max_unpool2d(i), ((1, 2, 2, 2), (1, 2, 2, 2))),
    "adaptive_avg_pool2d": Call("x", lambda x: x.adaptive_avg_pool2d(2), (_IMAGE,)),
    "interpolate": Call("x", lambda x: x.interpolate((4, 4)), (_IMAGE,)),
    # gradients
    "gradient": Call("x", lambda x: x.square().sum().gradient(x)),
    "backward": Call("x", lambda x: x.square().sum().gradient(x)),
}  # fmt: skip
