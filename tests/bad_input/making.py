"""Mistakes in making tensors."""

from __future__ import annotations

from polygrad.errors import ArgumentError, DTypeError, ShapeError

from .mistake import Chapter, Mistake

MISTAKES = (
    Mistake(
        "a ragged list",
        "Tensor([[1, 2], [3]])",
        ShapeError,
        "Tensor: a list must be rectangular: entry 1 at depth 1 has 1 elements, entry 0 has 2.",
        "Tensor([[1, 2], [3, 0]])",
    ),
    Mistake(
        "a list of lists and numbers",
        "Tensor([[1, 2], 3])",
        ShapeError,
        "Tensor: a list must be rectangular: entry 1 at depth 1 has no elements of its own,"
        " entry 0 has 2.",
    ),
    Mistake(
        "numbers and lists",
        "Tensor([1, [2, 3]])",
        ShapeError,
        "Tensor: a list must be rectangular: numbers and lists stand side by side.",
    ),
    Mistake(
        "a ragged list further in",
        "Tensor([[[1], [2]], [[3]]])",
        ShapeError,
        "Tensor: a list must be rectangular: entry 1 at depth 1 has 1 elements, entry 0 has 2.",
    ),
    Mistake(
        "a ragged list with an empty row",
        "Tensor([[1], []])",
        ShapeError,
        "Tensor: a list must be rectangular: entry 1 at depth 1 has 0 elements, entry 0 has 1.",
    ),
    Mistake(
        "a list of texts",
        'Tensor(["1", "2"])',
        ArgumentError,
        "Tensor: a list holds numbers, not str.",
        "Tensor([1, 2])",
    ),
    Mistake(
        "a list with None",
        "Tensor([1.0, None])",
        ArgumentError,
        "Tensor: a list holds numbers, not NoneType.",
        'Tensor([1.0, float("nan")])',
    ),
    Mistake(
        "a text",
        'Tensor("1")',
        ArgumentError,
        "Tensor takes numbers, nested lists and arrays, not str.",
        "Tensor(1)",
    ),
    Mistake(
        "nothing",
        "Tensor(None)",
        ArgumentError,
        "Tensor takes numbers, nested lists and arrays, not NoneType.",
        "Tensor([])",
    ),
    Mistake(
        "a set",
        "Tensor({1, 2})",
        ArgumentError,
        "Tensor takes numbers, nested lists and arrays, not set.",
        "Tensor([1, 2])",
    ),
    Mistake(
        "a generator",
        "Tensor(i for i in range(3))",
        ArgumentError,
        "Tensor takes numbers, nested lists and arrays, not generator.",
        "Tensor([i for i in range(3)])",
    ),
    Mistake(
        "a complex number",
        "Tensor(1j)",
        ArgumentError,
        "Tensor takes numbers, nested lists and arrays, not complex.",
    ),
    Mistake(
        "an array of complex numbers",
        "Tensor(np.array([1j]))",
        DTypeError,
        "Tensor: elements of buffer format 'Zd' have no dtype here. Valid: bool, int8, uint8,"
        " int16, uint16, int32, uint32, int64, uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
        "Tensor(np.array([1j]).real)",
    ),
    Mistake(
        "an array of texts",
        'Tensor(np.array(["a"]))',
        DTypeError,
        "Tensor: elements of buffer format '1w' have no dtype here. Valid: bool, int8, uint8,"
        " int16, uint16, int32, uint32, int64, uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
    ),
    Mistake(
        "an array of objects",
        "Tensor(np.array([None, 1]))",
        DTypeError,
        "Tensor: elements of buffer format 'O' have no dtype here. Valid: bool, int8, uint8,"
        " int16, uint16, int32, uint32, int64, uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
    ),
    Mistake(
        "an array of dates",
        'Tensor(np.array(["2020-01-01"], "datetime64[D]"))',
        ArgumentError,
        "Tensor takes numbers, nested lists and arrays, not ndarray of datetime64[D].",
    ),
    Mistake(
        "an unknown dtype",
        'Tensor([1.0], dtype="flaot32")',
        DTypeError,
        "no dtype named 'flaot32'. Did you mean 'float32'? Valid: bool, int8, uint8, int16,"
        " uint16, int32, uint32, int64, uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
        'Tensor([1.0], dtype="float32")',
    ),
    Mistake(
        "a dtype that nobody has",
        'Tensor([1.0], dtype="complex64")',
        DTypeError,
        "no dtype named 'complex64'. Valid: bool, int8, uint8, int16, uint16, int32, uint32,"
        " int64, uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
    ),
    Mistake(
        "a Python type that is no number",
        "Tensor([1.0], dtype=str)",
        DTypeError,
        "no dtype named 'str'. Valid: bool, int8, uint8, int16, uint16, int32, uint32, int64,"
        " uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
        "Tensor([1.0], dtype=float)",
    ),
    Mistake(
        "a dtype of numpy's that is none of ours",
        "Tensor.zeros(3).cast(np.complex128)",
        DTypeError,
        "no dtype named 'complex128'. Valid: bool, int8, uint8, int16, uint16, int32, uint32,"
        " int64, uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
        "Tensor.zeros(3).cast(np.float64)",
    ),
    Mistake(
        "a dtype of kernels",
        "Tensor.zeros(3).cast(dtypes.index)",
        DTypeError,
        "index is no dtype of tensors. Valid: bool, int8, uint8, int16, uint16, int32, uint32,"
        " int64, uint64, float8_e4m3fn, float8_e5m2,"
        " float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64.",
        "Tensor.zeros(3).cast(dtypes.int64)",
    ),
    Mistake(
        "a bitcast to another width",
        'Tensor.zeros(3).bitcast("int64")',
        DTypeError,
        "bitcast: the bits of float32 are no int64.",
        'Tensor.zeros(3).bitcast("int32")',
    ),
    Mistake(
        "2**40 as int32",
        'Tensor([2**40], dtype="int32")',
        ArgumentError,
        "Tensor: 1099511627776 does not fit int32 (-2147483648 to 2147483647).",
        'Tensor([2**40], dtype="int64")',
    ),
    Mistake(
        "2**40 beside int32",
        "Tensor([1, 2]) + 2**40",
        ArgumentError,
        "add: 1099511627776 does not fit int32 (-2147483648 to 2147483647); cast the tensor to"
        " int64 first.",
        "Tensor([1, 2]).long() + 2**40",
    ),
    Mistake(
        "2**40 everywhere as int32",
        'Tensor.full((2,), 2**40, dtype="int32")',
        ArgumentError,
        "full: 1099511627776 does not fit int32 (-2147483648 to 2147483647).",
        "Tensor.full((2,), 2**40)",
    ),
    Mistake(
        "300 beside uint8",
        'Tensor([1], dtype="uint8") + 300',
        ArgumentError,
        "add: 300 does not fit uint8 (0 to 255); cast the tensor to int64 first.",
        'Tensor([1], dtype="uint8").int() + 300',
    ),
    Mistake(
        "a negative number beside uint8",
        'Tensor([1], dtype="uint8") * -1',
        ArgumentError,
        "mul: -1 does not fit uint8 (0 to 255); cast the tensor to int64 first.",
        'Tensor([1], dtype="uint8").int() * -1',
    ),
    Mistake(
        "an integer that no dtype holds",
        "Tensor([2**70])",
        ArgumentError,
        "Tensor: 1180591620717411303424 fits no integer dtype.",
        "Tensor([2.0**70])",
    ),
    Mistake(
        "an integer that no float holds",
        "Tensor([1.0]) * 10**400",
        ArgumentError,
        "mul: an integer beyond 10**60 does not fit float32.",
    ),
    Mistake(
        "NaN as an integer",
        'Tensor([float("nan")], dtype="int32")',
        ArgumentError,
        "Tensor: nan is no integer.",
        'Tensor([float("nan")])',
    ),
    Mistake(
        "an infinity as an integer",
        'Tensor.full((2,), float("inf"), dtype="int32")',
        ArgumentError,
        "full: inf does not fit int32 (-2147483648 to 2147483647).",
        'Tensor.full((2,), float("inf"))',
    ),
    Mistake(
        "full of a list",
        "Tensor.full((2,), [1, 2])",
        ArgumentError,
        "full: fill_value is a number, not [1, 2].",
        "Tensor([1, 2])",
    ),
    Mistake(
        "arange without a step",
        "Tensor.arange(0, 10, 0)",
        ArgumentError,
        "arange: the step is 0.",
        "Tensor.arange(0, 10, 2)",
    ),
    Mistake(
        "arange without an end",
        'Tensor.arange(0, float("inf"))',
        ArgumentError,
        "arange: 0, inf and 1 must be finite.",
        "Tensor.arange(0, 10)",
    ),
    Mistake(
        "arange beyond its dtype",
        'Tensor.arange(300, dtype="int8")',
        ArgumentError,
        "arange: 299 does not fit int8 (-128 to 127).",
        'Tensor.arange(300, dtype="int16")',
    ),
    Mistake(
        "linspace of half a step",
        "Tensor.linspace(0, 1, 2.5)",
        ArgumentError,
        "linspace: steps is an integer, not 2.5.",
        "Tensor.linspace(0, 1, 3)",
    ),
    Mistake(
        "meshgrid",
        'Tensor.meshgrid(Tensor.ones(2), indexing="yx")',
        ArgumentError,
        "meshgrid: no indexing named 'yx'. Valid: ij, xy.",
        'Tensor.meshgrid(Tensor.ones(2), indexing="xy")',
    ),
    Mistake(
        "one_hot of floats",
        "Tensor([1.5]).one_hot(3)",
        DTypeError,
        "one_hot takes the numbers of classes, not float32.",
        "Tensor([1]).one_hot(3)",
    ),
    Mistake(
        "random integers",
        'Tensor.rand(3, dtype="int32")',
        DTypeError,
        "rand draws floats, not int32.",
        "Tensor.randint(3)",
    ),
    Mistake(
        "an empty range of random integers",
        "Tensor.randint(3, low=5, high=2)",
        ArgumentError,
        "randint: low and high are integers, low < high, not 5 and 2.",
        "Tensor.randint(3, low=2, high=5)",
    ),
    Mistake(
        "random integers beyond their dtype",
        "Tensor.randint(3, high=2**40)",
        ArgumentError,
        "randint: 0 to 1099511627775 does not fit int32.",
        'Tensor.randint(3, high=2**40, dtype="int64")',
    ),
    Mistake(
        "a seed that is no number",
        'Tensor.manual_seed("42")',
        ArgumentError,
        "manual_seed: seed is an integer, not '42'.",
        "Tensor.manual_seed(42)",
    ),
    Mistake(
        "an address without encryption",
        """\
from polygrad import fetch
fetch("http://example.org/weights.bin")
""",
        ArgumentError,
        "fetch: 'http://example.org/weights.bin' is not encrypted: anyone on the way can "
        "change the file. Take https, or allow it with insecure=True.",
    ),
    Mistake(
        "a file as an address",
        'Tensor.from_url("weights.bin")',
        ArgumentError,
        "from_url: an address begins with https://, not 'weights.bin'.",
    ),
    Mistake(
        "a probability above 1",
        "Tensor.ones(2).dropout(50)",
        ArgumentError,
        "dropout: a probability lies in [0, 1], not 50.",
        "Tensor.ones(2).dropout(0.5)",
    ),
)

CHAPTER = Chapter(
    "Making tensors",
    "Lists are rectangular and hold numbers; a number must fit the dtype that is asked for.",
    MISTAKES,
)
