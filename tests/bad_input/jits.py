"""Mistakes in compiled functions."""

from __future__ import annotations

from polygrad.errors import ArgumentError, CaptureError, GradientError, IndexError_, ShapeError

from .mistake import Chapter, Mistake

PRELUDE = """\
@jit
def step(x):
    return x * 2

step(Tensor([1.0, 2.0]))
"""

MISTAKES = (
    Mistake(
        "another shape",
        "step(Tensor([1.0, 2.0, 3.0]))",
        ArgumentError,
        "jit of step: argument 'x' is float32 (3,) on '{device}', but was captured as float32"
        " (2,) on '{device}'.\n"
        "A jit function has one set of shapes, dtypes and devices; polygrad.compile captures"
        " again for each.",
        "step(Tensor([3.0, 4.0]))",
    ),
    Mistake(
        "another dtype",
        "step(Tensor([1, 2]))",
        ArgumentError,
        "jit of step: argument 'x' is int32 (2,) on '{device}', but was captured as float32 (2,)"
        " on '{device}'.\n"
        "A jit function has one set of shapes, dtypes and devices; polygrad.compile captures"
        " again for each.",
        "step(Tensor([1.0, 2.0]))",
    ),
    Mistake(
        "another shape inside a dict",
        """\
@jit
def total(batch):
    return batch["x"].sum()

total({"x": Tensor([1.0])})
total({"x": Tensor([1.0, 2.0])})
""",
        ArgumentError,
        "jit of total: argument batch['x'] is float32 (2,) on '{device}', but was captured as"
        " float32 (1,) on '{device}'.\n"
        "A jit function has one set of shapes, dtypes and devices; polygrad.compile captures"
        " again for each.",
        'total({"x": Tensor([2.0])})',
    ),
    Mistake(
        "an argument that the function does not take",
        "step(y=Tensor([1.0, 2.0]))",
        ArgumentError,
        "jit of step: no argument 'y'. It takes: x.",
        "step(x=Tensor([1.0, 2.0]))",
    ),
    Mistake(
        "an argument missing",
        "step()",
        ArgumentError,
        "jit of step: missing a required argument: 'x'. It takes: x.",
        "step(Tensor([1.0, 2.0]))",
    ),
    Mistake(
        "no function",
        "jit(5)",
        ArgumentError,
        "jit takes a function, not 5.",
        "jit(lambda x: x + 5)",
    ),
    Mistake(
        "item inside",
        """\
@jit
def loss(x):
    y = x * 2
    return y.sum().item()

loss(Tensor([1.0]))
""",
        CaptureError,
        "a tensor's value is read at train.py:9 inside the jit of loss, but it depends on the"
        " arguments or on state and changes from call to call. Return the tensor and read it"
        " outside, or use where().",
    ),
    Mistake(
        "numpy inside",
        """\
@jit
def halve(x):
    return x.numpy() / 2

halve(Tensor([1.0]))
""",
        CaptureError,
        "a tensor's value is read at train.py:8 inside the jit of halve, but it depends on the"
        " arguments or on state and changes from call to call. Return the tensor and read it"
        " outside, or use where().",
    ),
    Mistake(
        "a list inside",
        """\
@jit
def listed(x):
    return x.tolist()

listed(Tensor([1.0]))
""",
        CaptureError,
        "a tensor's value is read at train.py:8 inside the jit of listed, but it depends on the"
        " arguments or on state and changes from call to call. Return the tensor and read it"
        " outside, or use where().",
    ),
    Mistake(
        "float inside",
        """\
@jit
def scaled(x):
    return x * float(x.sum())

scaled(Tensor([1.0]))
""",
        CaptureError,
        "a tensor's value is read at train.py:8 inside the jit of scaled, but it depends on the"
        " arguments or on state and changes from call to call. Return the tensor and read it"
        " outside, or use where().",
    ),
    Mistake(
        "a condition inside",
        """\
@jit
def relu(x):
    return x if x.sum() > 0 else -x

relu(Tensor([1.0]))
""",
        CaptureError,
        "a tensor's value is read at train.py:8 inside the jit of relu, but it depends on the"
        " arguments or on state and changes from call to call. Return the tensor and read it"
        " outside, or use where().",
    ),
    Mistake(
        "a mask inside",
        """\
@jit
def positive(x):
    return x[x > 0]

positive(Tensor([1.0]))
""",
        CaptureError,
        "a tensor's value is read at train.py:8 inside the jit of positive, but it depends on"
        " the arguments or on state and changes from call to call. Return the tensor and read it"
        " outside, or use where().",
    ),
    Mistake(
        "a format inside",
        """\
@jit
def told(x):
    return f"{x.sum():.3f}"

told(Tensor([1.0]))
""",
        CaptureError,
        "a tensor's value is read at train.py:8 inside the jit of told, but it depends on the"
        " arguments or on state and changes from call to call. Return the tensor and read it"
        " outside, or use where().",
    ),
    Mistake(
        "state read inside",
        """\
count = Tensor([0.0])

@jit
def counted(x):
    count.assign(count + 1)
    return x * count.item()

counted(Tensor([1.0]))
""",
        CaptureError,
        "a tensor's value is read at train.py:11 inside the jit of counted, but it depends on"
        " the arguments or on state and changes from call to call. Return the tensor and read it"
        " outside, or use where().",
        "count.item()",
    ),
    Mistake(
        "a wrong shape inside",
        """\
@jit
def flat(x):
    return x.reshape(4)

flat(Tensor([1.0, 2.0]))
""",
        ShapeError,
        "reshape: (2,) has 2 elements, which do not make (4,) (4 elements).",
    ),
    Mistake(
        "reading while compiling",
        "compile(lambda x: x.item(), [Tensor([1.0])])",
        CaptureError,
        "a tensor's value is read at train.py:6 inside the compile of <lambda>, but it depends"
        " on the arguments or on state and changes from call to call. Return the tensor and read"
        " it outside, or use where().",
        "compile(lambda x: x * 2, [Tensor([1.0])])",
    ),
    Mistake(
        "a generator",
        "def rows(x):\n    yield x\n\njit(rows)",
        ArgumentError,
        "jit takes a function that returns; rows is a generator or a coroutine, which runs later."
        " Compile what it calls.",
    ),
    Mistake(
        "an iterator returned",
        "jit(lambda x: iter([x]))(Tensor([1.0]))",
        ArgumentError,
        "a captured function returned a list_iterator, which computes later; return a list.",
        "jit(lambda x: [x])(Tensor([1.0]))",
    ),
    Mistake(
        "a place outside",
        """\
@jit
def row(x, i):
    return x[i]

row(Tensor([1.0, 2.0]), 1)
row(Tensor([1.0, 2.0]), 2)
""",
        IndexError_,
        "index 2 is outside axis 0 of shape (2,).",
        "row(Tensor([1.0, 2.0]), 0)",
    ),
    Mistake(
        "a gradient of what was written over",
        """\
w = Tensor([1.0, 2.0], requires_grad=True)

@jit
def train(x):
    loss = (w * x).sum()
    w.assign(w - x)
    return loss

out = train(Tensor([1.0, 1.0]))
out.backward()
""",
        GradientError,
        "backward: no leaf tensors require grad: none is a float, or all are detached or were"
        " assigned to since. It was computed before and forgot how: mark the inputs with"
        " requires_grad=True,"
        " or take the gradient first.",
    ),
    Mistake(
        "a tensor from outside of a function",
        """\
import polygrad

w = Tensor([1.0, 2.0])

@polygrad.function
def scaled(x):
    return x * w

scaled(Tensor([1.0, 1.0]))
""",
        CaptureError,
        "the function scaled uses a tensor of float32 (2,) made at train.py:8 that is no argument;"
        " pass it, or say allow_implicit=True.",
    ),
    Mistake(
        "an assignment in a function",
        """\
import polygrad

@polygrad.function
def doubled(x):
    x *= 2
    return x

doubled(Tensor([1.0, 1.0]))
""",
        CaptureError,
        "the function doubled assigns to a tensor of float32 (2,) at train.py:10, which it did not"
        " make; a function only computes. Return the new value and assign it outside.",
    ),
    Mistake(
        "a number argument used after the function",
        """\
kept = []

@jit
def scaled(x, n):
    kept.append(n)
    return x * n

scaled(Tensor([1.0]), 2)
Tensor([1.0]) * kept[0]
""",
        CaptureError,
        "a number argument was kept after the jit of scaled had ended; keep int(…) of it, which is"
        " captured for its value.",
        "kept[0] = int(kept[0])",
    ),
    Mistake(
        "a function that returns nothing",
        """\
import polygrad

polygrad.function(lambda x: None)(Tensor([1.0]))
""",
        ArgumentError,
        "the function <lambda> returns a Tensor, or a tuple or list of at least one, not None.",
    ),
    Mistake(
        "too few gradients",
        """\
import polygrad

f = polygrad.function(lambda x, y: x * y, grad_fxn=lambda g, x, y: (g,))
x, y = Tensor([1.0], requires_grad=True), Tensor([2.0])
f(x, y).sum().backward()
""",
        GradientError,
        "function <lambda>: grad_fxn returns a tuple of 2 gradients, one for each tensor, not 1.",
    ),
)

CHAPTER = Chapter(
    "jit and compile",
    "A captured function runs once over symbols. Nothing in it can be read before it ends.",
    MISTAKES,
    PRELUDE,
)
