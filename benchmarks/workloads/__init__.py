"""Every workload by name; making one makes no arrays yet where those are large."""

from __future__ import annotations

from collections.abc import Callable

from . import functions, training, transformer
from .common import Goal, Workload

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "matmul256": lambda: functions.matmul(256, 1.1),
    "matmul512": lambda: functions.matmul(512, 1.05),
    "matmul1024": lambda: functions.matmul(1024, 1.0),
    "matmul2048": lambda: functions.matmul(2048, 1.05),
    "matmul1024_float16": lambda: functions.matmul_of_halves(1024, "float16"),
    "matmul1024_bfloat16": lambda: functions.matmul_of_halves(1024, "bfloat16"),
    "bmm256x64": functions.batched,
    "softmax4096": functions.softmax,
    "layernorm4096x1024": functions.layer_norm,
    "geluchain16M": functions.gelu_chain,
    "sum_full": lambda: functions.total(None, 1.0),
    "sum_ax0": lambda: functions.total(0, 2.5),
    "sum_ax1": lambda: functions.total(1, 1.0),
    "cumsum1000x4096": functions.running_total,
    "sort64x4096": functions.ordering,
    "conv2d": functions.convolution,
    "conv2d_to_images": lambda: functions.convolution_gradient(0),
    "conv2d_to_filters": lambda: functions.convolution_gradient(1),
    "conv2d_depthwise": lambda: functions.convolution(groups=64),
    "attention": functions.attention,
    "attention_float16": lambda: functions.attention_of_halves("float16"),
    "attention_bfloat16": lambda: functions.attention_of_halves("bfloat16"),
    "attention_training": functions.attention_training,
    "mlp_b32": lambda: training.perceptron((784, 512, 512, 10), 32, True, Goal(1.5, 0.7)),
    "mlp_b256": lambda: training.perceptron((784, 512, 512, 10), 256, True, Goal(1.1, 0.85)),
    "tinymlp_b32": lambda: training.perceptron((10, 32, 1), 32, False, Goal(2.0)),
    "tabm": training.tabm,
    "gpt2_decode": lambda: transformer.decoder(transformer.SMALL, 1, Goal(1.2, 0.5)),
    "gpt2_prefill64": lambda: transformer.decoder(transformer.SMALL, 64, Goal(1.3, 0.6)),
    "gpt2mini_decode": lambda: transformer.decoder(transformer.MINI, 1),
}
