"""Mistakes in the use of a Model."""

from __future__ import annotations

from polygrad.errors import (
    ArgumentError,
    DeviceUnknown,
    DTypeError,
    ShapeError,
    StateError,
    UnknownName,
)

from .mistake import Chapter, Mistake

PRELUDE = """\
line = nn.Linear(3, 1)
model = Model(
    line,
    inputs={"x": (4, 3)},
    targets={"y": (4, 1)},
    loss=lambda outputs, y: (outputs["output"] - y).square().mean(),
)
x, y = np.ones((10, 3), "float32"), np.ones((10, 1), "float32")
"""

MISTAKES = (
    Mistake(
        "a partial batch",
        'model.fit({"x": x, "y": y}, batch_size=4, optimizer="sgd", lr=0.1)',
        ArgumentError,
        "fit: 10 samples leave 2 over in batches of 4; remainder='drop' leaves them out of each"
        " epoch.",
        'model.fit({"x": x, "y": y}, batch_size=4, optimizer="sgd", lr=0.1, remainder="drop")',
    ),
    Mistake(
        "a partial batch that cannot be kept",
        'model.fit({"x": x, "y": y}, batch_size=4, optimizer="sgd", remainder="keep")',
        ArgumentError,
        "fit: 10 samples leave 2 over in batches of 4, which the declared shapes do not admit;"
        " remainder='drop' leaves them out.",
    ),
    Mistake(
        "a remainder that is not there",
        'model.fit({"x": x, "y": y}, batch_size=4, optimizer="sgd", remainder="dorp")',
        UnknownName,
        "no remainder named 'dorp'. Did you mean 'drop'? Valid: error, drop, keep.",
    ),
    Mistake(
        "batches of another size",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=2, optimizer="sgd")',
        ArgumentError,
        "fit: batch_size=2, but 'x' is declared float32[4, 3]: its batches have 4 samples.",
    ),
    Mistake(
        "fewer samples than a batch",
        'model.fit({"x": x[:2], "y": y[:2]}, batch_size=4, optimizer="sgd", remainder="drop")',
        ArgumentError,
        "fit: 2 samples make no batch of 4.",
    ),
    Mistake(
        "all data as one batch",
        'model.fit({"x": x[:8], "y": y[:8]}, optimizer="sgd")',
        ShapeError,
        "fit: 'x' is declared float32[4, 3], got shape (8, 3). Give batch_size= to visit the"
        " data in parts.",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4, optimizer="sgd")',
    ),
    Mistake(
        "no samples",
        'model.fit({"x": x[:0], "y": y[:0]}, batch_size=4, optimizer="sgd")',
        ArgumentError,
        "fit: 0 samples make no batch of 4.",
    ),
    Mistake(
        "unlike numbers of samples",
        'model.fit({"x": x[:8], "y": y[:4]}, batch_size=4, optimizer="sgd")',
        ShapeError,
        "fit: the inputs have different numbers of samples: 'x' 8, 'y' 4.",
    ),
    Mistake(
        "data without targets",
        'model.fit({"x": x[:8]}, batch_size=4, optimizer="sgd")',
        ArgumentError,
        "fit needs 'y' too.",
    ),
    Mistake(
        "a misspelt input",
        'model.fit({"x": x[:8], "yy": y[:8]}, batch_size=4, optimizer="sgd")',
        ArgumentError,
        "fit has no input 'yy'. Did you mean 'y'? It takes: x, y.",
    ),
    Mistake(
        "samples of another shape",
        'model.fit({"x": x[:8, :2], "y": y[:8]}, batch_size=4, optimizer="sgd")',
        ShapeError,
        "fit: 'x' is declared float32[4, 3], got samples in an array of shape (8, 2).",
    ),
    Mistake(
        "data of texts",
        'model.fit({"x": x[:8], "y": np.full((8, 1), "a")}, batch_size=4, optimizer="sgd")',
        DTypeError,
        "fit: 'y': no dtype named 'str32'. Did you mean 'int32'? Valid: bool, int8, uint8,"
        " int16, uint16, int32, uint32, int64, uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
    ),
    Mistake(
        "data that is no mapping",
        'model.fit(5, batch_size=4, optimizer="sgd")',
        ArgumentError,
        "fit: data is a mapping of names to arrays, or an iterable of such, not 5.",
    ),
    Mistake(
        "a batch that is no mapping",
        'model.fit([5], optimizer="sgd")',
        ArgumentError,
        "fit: a batch maps names to arrays, not 5.",
    ),
    Mistake(
        "no optimizer",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4)',
        StateError,
        "no optimizer is set: fit(optimizer='adam', lr=0.001), or set_optimizer(…).",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4, optimizer="adam", lr=0.001)',
    ),
    Mistake(
        "a misspelt optimizer",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4, optimizer="adma")',
        UnknownName,
        "no optimizer named 'adma'. Did you mean 'adam'? Valid: sgd, adam, adamw, lamb, lars,"
        " muon.",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4, optimizer="adam")',
    ),
    Mistake(
        "an option that the optimizer lacks",
        'model.set_optimizer("adam", beta=0.9)',
        ArgumentError,
        "adam: no option named 'beta'. Valid: lr, b1, b2, eps, weight_decay, decay_filter, fused,"
        " amsgrad.",
        'model.set_optimizer("adam", b1=0.9)',
    ),
    Mistake(
        "a rate that is a text",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4, optimizer="sgd", lr="fast")',
        ArgumentError,
        "a learning rate is a number or a schedule of nn.lr, not 'fast'.",
    ),
    Mistake(
        "a misspelt argument",
        'model.fit({"x": x[:8], "y": y[:8]}, batchsize=4, optimizer="sgd")',
        ArgumentError,
        "fit: no argument 'batchsize'. Did you mean 'batch_size'? It takes: data, epochs=1,"
        " batch_size=None, optimizer=None, lr=None, remainder='error', shuffle=False,"
        " validation=None, callbacks=(), progress=True.",
    ),
    Mistake(
        "half an epoch",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4, optimizer="sgd", epochs=0.5)',
        ArgumentError,
        "fit: epochs=0.5 is no whole number of 0 or more.",
    ),
    Mistake(
        "a batch size that is a text",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size="4", optimizer="sgd")',
        ArgumentError,
        "fit: batch_size='4' is no whole number of 1 or more.",
    ),
    Mistake(
        "a callback that is no function",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4, optimizer="sgd", callbacks=[5])',
        ArgumentError,
        "fit: callbacks are functions, not [5].",
    ),
    Mistake(
        "a shuffle that is a text",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4, optimizer="sgd", shuffle="yes")',
        ArgumentError,
        "fit: shuffle is True, False or a seed, not 'yes'.",
        'model.fit({"x": x[:8], "y": y[:8]}, batch_size=4, optimizer="sgd", shuffle=True)',
    ),
    Mistake(
        "a call of another shape",
        "model.forward(x=x)",
        ShapeError,
        "entrypoint 'forward': 'x' is declared float32[4, 3], got shape (10, 3).",
        "model.forward(x=x[:4])",
    ),
    Mistake(
        "a call without names",
        "model.forward(x[:4])",
        ArgumentError,
        "inputs are given by name, as x=… or {'x': …}, not as ndarray of shape (4, 3).",
        "model.forward(x=x[:4])",
    ),
    Mistake(
        "a call with a misspelt name",
        "model.forward(xx=x[:4])",
        ArgumentError,
        "entrypoint 'forward' has no input 'xx'. Did you mean 'x'? It takes: x.",
        "model.forward(x=x[:4])",
    ),
    Mistake(
        "a call without inputs",
        "model.forward()",
        ArgumentError,
        "entrypoint 'forward' needs 'x' too.",
        "model.forward(x=x[:4])",
    ),
    Mistake(
        "a call with a text",
        'model.forward(x="1")',
        ArgumentError,
        "entrypoint 'forward': 'x': Tensor takes numbers, nested lists and arrays, not str.",
        "model.forward(x=x[:4])",
    ),
    Mistake(
        "a call with a ragged list",
        "model.forward(x=[[1, 2, 3], [4]])",
        ShapeError,
        "entrypoint 'forward': 'x': Tensor: a list must be rectangular: entry 1 at depth 1 has 1"
        " elements, entry 0 has 3.",
    ),
    Mistake(
        "an output that is not there",
        """\
outputs = model.forward(x=x[:4])
outputs["outptu"]
""",
        UnknownName,
        "no output named 'outptu'. Did you mean 'output'? Valid: output.",
        'outputs["output"]',
    ),
    Mistake(
        "an entrypoint that is not there",
        'model.call("foward", x=x[:4])',
        UnknownName,
        "no entrypoint named 'foward'. Did you mean 'forward'? Valid: forward, loss, train.",
        'model.call("forward", x=x[:4])',
    ),
    Mistake(
        "a state that is not there",
        'model.read_buffer("wieght")',
        UnknownName,
        "no state named 'wieght'. Did you mean 'weight'? Valid: weight, bias.",
        'model.read_buffer("weight")',
    ),
    Mistake(
        "a state of another shape",
        'model.write_buffer("weight", np.ones(3))',
        ShapeError,
        "write_buffer: 'weight' is declared float32[1, 3], got shape (3,).",
        'model.write_buffer("weight", np.ones((1, 3)))',
    ),
    Mistake(
        "state that lacks a name",
        'model.load_state_dict({"weight": np.ones((1, 3))})',
        ArgumentError,
        "load_state_dict: no value for 'bias'. strict=False keeps the old ones.",
        'model.load_state_dict({"weight": np.ones((1, 3))}, strict=False)',
    ),
    Mistake(
        "reserved metadata",
        'model.set_metadata("polygrad", 1)',
        ArgumentError,
        "the metadata key 'polygrad' is reserved.",
        'model.set_metadata("mine", 1)',
    ),
    Mistake(
        "metadata that is no JSON",
        'model.set_metadata("mine", object())',
        ArgumentError,
        "metadata 'mine' is no JSON value: Object of type object is not JSON serializable.",
        'model.set_metadata("mine", [1, 2])',
    ),
    Mistake(
        "a place that is not there",
        'model.place("cdua")',
        DeviceUnknown,
        "no device named 'cdua'. Did you mean 'cuda'? Installed: cpu, interp. See: polygrad"
        " devices",
        'model.place("interp")',
    ),
    Mistake(
        "a Model pickled",
        """\
import pickle
pickle.dumps(model)
""",
        StateError,
        "a Model is not pickled: its Plans are tied to this process. Write it with"
        " model.save(path) or data = model.save(), read it with Model.load. copy.deepcopy works.",
        "Model.load(model.save())",
    ),
    Mistake(
        "a Model that was disposed",
        """\
model.dispose()
model.forward(x=x[:4])
""",
        StateError,
        "this Model was disposed.",
    ),
)

CHAPTER = Chapter(
    "Model and fit",
    "Data come by name, in the declared shapes; a failed call changes nothing.",
    MISTAKES,
    PRELUDE,
)
