"""Mistakes with runtimes: two owners, what has ended, and what none can have."""

from __future__ import annotations

from polygrad.errors import ArgumentError, DeviceUnknown, StateError, UnknownName

from .mistake import Chapter, Mistake

PRELUDE = """\
rt = polygrad.create(name="lab")
x, y = Tensor([1.0, 2.0]), rt.Tensor([3.0, 4.0])
"""

MIXED = (
    "Operands belong to different runtimes, 'default' and 'lab': a tensor stays with the runtime"
    " that made it.\n"
    "x.to(y.runtime) copies x to the runtime of y."
)
GONE = (
    "the runtime 'lab' was disposed, and with it every tensor, Model and compiled function of it."
    " Make another with polygrad.create()."
)

MISTAKES = (
    Mistake("tensors of two runtimes", "x + y", ArgumentError, MIXED, "x.to(y.runtime) + y"),
    Mistake(
        "a value of another runtime", "x[0] = y[1]", ArgumentError, MIXED, "x[0] = y[1].item()"
    ),
    Mistake("assigning it", "x.assign(y)", ArgumentError, MIXED, "x.assign(y.to(x.runtime))"),
    Mistake("a mask of another runtime", "x[y > 3]", ArgumentError, MIXED, "x[x > 1]"),
    Mistake(
        "a tensor made of one of another runtime",
        "Tensor(y)",
        ArgumentError,
        MIXED,
        "y.to(x.runtime)",
    ),
    Mistake(
        "a gradient from another runtime",
        "(x * 2).backward(gradient=y)",
        ArgumentError,
        MIXED,
        "(x * 2).backward(gradient=y.tolist())",
    ),
    Mistake(
        "arguments of two runtimes",
        "jit(lambda a, b: a + b)(x, y)",
        ArgumentError,
        MIXED,
        "jit(lambda a, b: a + b)(x.to(rt), y)",
    ),
    Mistake(
        "parameters of two runtimes",
        "nn.optim.SGD([x, y])",
        ArgumentError,
        MIXED,
        "nn.optim.SGD([x]), nn.optim.SGD([y])",
    ),
    Mistake(
        "weights of another runtime",
        'nn.load_state_dict({"w": x}, {"w": y})',
        ArgumentError,
        MIXED,
        'nn.load_state_dict({"w": x}, {"w": y.numpy()})',
    ),
    Mistake(
        "an input of another runtime",
        """\
model = Model(lambda x: x * 2, inputs={"x": Tensor.empty(2)}, params={})
model(x=y)
""",
        ArgumentError,
        MIXED,
        "model(x=y.numpy())",
    ),
    Mistake(
        "a tensor of a runtime that was disposed",
        "rt.dispose()\ny + 1",
        StateError,
        GONE,
        "x + 1",
    ),
    Mistake(
        "a new tensor in one",
        "rt.dispose()\nrt.Tensor([1.0])",
        StateError,
        GONE,
        "polygrad.create().Tensor([1.0])",
    ),
    Mistake(
        "a tensor that was disposed",
        "x.dispose()\nx + 1",
        StateError,
        "this tensor was disposed: its values are gone.",
    ),
    Mistake(
        "the end of the default runtime",
        "x.runtime.dispose()",
        StateError,
        "the default runtime lasts as long as the process; collect() gives back what is not in"
        " use.",
        "polygrad.collect()",
    ),
    Mistake(
        "a runtime on a misspelt device",
        'polygrad.create("cqu")',
        DeviceUnknown,
        "no device named 'cqu'. Did you mean 'cpu'? Installed: cpu, interp. See: polygrad devices",
        'polygrad.create("cpu")',
    ),
    Mistake(
        "a setting that no runtime can have for itself",
        'polygrad.create(env={"POLY_THREADS": 1})',
        ArgumentError,
        "create: env: 'POLY_THREADS' belongs to the whole process. A runtime takes: LOGICAL,"
        " POLY_CACHE, POLY_FUSION, POLY_SPEC, TIMING, TRAINING.",
        'polygrad.create(env={"POLY_FUSION": 0})',
    ),
    Mistake(
        "the device among the settings",
        'polygrad.create(env={"POLY_DEV": "interp"})',
        ArgumentError,
        "create: give the device as device=, not in env.",
        'polygrad.create("interp")',
    ),
    Mistake(
        "matrix kernels of a device that is not here",
        "polygrad.create(kernels=True)",
        ArgumentError,
        "create: kernels= chooses matrix kernels of the wasm device, which is not here; leave it"
        " out.",
        "polygrad.create()",
    ),
    Mistake(
        "a policy that there is not",
        'x.set_logical_policy("never")',
        ArgumentError,
        "set_logical_policy: a lazy tensor is its graph, so there is no policy 'never': take"
        " 'until_realize'.",
        'x.set_logical_policy("until_realize")',
    ),
    Mistake(
        "asking for an operation that there is not",
        'polygrad.can_run("matmull")',
        UnknownName,
        "no operation named 'matmull'. Did you mean 'matmul'? Operations are the methods of Tensor,"
        " and polygrad.Ops.",
        'polygrad.can_run("matmul")',
    ),
)

CHAPTER = Chapter(
    "Runtimes",
    "A tensor belongs to the runtime that made it. See [Runtimes](runtimes.md).",
    MISTAKES,
    PRELUDE,
)
