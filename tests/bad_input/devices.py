"""Mistakes in names of devices and settings."""

from __future__ import annotations

from polygrad.errors import (
    ArgumentError,
    DeviceNotInstalled,
    DeviceUnknown,
    NoAttribute,
    SettingError,
    UnknownName,
)

from .mistake import Chapter, Mistake

PRELUDE = "x = Tensor([1.0])"

MISTAKES = (
    Mistake(
        "a tensor on several devices",
        "Tensor([1.0, 2.0]).shard_(('interp', 'cpu'), axis=0)",
        ArgumentError,
        "shard_: a tensor is on one device, not on 'interp' and 'cpu'; pieces on several are not"
        " built. .to_('interp') moves all of it.",
        "Tensor([1.0, 2.0]).to_('interp')",
    ),
    Mistake(
        "a misspelt device",
        'x.to("cdua")',
        DeviceUnknown,
        "no device named 'cdua'. Did you mean 'cuda'? Installed: cpu, interp. See: polygrad"
        " devices",
        'x.to("interp")',
    ),
    Mistake(
        "a device that nobody has",
        'x.to("quantum")',
        DeviceUnknown,
        "no device named 'quantum'. Installed: cpu, interp. See: polygrad devices",
        'x.to("interp")',
    ),
    Mistake(
        "a device whose package is absent",
        'x.to("cuda")',
        DeviceNotInstalled,
        "device 'cuda' is not installed. Run: pip install \"polygrad[cuda]\". Installed: cpu,"
        " interp.",
        'x.to("cpu")',
    ),
    Mistake(
        "the same by its own method",
        "x.cuda()",
        DeviceNotInstalled,
        "device 'cuda' is not installed. Run: pip install \"polygrad[cuda]\". Installed: cpu,"
        " interp.",
        "x.cpu()",
    ),
    Mistake(
        "a misspelt device for a new tensor",
        'Tensor([1.0], device="cpuu")',
        DeviceUnknown,
        "no device named 'cpuu'. Did you mean 'cpu'? Installed: cpu, interp. See: polygrad devices",
        'Tensor([1.0], device="cpu")',
    ),
    Mistake(
        "a device that is no name",
        "x.to(0)",
        ArgumentError,
        "a device is a name such as 'cpu' or 'cuda:1', not 0.",
        'x.to("cpu:0")',
    ),
    Mistake(
        "a device's number that is none",
        'x.to("cpu:one")',
        ArgumentError,
        "device 'cpu:one': what follows ':' must be a number, as in 'cpu:1'.",
        'x.to("cpu:0")',
    ),
    Mistake(
        "tensors of two devices",
        'Tensor([1.0], device="cpu") + Tensor([1.0], device="interp")',
        ArgumentError,
        "add: tensors of 'cpu' and 'interp' cannot meet in one operation; move one with"
        " .to('cpu').",
        'Tensor([1.0], device="cpu") + Tensor([1.0], device="interp").to("cpu")',
    ),
    Mistake(
        "a value of another device written to a place",
        'Tensor([1.0, 2.0], device="cpu")[0] = Tensor(3.0, device="interp")',
        ArgumentError,
        "setitem: tensors of 'cpu' and 'interp' cannot meet in one operation; move one with"
        " .to('cpu').",
        'Tensor([1.0, 2.0], device="cpu")[0] = Tensor(3.0, device="interp").to("cpu")',
    ),
    Mistake(
        "a mask of another device",
        'Tensor([1.0, 2.0], device="cpu")[Tensor([True, False], device="interp")] = 0.0',
        ArgumentError,
        "setitem: tensors of 'cpu' and 'interp' cannot meet in one operation; move one with"
        " .to('cpu').",
        'Tensor([1.0, 2.0], device="cpu")[Tensor([True, False], device="cpu")] = 0.0',
    ),
    Mistake(
        "a value of another device",
        'Tensor([1.0], device="cpu").assign(Tensor([2.0], device="interp"))',
        ArgumentError,
        "assign: the value is on 'interp', the tensor on 'cpu'; use .to('cpu').",
        'Tensor([1.0], device="cpu").copy_from(Tensor([2.0], device="interp"))',
    ),
    Mistake(
        "opening a device by another name",
        'polygrad.device.get("cuad")',
        DeviceUnknown,
        "no device named 'cuad'. Did you mean 'cuda'? Installed: cpu, interp. See: polygrad"
        " devices",
        'polygrad.device.get("cpu")',
    ),
    Mistake(
        "a misspelt POLY_DEV",
        """\
with Context(POLY_DEV="cdua"):
    Tensor([1.0])
""",
        DeviceUnknown,
        "no device named 'cdua'. Did you mean 'cuda'? Installed: cpu, interp. See: polygrad"
        " devices",
        """\
with Context(POLY_DEV="cpu"):
    Tensor([1.0])
""",
    ),
    Mistake(
        "a POLY_DEV that is absent",
        """\
with Context(POLY_DEV="cuda"):
    Tensor([1.0])
""",
        DeviceNotInstalled,
        "device 'cuda' is not installed. Run: pip install \"polygrad[cuda]\". Installed: cpu,"
        " interp.",
        """\
with Context(POLY_DEV="auto"):
    Tensor([1.0])
""",
    ),
    Mistake(
        "a POLY_DEV of nothing",
        """\
with Context(POLY_DEV=","):
    Tensor([1.0])
""",
        SettingError,
        "POLY_DEV=, names no device. Installed: cpu, interp.",
    ),
    Mistake(
        "a misspelt setting",
        "Context(TRAININ=1)",
        UnknownName,
        "no setting named 'TRAININ'. Did you mean 'TRAINING'?",
        "Context(TRAINING=1)",
    ),
    Mistake(
        "a setting that cannot be read",
        'Context(POLY_THREADS="many")',
        SettingError,
        "POLY_THREADS=many cannot be read: expected a whole number.",
        "Context(POLY_THREADS=4)",
    ),
    Mistake(
        "a setting of other words",
        'Context(POLY_TRACEBACK="ful")',
        SettingError,
        "POLY_TRACEBACK=ful cannot be read: expected short or full.",
        'Context(POLY_TRACEBACK="full")',
    ),
    Mistake(
        "a flag that is neither 1 nor 0",
        'Context(POLY_FUSION="maybe")',
        SettingError,
        "POLY_FUSION=maybe cannot be read: expected 1 or 0.",
        "Context(POLY_FUSION=0)",
    ),
    Mistake(
        "a misspelt name of the package",
        "polygrad.Tenosr",
        NoAttribute,
        "module 'polygrad' has no attribute 'Tenosr'. Did you mean 'Tensor'?",
        "polygrad.Tensor",
    ),
    Mistake(
        "a misspelt layer",
        "nn.Linaer(2, 3)",
        NoAttribute,
        "module 'polygrad.nn' has no attribute 'Linaer'. Did you mean 'Linear'?",
        "nn.Linear(2, 3)",
    ),
)

CHAPTER = Chapter(
    "Devices and settings",
    "A device that was named is used or is an error: nothing falls back silently.",
    MISTAKES,
    PRELUDE,
)
