"""Every public Tensor name of the peer library, and those that users of numpy and torch look for:
present here, or listed with the reason why not."""

from __future__ import annotations

import pytest

from polygrad import Tensor

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
    "products": "norm outer kron bmm tensordot cross trace addmm cdist cov corrcoef",
    "selection": "unique nonzero masked_select searchsorted argwhere isin index_select index_add"
    " index_put scatter_add count_nonzero",
    "statistics": "bincount histogram quantile median kthvalue multinomial bernoulli sample_logits",
    "shapes": "vstack hstack tile movedim swapaxes unbind narrow rot90 broadcast_to diff",
    "layers": "conv1d conv3d conv_transpose1d conv_transpose3d rms_norm group_norm instance_norm",
    "numbers": "atan2 hypot nan_to_num allclose signbit nextafter logspace",
    "special functions": "erf erfc erfinv ndtri log_ndtr ndtri_exp log_erfcx digamma lgamma",
}

_CONCRETE = "the shape of a tensor is made of numbers, so `shape` and `numel()` say it"
MISSING: dict[str, str] = {
    "invalids": "an undefined element is a wrong number waiting to be read; use empty or full",
    "from_url": "a tensor library that opens connections is a surprise; read the bytes, give them",
    "shard_": "a tensor is on one device",
    "max_shape": _CONCRETE,
    "max_numel": _CONCRETE,
}
_LISTED = [name for names in NAMES.values() for name in names.split()]


@pytest.mark.parametrize("name", _LISTED)
def test_name_is_here_or_its_absence_has_a_reason(name: str) -> None:
    assert hasattr(Tensor, name) != (name in MISSING), MISSING.get(name, "missing")


def test_every_reason_is_for_a_listed_name() -> None:
    assert set(MISSING) <= set(_LISTED)


@pytest.mark.parametrize("name", [n for n in _LISTED if n not in MISSING])
def test_method_says_what_it_does(name: str) -> None:
    if name not in ("uop", "grad") and not name.startswith("__"):  # slots, and Python's own
        assert (getattr(Tensor, name).__doc__ or "").strip()
