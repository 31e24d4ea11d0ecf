"""The upper storeys of Tensor come when they are asked for, by whatever way Python has to ask."""

from __future__ import annotations

import subprocess
import sys

import pytest

from polygrad import Tensor
from polygrad.tensor import upper
from polygrad.tensor.ground import Above, Ground
from polygrad.tensor.peer_names import PeerNames

# What object has, Python makes, or `__getattr__` is asked for.
ASKED = {"__module__", "__doc__", "__slots__", "__qualname__", "__firstlineno__"}
ASKED |= {"__static_attributes__", "__annotations__"}


def run(text: str) -> None:
    """In a process where nothing was asked for yet."""
    begin = "import sys\nfrom polygrad import Tensor\nx = Tensor([3.0, 1.0, 2.0])\n"
    begin += "def above(): return 'polygrad.tensor.upper' in sys.modules\n"
    subprocess.run([sys.executable, "-c", begin + text], check=True, timeout=60)


def test_the_ground_floor_computes_and_reads() -> None:
    run(
        "y = (x * 2 + 1) / 2 - 1.5\n"
        "assert y.tolist() == [2, 0, 1] and y.numpy().sum() == 3\n"
        "assert len(y) == 3 and y.shape == (3,) and 'Tensor(' in repr(y)\n"
        "assert not above()\n"
        "rooms = {'packing', 'channels', 'gaps', 'chains', 'reductions'}  # for sums of products\n"
        "assert not {f'polygrad.schedule.{room}' for room in rooms} & sys.modules.keys()"
    )


@pytest.mark.parametrize(
    "text",
    [
        "assert x.sum().item() == 6",
        "assert x[0].item() == 3",
        "x[0] = 5\nassert x.tolist() == [5, 1, 2]",
        "y = x\nx += 1\nassert y is x and y.tolist() == [4, 2, 3]",
        "assert (x @ x).item() == 14 and ([1.0, 1.0, 1.0] @ x).item() == 6",
        "assert (-x).tolist() == [-3, -1, -2] and abs(-x).tolist() == x.tolist()",
        "assert [t.item() for t in x] == [3, 1, 2] and 2.0 in x",
        "x.requires_grad = True\nassert x.requires_grad and x.is_leaf",
        "assert Tensor([1.0]).requires_grad is None",
        "assert Tensor.zeros(2).tolist() == [0, 0]",
        "assert Tensor.softmax(x).shape == (3,)",
        "assert 'softmax' in dir(Tensor)",
        "assert 'softmax' in dir(x)",
        "import pydoc\nassert ' softmax(' in pydoc.render_doc(Tensor)",
        "import inspect\nassert 'softmax' in dict(inspect.getmembers(Tensor))",
        "import pickle\nassert pickle.loads(pickle.dumps(x)).sort()[0].tolist() == [1, 2, 3]",
        "import copy\nassert copy.deepcopy(x).sum().item() == 6",
        "Tensor.sum = lambda self: 'mine'\nassert x.sum() == 'mine' and x.mean().item() == 2",
        "from polygrad import nn\nassert nn.Linear(3, 2)(x).shape == (2,)",
        "class Mine(Tensor):\n    def sum(self): return super().sum() + 1\n"
        "assert Mine([1.0, 2.0]).sum().item() == 4",
        "import threading\n"
        "all = [threading.Thread(target=lambda: x.sum().shape) for _ in range(4)]\n"
        "for t in all: t.start()\nfor t in all: t.join()\nassert x.max().item() == 3",
    ],
)
def test_the_upper_storeys_come_when_asked_for(text: str) -> None:
    run(text + "\nassert above()")


def test_a_wrong_name_is_pythons_error_before_and_after() -> None:
    run(
        "def error_of(asked):\n"
        "    try: asked.softmix\n"
        "    except AttributeError as error: return str(error)\n"
        "wrong = \"'Tensor' object has no attribute 'softmix'\"\n"
        "assert error_of(x) == wrong and above() and error_of(x) == wrong\n"
        "assert error_of(Tensor) == \"type object 'Tensor' has no attribute 'softmix'\"\n"
    )


def test_what_python_looks_up_in_the_class_has_a_way_up() -> None:
    def of_python(name: str, member: object) -> bool:
        special = name.startswith("__") and name.endswith("__") and name not in ASKED
        return special or (isinstance(member, property) and member.fset is not None)

    storeys = [s for s in PeerNames.__mro__ if s not in Ground.__mro__]
    wanted = {n for s in storeys for n, member in vars(s).items() if of_python(n, member)}
    ways = {n for n, member in vars(Ground).items() if isinstance(member, Above)}
    assert wanted == ways


def test_the_storeys_take_the_place_of_the_ground_floor() -> None:
    assert upper.Tensor is Tensor and Tensor.__bases__ == (PeerNames,)
