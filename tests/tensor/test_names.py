"""Every public name of the peer library, those that users of numpy and torch look for, and what the
feature table promises of tensors and networks: present here, with the same defaults, or listed with
the reason why not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polygrad
from polygrad import Context, Tensor, dtypes, nn

# Names as its documentation groups them.
NAMES: dict[str, str] = {
    "creation": "arange linspace eye empty full zeros ones zeros_like ones_like full_like rand"
    " randn rand_like randint randperm normal uniform scaled_uniform glorot_uniform kaiming_uniform"
    " kaiming_normal const const_like invalids from_url manual_seed meshgrid one_hot",
    "casts": "cast bitcast bool short int long half bfloat16 float double is_floating_point"
    " element_size dtype",
    "unary": "abs neg sign square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos"
    " tan asin acos atan sinh cosh tanh asinh acosh atanh erf ceil floor round trunc isnan isinf"
    " isfinite logical_not bitwise_not",
    "activations": "relu relu6 leaky_relu elu celu selu gelu quick_gelu silu swish mish sigmoid"
    " hardsigmoid hardswish hardtanh softplus softsign logsigmoid softmax log_softmax softmin",
    "binary": "add sub mul div mod fmod pow maximum minimum copysign lerp logaddexp lshift rshift"
    " bitwise_and bitwise_or bitwise_xor eq ne isclose where masked_fill clamp clip threefry",
    "reductions": "sum prod mean max min all any argmax argmin var std std_mean logsumexp cumsum"
    " cumprod cummax cummin logcumsumexp normalize sort argsort topk",
    "movement": "reshape view permute transpose T expand squeeze unsqueeze flatten unflatten shrink"
    " shrink_to pad pad_to flip roll repeat repeat_interleave cat stack split chunk diag diagonal"
    " unfold tril triu rearrange einsum contiguous contiguous_backward",
    "indices": "__getitem__ __setitem__ gather scatter scatter_reduce take_along_axis",
    "networks": "linear conv2d conv_transpose2d avg_pool2d max_pool2d max_unpool2d interpolate"
    " batchnorm layernorm dropout scaled_dot_product_attention sequential",
    "losses": "cross_entropy sparse_categorical_crossentropy binary_crossentropy"
    " binary_crossentropy_logits nll_loss mse_loss l1_loss huber_loss smooth_l1_loss kl_div"
    " pinball_loss ctc_loss",
    "linear algebra": "matmul dot qr cholesky cholesky_solve solve solve_triangular"
    " triangular_solve lstsq",
    "gradients": "backward gradient grad detach is_param is_param_",
    "state": "realize numpy numpy_many item tolist data assign replace copy_from update_from clone"
    " to to_ cpu cuda device shard_ dispose",
    "graph": "uop uop_logical uop_physical logical_policy logical_state preserve_logical"
    " set_logical_policy max_shape max_numel custom_kernel",
    # what users of numpy and torch look for, and the peer lacks
    "decompositions": "svd inv det slogdet eigh pinv",
    "products": "norm matrix_norm outer kron bmm tensordot cross trace addmm cdist cov corrcoef",
    "selection": "unique nonzero masked_select searchsorted argwhere isin index_select index_add"
    " index_put scatter_add count_nonzero",
    "statistics": "bincount histogram quantile median kthvalue multinomial bernoulli sample_logits",
    "shapes": "vstack hstack tile movedim swapaxes unbind narrow rot90 broadcast_to diff",
    "layers": "conv1d conv3d conv_transpose1d conv_transpose3d rms_norm group_norm instance_norm",
    "numbers": "atan2 hypot nan_to_num allclose signbit nextafter logspace",
    "special functions": "erf erfc erfinv ndtri log_ndtr ndtri_exp log_erfcx digamma lgamma",
}

MISSING: dict[str, str] = {}
_LISTED = [name for names in NAMES.values() for name in names.split()]


@pytest.mark.parametrize("name", _LISTED)
def test_name_is_here_or_its_absence_has_a_reason(name: str) -> None:
    if not hasattr(Tensor, name):
        assert name in MISSING


def test_no_reason_is_for_a_name_that_is_here() -> None:
    assert set(MISSING) <= set(_LISTED)
    assert [name for name in MISSING if hasattr(Tensor, name)] == []


@pytest.mark.parametrize("name", [n for n in _LISTED if n not in MISSING])
def test_method_says_what_it_does(name: str) -> None:
    if name not in ("uop", "grad") and not name.startswith("__"):  # slots, and Python's own
        assert (getattr(Tensor, name).__doc__ or "").strip()


# Where values are compared with numpy, scipy, mpmath or torch.
ORACLES = "\n".join(
    path.read_text()
    for folder in ("tensor", "peers", "numerics", "gradient", "files")
    for path in sorted((Path(__file__).parents[1] / folder).glob("*.py"))
    if path.name != Path(__file__).name
)
NO_VALUES = {"cuda": "another machine"}


@pytest.mark.parametrize(
    "name", sorted({n for cls in Tensor.__mro__[:-1] for n in vars(cls) if n[0] != "_"})
)
def test_a_public_name_occurs_where_values_are_compared(name: str) -> None:
    assert name in NO_VALUES or re.search(rf"\b{name}\b", ORACLES)


# ---- defaults: the short call is the long one

DEFAULTS = [
    ("Tensor.arange(4)", "Tensor.arange(0, 4, 1)"),
    ("Tensor.eye(3)", "Tensor.eye(3, 3)"),
    ("Tensor.randint(50)", "Tensor.randint(50, low=0, high=10, dtype='int32')"),
    ("Tensor.normal(9)", "Tensor.normal(9, mean=0, std=1)"),
    ("Tensor.uniform(9)", "Tensor.uniform(9, low=0, high=1)"),
    ("Tensor.kaiming_uniform(4, 4)", "Tensor.kaiming_uniform(4, 4, a=0.01)"),
    ("Tensor.kaiming_normal(4, 4)", "Tensor.kaiming_normal(4, 4, a=0.01)"),
    ("Tensor.randperm(9)", "Tensor.randperm(9, dtype='int32')"),
    ("Tensor.meshgrid(v, v)[0]", "Tensor.meshgrid(v, v, indexing='ij')[0]"),
    ("Tensor.zeros(2, 3)", "Tensor.zeros([2, 3])"),
    ("x.isinf()", "x.isinf(detect_positive=True, detect_negative=True)"),
    ("x.leaky_relu()", "x.leaky_relu(0.01)"),
    ("x.elu()", "x.elu(1.0)"),
    ("x.celu()", "x.celu(1.0)"),
    ("x.gelu()", "x.gelu(approximate='tanh')"),
    ("x.hardtanh()", "x.hardtanh(-1, 1)"),
    ("x.softplus()", "x.softplus(beta=1)"),
    ("x.softmax()", "x.softmax(axis=-1)"),
    ("x.log_softmax()", "x.log_softmax(axis=-1)"),
    ("x.softmin()", "x.softmin(axis=-1)"),
    ("x.isclose(y)", "x.isclose(y, rtol=1e-5, atol=1e-8, equal_nan=False)"),
    ("x.var()", "x.var(correction=1)"),
    ("x.std()", "x.std(correction=1)"),
    ("x.std_mean()[0]", "x.std_mean(correction=1)[0]"),
    ("x.cumsum()", "x.cumsum(axis=0)"),
    ("x.cumprod()", "x.cumprod(axis=0)"),
    ("x.cummax()[1]", "x.cummax(axis=0)[1]"),
    ("x.logcumsumexp()", "x.logcumsumexp(axis=0)"),
    ("x.normalize()", "x.normalize(p=2, dim=1, eps=1e-12)"),
    ("x.sort()[0]", "x.sort(dim=-1, descending=False)[0]"),
    ("x.argsort()", "x.argsort(dim=-1, descending=False)"),
    ("x.topk(2)[0]", "x.topk(2, dim=-1, largest=True, sorted_=True)[0]"),
    ("x.transpose()", "x.transpose(-2, -1)"),
    ("x.pad((1, 1))", "x.pad((1, 1), mode='constant', value=0)"),
    ("x.repeat_interleave(2)", "x.ravel().repeat_interleave(2, 0)"),
    ("x.cat(y)", "x.cat(y, dim=0)"),
    ("x.stack(y)", "x.stack(y, dim=0)"),
    ("x.split(2)[1]", "x.split(2, dim=0)[1]"),
    ("x.diag()", "x.diag(0)"),
    ("x.tril()", "x.tril(diagonal=0)"),
    ("x.triu()", "x.triu(diagonal=0)"),
    ("x.scatter(0, i, y)", "x.scatter(0, i, y, reduce=None)"),
    ("x.scatter_reduce(0, i, y, 'sum')", "x.scatter_reduce(0, i, y, 'sum', include_self=True)"),
    ("c.conv2d(w)", "c.conv2d(w, None, groups=1, stride=1, dilation=1, padding=0)"),
    ("c.conv_transpose2d(w)", "c.conv_transpose2d(w, None, 1, 1, 1, 0, output_padding=0)"),
    (
        "c.avg_pool2d()",
        "c.avg_pool2d((2, 2), None, 1, 0, ceil_mode=False, count_include_pad=True)",
    ),
    ("c.max_pool2d()", "c.max_pool2d((2, 2), None, 1, 0, False, return_indices=False)"),
    ("c.interpolate((3, 3))", "c.interpolate((3, 3), mode='linear', align_corners=False)"),
    ("x.layernorm()", "x.layernorm(axis=-1, eps=1e-5)"),
    (
        "x.scaled_dot_product_attention(x, x)",
        "x.scaled_dot_product_attention(x, x, attn_mask=None, dropout_p=0.0, is_causal=False)",
    ),
    ("x.cross_entropy(n)", "x.cross_entropy(n, reduction='mean', label_smoothing=0, axis=1)"),
    (
        "x.sparse_categorical_crossentropy(n)",
        "x.sparse_categorical_crossentropy(n, ignore_index=-1, label_smoothing=0.0)",
    ),
    ("x.nll_loss(n)", "x.nll_loss(n, None, ignore_index=-100, reduction='mean')"),
    ("x.binary_crossentropy_logits(p)", "x.binary_crossentropy_logits(p, 'mean', None)"),
    ("s.cholesky()", "s.cholesky(upper=False)"),
    (
        "s.triangular_solve(v)",
        "s.triangular_solve(v, upper=False, transpose_a=False, unit_diagonal=False)",
    ),
    ("x.matmul(s)", "x.dot(s)"),
    ("x.diagonal()", "x.diagonal(0, 0, 1)"),
    ("x.div(y)", "x.div(y, rounding_mode=None)"),
    ("x.unfold(0, 2)", "x.unfold(0, 2, 1)"),
    ("x.sample_logits()", "x.sample_logits(temperature=1, top_k=0, keepdim=False)"),
    ("x.argmax()", "x.ravel().argmax(0)"),
    ("x.full_like(3)", "x.full_like(3, dtype=None, device=None, buffer=True)"),
    ("x.full_like(3)", "x.full_like(3, buffer=False)"),
]


@pytest.mark.parametrize(("short", "long"), DEFAULTS, ids=[short for short, _ in DEFAULTS])
def test_a_default_is_the_one_documented(short: str, long: str) -> None:
    rng = np.random.default_rng(0)
    drawn: Any = {
        name: Tensor(rng.normal(size=shape).astype(np.float32))
        for name, shape in {"x": (3, 3), "y": (3, 3), "v": (3,), "c": (1, 2, 5, 5)}.items()
    }
    drawn["w"] = Tensor(rng.normal(size=(2, 2, 3, 3)).astype(np.float32))
    drawn["s"] = drawn["x"] @ drawn["x"].T + Tensor.eye(3)
    drawn["i"], drawn["n"] = Tensor([[0, 1, 2]] * 3), Tensor([0, 2, 1])
    drawn["p"] = drawn["y"].sigmoid()
    results = []
    for call in (short, long):
        Tensor.manual_seed(7)
        results.append(eval(call, {"Tensor": Tensor, **drawn}))
    a, b = results
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    np.testing.assert_array_equal(a.numpy(), b.numpy())


# ---- networks, and the top of the library

OTHERS = {
    nn: "BatchNorm BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d"
    " Dropout Embedding GroupNorm InstanceNorm LSTMCell LayerNorm LayerNorm2d Linear RMSNorm LSTM"
    " GRU GRUCell MultiheadAttention get_parameters get_state_dict load_state_dict safe_load"
    " safe_save safe_load_metadata clip_grad_norm_ gated_delta_rule datasets init lr optim state",
    nn.optim: "SGD Adam AdamW LAMB LARS Muon OptimizerGroup",
    nn.lr: "constant linear_decay cosine_decay warmup resolve resolve_lr LR_Scheduler"
    " LRSchedulerGroup OneCycleLR",
    nn.init: "randn kaiming literal zeros ones param",
    nn.state: "safe_load safe_save safe_load_metadata zip_extract tar_extract TensorIO",
    nn.datasets: "mnist cifar",
    polygrad: "Tensor Model Variable Context Device UOp compile jit dtypes nn fetch function create"
    " Runtime stats GlobalCounters can_run clear_schedule_cache collect getenv associative_scan",
}
ABSENT = {
    "torch_load": "a reader of checkpoint files: part of polygrad-formats",
    "extra": "a top-level package of that name would be a trap for others: see nn.lr",
    "qr(mode='complete')": "the default is numpy's and torch's, 'reduced'",
}


@pytest.mark.parametrize(
    ("module", "name"), [(m, name) for m, names in OTHERS.items() for name in names.split()]
)
def test_a_network_name_is_here(module: Any, name: str) -> None:
    assert getattr(module, name).__doc__


OPTIMIZERS = {
    "SGD": {"lr": 0.001, "momentum": 0, "weight_decay": 0, "nesterov": False, "classic": False},
    "Adam": {"lr": 0.001, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0},
    "AdamW": {"lr": 0.001, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0.01},
    "LAMB": {"lr": 0.001, "b1": 0.9, "b2": 0.999, "eps": 1e-6, "weight_decay": 0},
    "LARS": {"lr": 0.001, "momentum": 0.9, "weight_decay": 1e-4, "tcoef": 0.001},
    "Muon": {"lr": 0.001, "momentum": 0.95, "weight_decay": 0.1, "ns_steps": 5, "nesterov": True},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_the_documented_defaults(name: str) -> None:
    made = getattr(nn.optim, name)([Tensor.ones(2, 2, requires_grad=True)])
    wanted = dict(OPTIMIZERS[name])
    assert made.schedule == wanted.pop("lr")
    assert {k: made.config[k] for k in wanted} == wanted
    assert inspect.signature(type(made)).parameters["fused"].default is False


# ---- the feature table, row by row: an expression and what it gives

ROWS: list[tuple[str, str, Any]] = [
    ("F009", "Tensor([1.0, 2.0]).dtype.name, Tensor([1, 2, 3]).dtype.name", ("float32", "int32")),
    ("F010", "Tensor([1.0], dtype='int32').dtype.name", "int32"),
    ("F011", "Tensor(np.zeros(2, np.uint16)).dtype.name", "uint16"),
    ("F012", "Tensor([1.0], dtype='float16', device='interp', is_param=True).is_param", True),
    ("F013", "Tensor(np.arange(4.0)).reshape(2, 2).tolist()", [[0.0, 1.0], [2.0, 3.0]]),
    ("F014", "Tensor.zeros(2, 3).shape, Tensor.ones([2, 3]).shape", ((2, 3), (2, 3))),
    ("F015", "Tensor.full((2,), 3.5).tolist()", [3.5, 3.5]),
    ("F016", "Tensor.rand(3, 4).shape, Tensor.randn(2, 3).shape", ((3, 4), (2, 3))),
    ("F017", "Tensor.eye(2).tolist()", [[1.0, 0.0], [0.0, 1.0]]),
    ("F018", "Tensor.arange(3).tolist(), Tensor.arange(1, 3).tolist()", ([0, 1, 2], [1, 2])),
    ("F019", "Tensor.empty((4,), dtype='float32').shape, Tensor.empty(5).shape", ((4,), (5,))),
    ("F020", "Tensor([1], dtype='float16').dtype is dtypes.float16", True),
    ("F021", "Tensor.kaiming_uniform((3, 4), a=0.01).shape", (3, 4)),
    ("F022", "Tensor([1.0]).is_param_(False).is_param", False),
    ("F023", "Tensor.manual_seed(42)", None),
    ("F024", "(2 * Tensor([1.0]) / 4 - 1).tolist()", [-0.5]),
    ("F025", "Tensor([7]).div(2, rounding_mode='floor').tolist()", [3]),
    ("F025", "Tensor([7]).sub(10, reverse=True).tolist(), Tensor([7]).mod(4).tolist()", ([3], [3])),
    ("F026", "Tensor([4.0]).sqrt().square().neg().tolist()", [-4.0]),
    ("F027", "Tensor([[1.0, 1.0]]).softmax(-1).tolist()", [[0.5, 0.5]]),
    ("F028", "(Tensor([6]).bitwise_and(3).item(), Tensor([1]).lshift(3).item())", (2, 8)),
    ("F036", "Tensor([[1, 2]]).sum(axis=1, keepdim=True).shape, Tensor([1.0]).max().shape",
     ((1, 1), ())),
    ("F037", "Tensor([3, 1, 2]).argsort().tolist(), Tensor([1.0, 3.0]).var().item()",
     ([1, 2, 0], 2.0)),
    ("F038", "Tensor([0.0, 99.0]).sample_logits(temperature=1, top_k=0).item()", 1),
    ("F039", "Tensor.ones(2, 6).permute(1, 0).reshape(3, 4).shape", (3, 4)),
    ("F040", "Tensor.ones(2, 3).flatten().numel()", 6),
    ("F041", "Tensor.arange(12).reshape(3, 4).gather(1, Tensor([[0, 1]] * 3)).tolist()",
     [[0, 1], [4, 5], [8, 9]]),
    ("F042", "Tensor.zeros(3).scatter(0, Tensor([1]), Tensor([5.0])).tolist()", [0.0, 5.0, 0.0]),
    ("F043", "(Tensor([[1.0, 2.0]]) @ Tensor([3.0, 4.0])).tolist()", [11.0]),
    ("F051", "nn.Linear(4, 1)(Tensor.ones(2, 4)).shape", (2, 1)),
    ("F052", "len(nn.get_parameters(nn.Linear(4, 1))), list(nn.get_state_dict(nn.Linear(4, 1)))",
     (2, ["weight", "bias"])),
    ("F053", "[hasattr(nn.optim.SGD, n) for n in ('step', 'zero_grad')]", [True, True]),
    ("F054", "callable(nn.Linear(4, 1))", True),
    ("F056", "Tensor.training", False),
    ("F058", "[t.shape for t in nn.gated_delta_rule(*[Tensor.ones(1, 2, 3, 4)] * 3,"
     " *[Tensor.zeros(1, 2, 3)] * 2)]", [(1, 2, 3, 4), (1, 2, 4, 4)]),
    ("F059", "Tensor([1.0, 2.0]).add(1).realize().tolist()", [2.0, 3.0]),
    ("F060", "Tensor([[2]]).item(), Tensor([[2]]).tolist(), Tensor([2]).numpy().dtype.name",
     (2, [[2]], "int32")),
    ("F061", "list(Tensor([1, 2]).data())", [1, 2]),
    ("F063", "[a.tolist() for a in Tensor.numpy_many(Tensor([1]), Tensor([2.0]))]", [[1], [2.0]]),
    ("F065", "Tensor([1.0]).to('interp').device", "interp"),
    ("F226", "[nn.lr.resolve(s, 2) for s in (0.5, {'kind': 'constant', 'value': 0.25})]",
     [0.5, 0.25]),
    ("F227", "nn.lr.warmup(0.1, 4, nn.lr.linear_decay(0.1, 0.0, 8))['kind']", "warmup"),
    ("F228", "nn.lr.resolve_lr(nn.lr.linear_decay(1.0, 0.0, 4), 1)", 0.75),
    ("F229", "nn.optim.make('adamw', decay_filter=str.isupper).decays('W', False)", True),
    ("F230", "nn.init.Init('zeros')((2,)).tolist(), nn.init.randn().value", ([0.0, 0.0], 0.02)),
    ("F232", "[nn.init.decays(nn.init.param((2,), i)) for i in ('randn', 'zeros', 'ones')]",
     [True, False, False]),
    ("F231", "nn.init.literal([1.0, 2.0])((2,)).tolist(), nn.init.kaiming().kind",
     ([1.0, 2.0], "kaiming")),
]  # fmt: skip


@pytest.mark.parametrize(("row", "code", "wanted"), ROWS, ids=[f"{r} {c}" for r, c, _ in ROWS])
def test_a_row_of_the_feature_table_holds(row: str, code: str, wanted: Any) -> None:
    names = {"Tensor": Tensor, "nn": nn, "np": np, "dtypes": dtypes}
    assert eval(code, names) == wanted


def test_a_compiled_replay_reads_what_was_written_into_its_argument() -> None:
    """F064."""
    x = Tensor([1.0, 2.0]).realize()
    double = polygrad.compile(lambda t: (t * 2).realize(), [x])
    x.copy_from(np.array([3.0, 4.0], np.float32))
    assert double.run([x]).tolist() == [6.0, 8.0]
    x.update_from([5.0, 6.0])
    assert double.run([x]).tolist() == [10.0, 12.0]


def test_training_is_a_scope() -> None:
    """F055, F056."""
    with Context(TRAINING=1):
        assert Tensor.training
    assert not Tensor.training
    with pytest.raises(polygrad.PolygradError, match="no argument 'logical'"):
        Tensor([1.0], logical=True)  # type: ignore[call-arg]
