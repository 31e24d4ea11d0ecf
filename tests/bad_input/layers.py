"""Mistakes with layers, optimizers and their state."""

from __future__ import annotations

from polygrad.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    ShapeError,
    StateError,
    UnknownName,
)

from .mistake import Chapter, Mistake

PRELUDE = """\
layer = nn.Linear(2, 3)
sgd = nn.optim.SGD(nn.get_parameters(layer), lr=0.1)
"""

MISTAKES = (
    Mistake(
        "a layer for other inputs",
        "layer(Tensor.ones(1, 4))",
        ShapeError,
        'Linear "layer" takes (..., 2), got (1, 4).',
        "layer(Tensor.ones(1, 2))",
    ),
    Mistake(
        "a layer for no tensor",
        "layer(None)",
        ArgumentError,
        "Linear: x is a tensor, not None.",
        "layer(Tensor.ones(1, 2))",
    ),
    Mistake(
        "a misspelt argument of a layer",
        "nn.Linear(2, 3, bais=False)",
        ArgumentError,
        "Linear: no argument 'bais'. Did you mean 'bias'? It takes: in_features, out_features,"
        " bias=True, dtype=dtypes.float32.",
        "nn.Linear(2, 3, bias=False)",
    ),
    Mistake(
        "a size that is no number",
        'nn.Linear("2", 3)',
        ArgumentError,
        "Linear: in_features is an integer, not '2'.",
        "nn.Linear(2, 3)",
    ),
    Mistake(
        "more layers than anybody means",
        "nn.LSTM(3, 4, num_layers=10**30)",
        ArgumentError,
        "LSTM: num_layers is at most 10000, not 1000000000000000000000000000000.",
        "nn.LSTM(3, 4, num_layers=2)",
    ),
    Mistake(
        "an init that there is not",
        'nn.init.param((3, 4), "kaimng")',
        UnknownName,
        "no initial value named 'kaimng'. Did you mean 'kaiming'? Valid: zeros, ones, randn,"
        " uniform, kaiming, kaiming_uniform, literal.",
        'nn.init.param((3, 4), "kaiming")',
    ),
    Mistake(
        "a decay_filter without names",
        "nn.optim.AdamW(nn.get_parameters(layer), decay_filter=lambda name: name != 'bias')",
        ArgumentError,
        "adamw: decay_filter asks for names; give the parameters with theirs, as"
        " nn.get_state_dict(net).",
        "nn.optim.AdamW(nn.get_state_dict(layer), decay_filter=lambda name: name != 'bias')",
    ),
    Mistake(
        "a convolution for other channels",
        """\
conv = nn.Conv2d(2, 3, 3)
conv(Tensor.ones(1, 4, 8, 8))
""",
        ShapeError,
        'Conv2d "conv" takes (N, 2, H, W), got (1, 4, 8, 8).',
        "conv(Tensor.ones(1, 2, 8, 8))",
    ),
    Mistake(
        "a window of 0",
        "nn.Conv2d(2, 3, 0)",
        ArgumentError,
        "Conv2d: kernel_size is a whole number of 1 or more, or 2 of them, not 0.",
        "nn.Conv2d(2, 3, 1)",
    ),
    Mistake(
        "groups that do not divide",
        "nn.Conv2d(2, 3, 3, groups=2)",
        ArgumentError,
        "Conv2d: groups=2 must divide in_channels=2 and out_channels=3.",
        "nn.Conv2d(2, 4, 3, groups=2)",
    ),
    Mistake(
        "BatchNorm for other channels",
        "nn.BatchNorm(3)(Tensor.ones(2, 4))",
        ShapeError,
        "BatchNorm(3) takes (N, 3, ...), got (2, 4).",
        "nn.BatchNorm(4)(Tensor.ones(2, 4))",
    ),
    Mistake(
        "LayerNorm for another width",
        "nn.LayerNorm(3)(Tensor.ones(2, 4))",
        ShapeError,
        "LayerNorm(3) takes (..., 3), got (2, 4).",
        "nn.LayerNorm(4)(Tensor.ones(2, 4))",
    ),
    Mistake(
        "RMSNorm for another width",
        "nn.RMSNorm(3)(Tensor.ones(2, 4))",
        ShapeError,
        "RMSNorm(3) takes (..., 3), got (2, 4).",
        "nn.RMSNorm(4)(Tensor.ones(2, 4))",
    ),
    Mistake(
        "images for a layer of vectors",
        """\
class Net:
    def __init__(self):
        self.fc1 = nn.Linear(784, 10)

    def __call__(self, x):
        return self.fc1(x)
net, images = Net(), Tensor.ones(2, 28, 28)
net(images)
""",
        ShapeError,
        'Linear "fc1" takes (..., 784), got (2, 28, 28). x.flatten(1) is (2, 784).',
        "net(images.flatten(1))",
    ),
    Mistake(
        "channels last",
        """\
net, images = nn.Sequential(nn.Conv2d(3, 4, 3), Tensor.relu), Tensor.ones(2, 8, 8, 3)
net(images)
""",
        ShapeError,
        'Conv2d "net.0" takes (N, 3, H, W), got (2, 8, 8, 3). x.movedim(-1, 1) is (2, 3, 8, 8).',
        "net(images.movedim(-1, 1))",
    ),
    Mistake(
        "one image, no batch",
        """\
image, net = Tensor.ones(3, 8, 8), nn.Sequential(nn.Conv2d(3, 4, 3))
net(image)
""",
        ShapeError,
        'Conv2d "net.0" takes (N, 3, H, W), got (3, 8, 8). x.unsqueeze(0) is (1, 3, 8, 8).',
        "net(image.unsqueeze(0))",
    ),
    Mistake(
        "a sequence of another width",
        """\
lstm = nn.LSTM(3, 4)
lstm(Tensor.ones(5, 2, 4))
""",
        ShapeError,
        'LSTM "lstm" takes (T, N, 3), got (5, 2, 4).',
        "lstm(Tensor.ones(5, 2, 3))",
    ),
    Mistake(
        "a state of another width",
        """\
cell = nn.GRUCell(3, 4)
cell(Tensor.ones(2, 3), Tensor.zeros(2, 5))
""",
        ShapeError,
        'GRUCell "cell" takes a state of (2, 4), got (2, 5).',
        "cell(Tensor.ones(2, 3), Tensor.zeros(2, 4))",
    ),
    Mistake(
        "heads that do not divide",
        "nn.MultiheadAttention(6, 4)",
        ArgumentError,
        "MultiheadAttention: num_heads=4 must divide embed_dim=6.",
        "nn.MultiheadAttention(6, 3)",
    ),
    Mistake(
        "a mask for other positions",
        """\
attention, x = nn.MultiheadAttention(6, 3), Tensor.ones(4, 2, 6)
attention(x, attn_mask=Tensor.zeros(4, 5))
""",
        ShapeError,
        'MultiheadAttention "attention" takes an attn_mask of (..., 4, 4), got (4, 5).',
        "attention(x, attn_mask=Tensor.zeros(4, 4))",
    ),
    Mistake(
        "GroupNorm",
        "nn.GroupNorm(2, 3)",
        ArgumentError,
        "GroupNorm: num_groups=2 must divide num_channels=3.",
        "nn.GroupNorm(2, 4)",
    ),
    Mistake(
        "Embedding of floats",
        """\
embedding = nn.Embedding(10, 4)
embedding(Tensor([1.5]))
""",
        DTypeError,
        'Embedding "embedding" takes integer indices, got float32.',
        "embedding(Tensor([1]))",
    ),
    Mistake(
        "Dropout",
        "nn.Dropout(2)",
        ArgumentError,
        "Dropout takes a probability from 0 to 1, got 2.",
        "nn.Dropout(0.2)",
    ),
    Mistake(
        "an initial value that is not there",
        'nn.init.Init("zeors")((2,))',
        UnknownName,
        "no initial value named 'zeors'. Did you mean 'zeros'? Valid: zeros, ones, randn,"
        " uniform, kaiming, kaiming_uniform, literal.",
        'nn.init.Init("zeros")((2,))',
    ),
    Mistake(
        "an optimizer without parameters",
        "nn.optim.SGD([])",
        ArgumentError,
        "sgd got no parameter that takes a gradient.",
        "nn.optim.SGD([layer.weight])",
    ),
    Mistake(
        "an optimizer of integers",
        "nn.optim.SGD([Tensor([1])])",
        ArgumentError,
        "sgd cannot train a tensor of int32.",
        "nn.optim.SGD([Tensor([1.0])])",
    ),
    Mistake(
        "an optimizer of no tensors",
        "nn.optim.SGD([1.0])",
        ArgumentError,
        "sgd takes Tensors as parameters, not 1.0.",
        "nn.optim.SGD([Tensor([1.0])])",
    ),
    Mistake(
        "a misspelt option",
        "nn.optim.SGD([layer.weight], momentun=0.9)",
        ArgumentError,
        "SGD: no argument 'momentun'. Did you mean 'momentum'? It takes: params=None, lr=0.001,"
        " momentum=0.0, weight_decay=0.0, nesterov=False, classic=False, decay_filter=None,"
        " fused=False.",
        "nn.optim.SGD([layer.weight], momentum=0.9)",
    ),
    Mistake(
        "a negative momentum",
        "nn.optim.SGD([layer.weight], momentum=-1)",
        ArgumentError,
        "sgd: momentum=-1 is no number of 0 or more.",
        "nn.optim.SGD([layer.weight], momentum=0.9)",
    ),
    Mistake(
        "a rate that is a text",
        'nn.optim.SGD([layer.weight], lr="fast")',
        ArgumentError,
        "a learning rate is a number or a schedule of nn.lr, not 'fast'.",
        "nn.optim.SGD([layer.weight], lr=0.1)",
    ),
    Mistake(
        "a negative rate",
        "nn.optim.SGD([layer.weight], lr=-0.1)",
        ArgumentError,
        "a learning rate is a finite number of 0 or more, not -0.1.",
        "nn.optim.SGD([layer.weight], lr=0.1)",
    ),
    Mistake(
        "a schedule that is not there",
        'nn.optim.SGD([layer.weight], lr={"kind": "cosine_deacy"})',
        UnknownName,
        "no schedule named 'cosine_deacy'. Did you mean 'cosine_decay'? Valid: constant,"
        " linear_decay, cosine_decay, warmup, step, multi_step, one_cycle.",
        "nn.optim.SGD([layer.weight], lr=nn.lr.cosine_decay(0.1, 0, 100))",
    ),
    Mistake(
        "Adam's averages",
        "nn.optim.Adam([layer.weight], b1=2)",
        ArgumentError,
        "adam: b1=2 and b2=0.999 must be below 1.",
        "nn.optim.Adam([layer.weight], b1=0.9)",
    ),
    Mistake(
        "a step without training",
        "sgd.step()",
        StateError,
        "sgd.step(): TRAINING must be enabled; use `with Context(TRAINING=1):`.",
    ),
    Mistake(
        "a step without gradients",
        """\
with Context(TRAINING=1):
    sgd.step()
""",
        GradientError,
        "sgd.step(): no parameter has a gradient; call backward().",
        """\
layer(Tensor.ones(1, 2)).sum().backward()
with Context(TRAINING=1):
    sgd.step()
""",
    ),
    Mistake(
        "a gradient of another shape",
        """\
w = Tensor([1.0, 2.0])
w.grad = Tensor([1.0])
adam = nn.optim.Adam([w])
with Context(TRAINING=1):
    adam.step()
""",
        ShapeError,
        "adam.step(): parameter 0 has shape (2,), its gradient (1,).",
        """\
w.grad = Tensor([1.0, 1.0])
with Context(TRAINING=1):
    adam.step()
""",
    ),
    Mistake(
        "a layer that cannot be called",
        "nn.Sequential(layer, 5)(Tensor.ones(1, 2))",
        ArgumentError,
        "Sequential: item 1 is a callable, not 5.",
        "nn.Sequential(layer, Tensor.relu)(Tensor.ones(1, 2))",
    ),
    Mistake(
        "state that lacks a name",
        'nn.load_state_dict(layer, {"weight": layer.weight})',
        ArgumentError,
        "load_state_dict: no value for 'bias'. strict=False keeps the old ones.",
        'nn.load_state_dict(layer, {"weight": layer.weight}, strict=False)',
    ),
    Mistake(
        "state with a misspelt name",
        'nn.load_state_dict(layer, {"wieght": layer.weight, "bias": layer.bias})',
        ArgumentError,
        "load_state_dict: no tensor of the model is named 'wieght'. Did you mean 'weight'?"
        " strict=False loads the rest.",
        "nn.load_state_dict(layer, nn.get_state_dict(layer))",
    ),
    Mistake(
        "state of another shape",
        'nn.load_state_dict(layer, {"weight": Tensor.ones(2, 3), "bias": layer.bias})',
        ShapeError,
        "load_state_dict: 'weight' has shape (3, 2), the value (2, 3).",
        'nn.load_state_dict(layer, {"weight": Tensor.ones(3, 2), "bias": layer.bias})',
    ),
    Mistake(
        "a scheduler for no optimizer",
        "nn.lr.LR_Scheduler(layer, 0.1)",
        ArgumentError,
        "a scheduler sets the rate of an optimizer, not Linear(2, 3).",
        "nn.lr.LR_Scheduler(sgd, 0.1)",
    ),
    Mistake(
        "a cycle without a rise",
        "nn.lr.OneCycleLR(sgd, 0.1, 10, pct_start=0)",
        ArgumentError,
        "OneCycleLR: pct_start=0 of total_steps=10 leaves no rise or no fall.",
        "nn.lr.OneCycleLR(sgd, 0.1, 10)",
    ),
    Mistake(
        "a gain that is no number",
        'nn.init.kaiming("relu")((3, 4))',
        ArgumentError,
        "init.kaiming: gain is a number, not 'relu'.",
        "nn.init.kaiming(2**0.5)((3, 4))",
    ),
    Mistake(
        "values that do not fill the shape",
        "nn.init.literal([1.0, 2.0])((3,))",
        ArgumentError,
        "init.literal has 2 values; the shape (3,) needs 3.",
        "nn.init.literal([1.0, 2.0])((2,))",
    ),
    Mistake(
        "a state with a part too few",
        """\
lstm, x, h = nn.LSTM(3, 4), Tensor.ones(5, 2, 3), Tensor.zeros(1, 2, 4)
lstm(x, (h,))
""",
        ArgumentError,
        'LSTM "lstm" takes a state of 2 parts, not 1.',
        "lstm(x, (h, h))",
    ),
    Mistake(
        "a delta rule without heads",
        "nn.gated_delta_rule(*[Tensor.ones(2, 3, 4)] * 5)",
        ShapeError,
        "gated_delta_rule takes q and k of (N, heads, T, dk) and v of (N, heads, T, dv), got "
        "(2, 3, 4), (2, 3, 4) and (2, 3, 4).",
        "nn.gated_delta_rule(*[Tensor.ones(1, 2, 3, 4)] * 3, *[Tensor.zeros(1, 2, 3)] * 2)",
    ),
)

CHAPTER = Chapter(
    "Layers, optimizers, state",
    "Nothing is changed unless everything fits.",
    MISTAKES,
    PRELUDE,
)
