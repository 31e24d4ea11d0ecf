"""Records that cost little to make: `Frozen` is a dataclass to others, `NamedTuple` is typing's."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from polygrad.records import Frozen, NamedTuple, fields, replace


class Point(Frozen):
    x: int
    y: int = 0


class Machine(Frozen, kw_only=True, eq=False):
    name: str
    sizes: dict[str, int] = {}  # noqa: RUF012 - a default that a dataclass would refuse


class Pair(NamedTuple):
    """Two of them."""

    first: int
    second: str = "b"

    @property
    def both(self) -> tuple[int, str]:
        return (self.first, self.second)

    @classmethod
    def of(cls, first: int) -> Pair:
        return cls(first)


def test_fields_are_given_by_place_or_by_name_and_have_defaults() -> None:
    assert (Point(1).x, Point(1).y) == (1, 0)
    assert Point(1, 2) == Point(y=2, x=1) != Point(2, 1)
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    assert repr(Point(1)) == "Point(x=1, y=0)"


@pytest.mark.parametrize(
    ("kind", "values", "given", "says"),
    [
        (Point, (), {}, "Point needs x"),
        (Point, (1, 2, 3), {}, "Point takes 2 arguments without a name"),
        (Point, (1,), {"x": 1}, "Point got x twice"),
        (Point, (1,), {"z": 1}, "Point has no field 'z'"),
        (Machine, ("cpu",), {}, "Machine takes 0 arguments without a name"),
    ],
)
def test_what_does_not_fit_is_refused(kind: Any, values: Any, given: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        kind(*values, **given)


def test_nothing_of_it_changes() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="Point is frozen: x cannot be set"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="Point is frozen: x cannot be deleted"):
        del point.x
    assert replace(point, y=5) == Point(1, 5)
    assert point == Point(1)


def test_without_eq_each_equals_itself_alone() -> None:
    assert Machine(name="a") != Machine(name="a")
    assert len({Machine(name="a"), Machine(name="a")}) == 2


def test_classes_that_derive_from_it_have_its_fields() -> None:
    class Plain(Machine):
        pass

    class Place(Point):
        z: int = 0

    assert Plain(name="a").name == "a"
    assert Plain(name="a") != Plain(name="a")
    assert Place(1, 2, 3) == Place(x=1, y=2, z=3) != Point(1, 2)
    with pytest.raises(TypeError, match="Plain takes 0 arguments without a name"):
        Plain("a")  # type: ignore[misc]


def test_to_others_it_is_a_dataclass() -> None:
    assert dataclasses.replace(Point(1, 2), y=3) == Point(1, 3)
    assert dataclasses.asdict(Point(1, 2)) == {"x": 1, "y": 2}
    assert [f.name for f in dataclasses.fields(Machine)] == ["name", "sizes"]
    assert dataclasses.replace(Machine(name="a", sizes={"b": 1}), name="c").sizes == {"b": 1}
    assert fields(Point(1)) == ("x", "y")


def test_it_can_be_copied_and_sent_to_another_process() -> None:
    assert copy.copy(Point(1, 2)) == copy.deepcopy(Point(1, 2)) == Point(1, 2)
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)
    assert pickle.loads(pickle.dumps(Pair(1))) == Pair(1)


def test_a_tuple_keeps_its_names_its_defaults_and_its_methods() -> None:
    pair = Pair.of(1)
    assert (pair.first, pair.second, pair.both) == (1, "b", (1, "b"))
    assert pair._replace(second="c") == (1, "c")
    assert (Pair._fields, Pair._field_defaults) == (("first", "second"), {"second": "b"})
    assert (Pair.__doc__, Pair.__module__) == ("Two of them.", __name__)
