"""The benchmarks' own arithmetic: ratios, limits, goals, pictures, options. Nothing is timed."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import __main__ as command
from benchmarks import cold, frameworks, limits, picture, scaling, table
from benchmarks.contest import Result
from benchmarks.errors import BenchmarkError
from benchmarks.measure import Seconds, Timing, alternate, summary
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.common import Goal


def result(median: float, cpu: float = 0.0) -> Result:
    timing = Timing(median / 2, median, cpu or median)
    return Result(timing, Seconds(0.5, 0.25), 50_000_000, 120_000_000)


def made(ours: float, goal: Goal | None = None, limit: float = 0.0, **peers: float) -> table.Row:
    results = {"ours": result(ours)} | {name: result(t) for name, t in peers.items()}
    return table.row(results, {}, limit, goal)


# ---- rows


def test_a_ratio_is_the_peers_time_over_ours_and_the_best_peer_is_the_fastest() -> None:
    row = made(0.002, torch=0.003, numpy=0.001)
    assert row["ratio"] == {"torch": pytest.approx(1.5), "numpy": pytest.approx(0.5)}
    assert row["best_peer"] == "numpy"


def test_a_fraction_is_the_limit_over_our_time() -> None:
    assert made(0.004, limit=0.003, torch=1.0)["fraction"] == pytest.approx(0.75)
    assert "fraction" not in made(0.004, torch=1.0)


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal(1.5), True),
        (Goal(1.6), False),
        (Goal(1.5, 0.5), True),
        (Goal(1.5, 0.6), False),
    ],
)
def test_a_goal_needs_the_best_peers_ratio_and_the_fraction(goal: Goal, met: bool) -> None:
    assert made(0.002, goal, limit=0.001, torch=0.003, jax=0.9)["goal"]["met"] is met


def test_without_peers_no_goal_is_judged() -> None:
    row = made(0.002, Goal(1.0))
    assert row["goal"]["met"] is None
    assert "met" not in table.line("w", row).lower()


def test_the_cpu_clock_compares_cpu_time() -> None:
    results = {"ours": result(1.0, cpu=0.2), "torch": result(1.0, cpu=0.1)}
    assert table.row(results, {}, 0.0, None)["ratio"]["torch"] == 1.0
    assert table.row(results, {}, 0.0, None, "cpu")["ratio"]["torch"] == 0.5


def test_a_line_shows_time_share_first_call_memory_and_every_peer() -> None:
    row = made(0.002, Goal(2.0, 0.4), limit=0.001, torch=0.003, jax=0.006)
    text = table.line("matmul256", row)
    assert text.startswith("matmul256 ")
    for part in ("2.000", "50%", "0.25", "120", "torch 3.000 (1.50x)*", "jax 6.000 (3.00x)  "):
        assert part in text
    assert text.endswith(">= 2.0x and 40%: NOT MET")


def test_a_contestant_that_failed_is_said_and_kept() -> None:
    row = table.row({"ours": result(1.0)}, {"jax": "no memory"}, 0.0, None)
    assert row["failed"] == {"jax": "no memory"}
    assert table.line("w", row).endswith("jax: no memory")
    lost = table.row({"torch": result(1.0)}, {"ours": "crashed"}, 0.0, Goal(1.0))
    assert "no time of ours  ours: crashed" in table.line("w", lost)


def test_rows_are_json() -> None:
    row = made(0.002, Goal(2.0), limit=0.001, torch=0.003)
    assert json.loads(json.dumps(row)) == row


# ---- limits

LIMITS = limits.Limits(100.0, {10: 40.0, 1000: 8.0}, {10: 20.0, 1000: 4.0})


def test_work_takes_as_long_as_the_slower_of_its_arithmetic_and_its_traffic() -> None:
    assert LIMITS.seconds(1000, 8, 0) == 10.0
    assert LIMITS.seconds(0, 80, 0) == 2.0


def test_traffic_is_a_copy_of_what_is_read_and_written_and_a_read_of_the_rest() -> None:
    assert LIMITS.seconds(0, 3000, 1000) == pytest.approx(2000 / 4 + 2000 / 8)
    assert LIMITS.seconds(0, 0, 2000) == pytest.approx(2000 / 4)


def test_a_rate_is_that_of_the_largest_footprint_which_is_not_larger() -> None:
    assert [limits.at(LIMITS.read, n) for n in (1, 10, 999, 1000, 5000)] == [40, 40, 40, 8, 8]


# ---- turns


def test_turns_alternate_and_a_slow_contestant_has_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import measure

    now, order = [0.0], []
    monkeypatch.setattr(measure.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(measure.time, "perf_counter", lambda: now[0])

    def turn(name: str, takes: float) -> measure.Turn:
        def one() -> Seconds:
            order.append(name)
            now[0] += takes
            return Seconds(takes, takes)

        return one

    timings = alternate({"a": turn("a", 0.01), "b": turn("b", 4.0)}, rounds=5)
    assert order == ["a", "b"] * 3 + ["a", "a"]
    assert timings["b"] == Timing(4.0, 4.0, 4.0)


def test_a_summary_has_the_best_and_the_median_turn() -> None:
    turns = [Seconds(3.0, 1.0), Seconds(1.0, 9.0), Seconds(2.0, 5.0)]
    assert summary(turns) == Timing(1.0, 2.0, 5.0)


# ---- the picture


def test_a_bar_is_limit_over_time_or_the_fastest_over_time() -> None:
    limited = picture.bars(made(0.002, limit=0.001, torch=0.004))
    assert [(b.contestant, b.length) for b in limited] == [("ours", 0.5), ("torch", 0.25)]
    plain = picture.bars(made(0.002, torch=0.001))
    assert [b.length for b in plain] == [0.5, 1.0]


def test_the_picture_is_one_svg_document_with_a_bar_for_each_time() -> None:
    rows = {
        "a<b": made(0.002, limit=0.001, torch=0.004, torch_out=0.003),
        "c": made(0.002, numpy=0.001),
        "none": table.row({}, {"ours": "crashed"}, 0.0, None),
    }
    root = ElementTree.fromstring(picture.picture(rows, "speed & limit"))
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert len(root.findall(f"{space}rect/{space}title")) == 5
    texts = [t.text for t in root.iter(f"{space}text")]
    assert {"a<b", "c *", "limit", "speed & limit", "torch out 3 ms"} <= set(texts)


def test_a_bar_beyond_the_limit_stays_inside_the_picture() -> None:
    root = ElementTree.fromstring(picture.picture({"a": made(0.001, limit=0.005)}, ""))
    width = float(root.attrib["width"])
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(rect.get("x", 0)) + float(rect.attrib["width"]) <= width


# ---- options


def missing(*names: str) -> object:
    return lambda name: f"{name} is not installed: pip install {name}" if name in names else None


def test_peers_that_were_not_asked_for_are_left_out_with_a_line() -> None:
    some, lines = frameworks.peers(None, missing("jax"))  # type: ignore[arg-type]
    assert some == ["torch", "numpy", "tinygrad"]
    assert lines == ["jax is not installed: pip install jax (left out)"]


def test_a_peer_that_was_asked_for_must_be_installed() -> None:
    with pytest.raises(BenchmarkError, match="jax is not installed: pip install jax"):
        frameworks.peers("torch,jax", missing("jax"))  # type: ignore[arg-type]
    assert frameworks.peers(" Torch , numpy,torch", missing())[0] == ["torch", "numpy"]  # type: ignore[arg-type]
    assert frameworks.peers("", missing("jax")) == ([], [])  # type: ignore[arg-type]


def test_an_unknown_peer_is_told_the_known_ones() -> None:
    with pytest.raises(BenchmarkError, match="no peer 'mxnet'; there are torch, numpy, jax"):
        frameworks.peers("mxnet")


def test_a_peer_says_how_to_get_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks.importlib.util, "find_spec", lambda name: None)
    assert frameworks.lacks("jax") == "jax is not installed: python -m pip install jax"
    monkeypatch.setattr(frameworks.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(frameworks.shutil, "which", lambda name: None)
    monkeypatch.setenv("CC", "nocc")
    assert "tinygrad compiles with nocc" in (frameworks.lacks("tinygrad") or "")
    assert frameworks.lacks("numpy") is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cpu", "--peers", "mxnet"], "no peer 'mxnet'"),
        (["cpu", "--only", "("], "no regular expression"),
        (["cpu", "--threads", "0"], "no whole number of 1 or more"),
        (["cpu", "--peers", "", "--clock", "cpu", "--threads", "2"], "--threads 1"),
        (["gpu"], "invalid choice"),
    ],
)
def test_wrong_options_end_with_words(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert words in capsys.readouterr().err


def test_a_part_of_a_suite_is_kept_only_where_asked_for() -> None:
    def out(*arguments: str) -> Path | None:
        return command.out_of(command.parser().parse_args(arguments), "2030-01-02")

    assert out("cpu", "--only", "matmul") is None
    assert out("cpu", "--only", "matmul", "--out", "x.json") == Path("x.json")
    default = out("cpu", "--threads", "3")
    assert default == command.RESULTS / "2030-01-02-cpu-3-threads.json"


# ---- workloads


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_has_ours_a_peer_and_known_contestants(name: str) -> None:
    workload = WORKLOADS[name]()
    known = {frameworks.framework_of(c) for c in workload.steps}
    assert {"ours", "torch"} <= known <= set(frameworks.FRAMEWORKS)
    assert all(amount >= 0 for amount in workload.work)


def test_growth_is_each_value_over_the_one_before() -> None:
    assert scaling.growths([1.0, 2.0, 3.0]) == [2.0, 1.5]
    assert scaling.doubling(8, 64) == (8, 16, 32, 64)


# ---- cold starts


def test_a_cold_start_is_judged_cold_and_a_third_of_it_warm() -> None:
    row = {"cold": cold.Cost(0.9, 0.5, 2.0)._asdict(), "warm": cold.Cost(0.4, 0.1, 1.0)._asdict()}
    assert cold.missed(row, 1.0) == ["warm"]
    assert cold.missed(row, 1.3) == []
    assert cold.missed(row, 0.9) == ["cold", "warm"]
    assert "cold: CPU  0.900 s (first result  0.500)" in cold.shown(row)


def test_a_cold_start_is_a_process_with_a_cache_of_its_own(tmp_path: Path) -> None:
    first = "import os; assert os.environ['POLY_CACHE_DIR'] == folder"
    cost = cold.run(cold.Program(f"folder = {str(tmp_path)!r}", first), str(tmp_path))
    assert 0 <= cost.first <= cost.cpu


def test_costs_are_summed_up_by_their_medians() -> None:
    costs = [cold.Cost(1.0, 2.0, 3.0), cold.Cost(3.0, 0.0, 4.0), cold.Cost(2.0, 1.0, 9.0)]
    assert cold.median(costs) == cold.Cost(2.0, 1.0, 4.0)


def test_a_pattern_that_no_workload_has_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command.os, "environ", {})  # where the contestants read their threads
    with pytest.raises(SystemExit):
        command.main(["cpu", "--only", "matmul512,matmul1024", "--peers", ""])
    assert "--only: no workload's name starts so; there are ['matmul256'" in capsys.readouterr().err
