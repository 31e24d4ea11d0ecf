"""Neural-network building blocks: layers, optimizers, initial values, state by name, rate
schedules.

A layer is an object that is called; its parameters are Tensor attributes with torch's names and
shapes. There is no base class to inherit from: any object, list or dict that holds Tensors is a
model, and `get_state_dict` names what it finds by the path of attributes to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from . import datasets as datasets
    from . import init as init
    from . import lr as lr
    from . import optim as optim
    from . import state as state
    from .attention import MultiheadAttention as MultiheadAttention
    from .attention import gated_delta_rule as gated_delta_rule
    from .conv import Conv1d as Conv1d
    from .conv import Conv2d as Conv2d
    from .conv import Conv3d as Conv3d
    from .conv import ConvTranspose1d as ConvTranspose1d
    from .conv import ConvTranspose2d as ConvTranspose2d
    from .conv import ConvTranspose3d as ConvTranspose3d
    from .layers import Dropout as Dropout
    from .layers import Embedding as Embedding
    from .layers import Linear as Linear
    from .layers import Sequential as Sequential
    from .norm import BatchNorm as BatchNorm
    from .norm import BatchNorm1d as BatchNorm1d
    from .norm import BatchNorm2d as BatchNorm2d
    from .norm import BatchNorm3d as BatchNorm3d
    from .norm import GroupNorm as GroupNorm
    from .norm import InstanceNorm as InstanceNorm
    from .norm import LayerNorm as LayerNorm
    from .norm import LayerNorm2d as LayerNorm2d
    from .norm import RMSNorm as RMSNorm
    from .optim import clip_grad_norm_ as clip_grad_norm_
    from .recurrent import GRU as GRU
    from .recurrent import LSTM as LSTM
    from .recurrent import GRUCell as GRUCell
    from .recurrent import LSTMCell as LSTMCell
    from .state import get_parameters as get_parameters
    from .state import get_state_dict as get_state_dict
    from .state import load_state_dict as load_state_dict
    from .state import safe_load as safe_load
    from .state import safe_load_metadata as safe_load_metadata
    from .state import safe_save as safe_save

# public name -> module; "" where the name is the module itself
_NAMES = {
    "BatchNorm": "norm",
    "BatchNorm1d": "norm",
    "BatchNorm2d": "norm",
    "BatchNorm3d": "norm",
    "Conv1d": "conv",
    "Conv2d": "conv",
    "Conv3d": "conv",
    "ConvTranspose1d": "conv",
    "ConvTranspose2d": "conv",
    "ConvTranspose3d": "conv",
    "Dropout": "layers",
    "Embedding": "layers",
    "GRU": "recurrent",
    "GRUCell": "recurrent",
    "GroupNorm": "norm",
    "InstanceNorm": "norm",
    "LSTM": "recurrent",
    "LSTMCell": "recurrent",
    "LayerNorm": "norm",
    "LayerNorm2d": "norm",
    "Linear": "layers",
    "MultiheadAttention": "attention",
    "RMSNorm": "norm",
    "Sequential": "layers",
    "clip_grad_norm_": "optim",
    "datasets": "",
    "gated_delta_rule": "attention",
    "get_parameters": "state",
    "get_state_dict": "state",
    "init": "",
    "load_state_dict": "state",
    "lr": "",
    "optim": "",
    "safe_load": "state",
    "safe_load_metadata": "state",
    "safe_save": "state",
    "state": "",
}
__all__ = sorted(_NAMES)
__getattr__ = lazily(__name__, _NAMES)
