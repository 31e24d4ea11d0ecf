"""Mistakes in making a Model."""

from __future__ import annotations

from polygrad.errors import (
    ArgumentError,
    CaptureError,
    DTypeError,
    ShapeError,
    StateError,
    UnknownName,
)

from .mistake import Chapter, Mistake

PRELUDE = "w = Tensor([1.0, 2.0])"

MISTAKES = (
    Mistake(
        "no inputs",
        "Model(lambda x: x * 2)",
        ArgumentError,
        "Model: missing a required argument: 'inputs'. It takes: author, inputs, targets=None,"
        " loss=None, params=None.",
        'Model(lambda x: x * 2, inputs={"x": (2,)})',
    ),
    Mistake(
        "no function",
        'Model(5, inputs={"x": (2,)})',
        ArgumentError,
        "Model takes a callable, or an object with forward(), not 5.",
    ),
    Mistake(
        "inputs without names",
        "Model(lambda x: x * 2, inputs=(2,))",
        ArgumentError,
        "inputs= maps names to Tensors or shapes, as {'x': Tensor.empty(5)}.",
        'Model(lambda x: x * 2, inputs={"x": (2,)})',
    ),
    Mistake(
        "an input that is no shape",
        'Model(lambda x: x * 2, inputs={"x": "two"})',
        ArgumentError,
        "inputs 'x' is a Tensor, a shape or (shape, dtype), not 'two'.",
        'Model(lambda x: x * 2, inputs={"x": (2,)})',
    ),
    Mistake(
        "an input of an unknown dtype",
        'Model(lambda x: x * 2, inputs={"x": ((2,), "flaot32")})',
        DTypeError,
        "inputs 'x': no dtype named 'flaot32'. Did you mean 'float32'? Valid: bool, int8, uint8,"
        " int16, uint16, int32, uint32, int64, uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
        'Model(lambda x: x * 2, inputs={"x": ((2,), "float32")})',
    ),
    Mistake(
        "an author that takes other names",
        'Model(lambda y: y * 2, inputs={"x": (2,)})',
        ArgumentError,
        "Model: the author: no argument 'x'. It takes: y.",
        'Model(lambda x: x * 2, inputs={"x": (2,)})',
    ),
    Mistake(
        "an author that returns no tensor",
        'Model(lambda x: 5, inputs={"x": (2,)})',
        ArgumentError,
        "the author returns a Tensor or a dict of them, not 5.",
    ),
    Mistake(
        "an output that is no tensor",
        'Model(lambda x: {"a": 5}, inputs={"x": (2,)})',
        ArgumentError,
        "the author's output 'a' is no Tensor but 5.",
    ),
    Mistake(
        "an author that reads a value",
        """\
def author(x):
    return x * x.sum().item()

Model(author, inputs={"x": (2,)})
""",
        CaptureError,
        "a tensor's value is read at train.py:3 inside the capture of the Model's forward, but"
        " it depends on the arguments or on state and changes from call to call. Return the"
        " tensor and read it outside, or use where().",
    ),
    Mistake(
        "an author with a wrong shape",
        """\
def author(x):
    return x.reshape(3)

Model(author, inputs={"x": (2,)})
""",
        ShapeError,
        "reshape: (2,) has 2 elements, which do not make (3,) (3 elements).",
    ),
    Mistake(
        "a parameter that is not named",
        'Model(lambda x: x * w, inputs={"x": (2,)})',
        CaptureError,
        "the author uses a tensor of shape (2,) that is no attribute of it, made at train.py:1;"
        " name the tensors of a plain function: params={'w': w}.",
        'Model(lambda x: x * w, inputs={"x": (2,)}, params={"w": w})',
    ),
    Mistake(
        "a parameter that the author assigns to",
        'Model(lambda x: x * w.assign(w + 1), inputs={"x": (2,)}, params={"w": w})',
        CaptureError,
        "the author assigns to its parameter 'w'; the optimizer does that. Mark state of your"
        " own with .requires_grad_(False).",
    ),
    Mistake(
        "an attribute that the author replaces",
        """\
class Counter:
    def __init__(self):
        self.count = Tensor([0.0]).requires_grad_(False)

    def __call__(self, x):
        self.count = self.count + 1
        return x * self.count

counter = Counter()
Model(counter, inputs={"x": (2,)})
""",
        CaptureError,
        "the author replaced its tensor 'count' while it was captured; change it with"
        " .assign(…), so that the Model keeps it.",
        "counter.count.item()",
    ),
    Mistake(
        "targets without a loss",
        'Model(lambda x: x * 2, inputs={"x": (2,)}, targets={"y": (2,)})',
        ArgumentError,
        "targets are for a loss: give loss= too.",
    ),
    Mistake(
        "one name for an input and a target",
        'Model(lambda x: x, inputs={"x": (2,)}, targets={"x": (2,)}, loss=lambda o, x: x.sum())',
        ArgumentError,
        "'x' is both an input and a target.",
    ),
    Mistake(
        "a loss of many numbers",
        'Model(lambda x: x * w, inputs={"x": (2,)}, loss=lambda o: o["output"], params={"w": w})',
        ArgumentError,
        "the loss of a Model is one float, not float32[2]; take its mean().",
        """\
Model(
    lambda x: x * w,
    inputs={"x": (2,)},
    loss=lambda o: o["output"].mean(),
    params={"w": w},
)
""",
    ),
    Mistake(
        "a loss of no tensor",
        'Model(lambda x: x * w, inputs={"x": (2,)}, loss=lambda o: 5, params={"w": w})',
        ArgumentError,
        "the loss of a Model is a tensor of one float, not 5.",
    ),
    Mistake(
        "a loss that takes other names",
        """\
def loss(outputs, z):
    return (outputs["output"] - z).sum()

Model(lambda x: x * w, inputs={"x": (2,)}, targets={"y": (2,)}, loss=loss, params={"w": w})
""",
        ArgumentError,
        "Model: the loss: no argument 'y'. It takes: outputs, z.",
    ),
    Mistake(
        "a loss of a misspelt output",
        """\
def loss(outputs):
    return outputs["outptu"].sum()

Model(lambda x: x * w, inputs={"x": (2,)}, loss=loss, params={"w": w})
""",
        UnknownName,
        "no output named 'outptu'. Did you mean 'output'? Valid: output.",
    ),
    Mistake(
        "fit without a loss",
        """\
model = Model(lambda x: x * w, inputs={"x": (2,)}, params={"w": w})
model.fit({"x": np.ones(2)}, optimizer="sgd")
""",
        StateError,
        "this Model was made without a loss, so it cannot be trained.",
    ),
    Mistake(
        "a parameter that nobody wrote",
        """\
empty = Tensor.empty(2)
model = Model(lambda x: x * empty, inputs={"x": (2,)}, params={"w": empty})
model.forward(x=[1.0, 2.0])
""",
        StateError,
        "param 'w' (float32[2]) is not initialized: nothing was ever written into it. Assign a"
        " value, or use load_state_dict or import_weights.",
        """\
model.write_buffer("w", [1.0, 2.0])
model.forward(x=[1.0, 2.0])
""",
    ),
    Mistake(
        "reading a parameter that nobody wrote",
        """\
empty = Tensor.empty(2)
model = Model(lambda x: x * empty, inputs={"x": (2,)}, params={"w": empty})
model.read_buffer("w")
""",
        StateError,
        "param 'w' (float32[2]) is not initialized: nothing was ever written into it. Assign a"
        " value, or use load_state_dict or import_weights.",
        """\
model.write_buffer("w", [1.0, 2.0])
model.read_buffer("w")
""",
    ),
    Mistake(
        "saving a parameter that nobody wrote",
        """\
empty = Tensor.empty(2)
model = Model(lambda x: x * empty, inputs={"x": (2,)}, params={"w": empty})
model.save()
""",
        StateError,
        "param 'w' (float32[2]) is not initialized: nothing was ever written into it. Assign a"
        " value, or use load_state_dict or import_weights.",
    ),
    Mistake(
        "exporting a parameter that nobody wrote",
        """\
empty = Tensor.empty(2)
model = Model(lambda x: x * empty, inputs={"x": (2,)}, params={"w": empty})
model.export_weights()
""",
        StateError,
        "param 'w' (float32[2]) is not initialized: nothing was ever written into it. Assign a"
        " value, or use load_state_dict or import_weights.",
    ),
    Mistake(
        "training a parameter that nobody wrote",
        """\
empty = Tensor.empty(2)
model = Model(
    lambda x: x * empty,
    inputs={"x": (2,)},
    loss=lambda o: o["output"].sum(),
    params={"w": empty},
)
model.fit({"x": np.ones(2)}, optimizer="sgd")
""",
        StateError,
        "param 'w' (float32[2]) is not initialized: nothing was ever written into it. Assign a"
        " value, or use load_state_dict or import_weights.",
        """\
model.write_buffer("w", [1.0, 2.0])
model.fit({"x": np.ones(2)}, optimizer="sgd")
""",
    ),
)

CHAPTER = Chapter(
    "Making a Model",
    "The author's code runs once, over tensors without values.",
    MISTAKES,
    PRELUDE,
)
