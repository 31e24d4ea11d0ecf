"""Where a node came from: written once, no part of its identity."""

from __future__ import annotations

from polygrad.dtype import dtypes
from polygrad.uop.ops import UOp
from polygrad.uop.printer import show
from polygrad.uop.provenance import MAX_SITES, describe, here, mark, sites


def fresh() -> UOp:
    return UOp.const(dtypes.float32, 1.0, unique=True)


def test_the_users_line_is_found() -> None:
    u = mark(fresh(), here())
    line = test_the_users_line_is_found.__code__.co_firstlineno + 1
    assert describe(u) == f"{__file__}:{line}"


def test_the_module_path_stands_before_it() -> None:
    u = mark(fresh(), here("net.fc1"))
    assert describe(u).startswith("net.fc1 (")


def test_the_first_writer_stands_first_and_merges_keep_a_list() -> None:
    u = fresh()
    first, second = here("one"), here("two")
    mark(mark(mark(u, first), second), first)
    assert sites(u) == (first, second)


def test_the_list_does_not_grow_without_end() -> None:
    u = fresh()
    for i in range(3 * MAX_SITES):
        mark(u, here(str(i)))
    assert len(sites(u)) == MAX_SITES
    assert sites(u)[0].path == "0"


def test_it_is_no_part_of_identity() -> None:
    u = UOp.variable("identity", 0, 1, dtypes.float32)
    mark(u, here())
    assert UOp.variable("identity", 0, 1, dtypes.float32) is u


def test_frames_inside_the_package_are_skipped() -> None:
    scope = {"__name__": "polygrad.somewhere", "here": here}
    exec("def inside(): return here()", scope)
    site = scope["inside"]()
    assert site.code is test_frames_inside_the_package_are_skipped.__code__


def test_a_listing_says_where() -> None:
    u = mark(fresh(), here("net"))
    assert "# net (" in show(u)


def test_nothing_known_is_an_empty_text() -> None:
    assert describe(fresh()) == ""
