"""Row 9 of the reliability regime: ThreadSanitizer sees no race in the executor (`nox -s tsan`).

The tests of the executor and of the engine's threads run once more, in processes whose executor and
kernels are watched. First the stand shows that it works: it must report each of several faults that
are planted in the executor.

There is no list of reports to leave out: CPython's own locks order what it does, and none of its
accesses is reported. If a release of CPython changes that, such a list says for each frame why.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .faults import FAULTS, Fault
from .stand import Ended, Missing, Stand

EXECUTOR = "tests/cpu/test_executor.py"
THREADS = ("tests/engine/test_threads.py", "tests/reliability/test_fork.py")
SAME_BITS = "bits_do_not_depend"
MEASURES_MEMORY = "grow"  # which the sanitizer needs much of


def stand(folder: Path, text: str | None = None) -> Stand:
    try:
        return Stand(folder, text)
    except Missing as missing:
        told = str(missing)
    return pytest.fail(told, pytrace=False)


def check_clean(ended: Ended, text: Path) -> None:
    assert not ended.reports, f"ThreadSanitizer says, by line of {text}:\n{ended.reports}"
    assert ended.status == 0, ended.said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Stand:
    return stand(tmp_path_factory.mktemp("executor"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_reported(fault: Fault, tmp_path: Path) -> None:
    planted = stand(tmp_path, fault.text())
    ended = planted.pytest(f"{EXECUTOR}::{fault.test}", threads=3, first=True)
    assert "WARNING: ThreadSanitizer: data race" in ended.reports, ended.said


def test_the_executor_is_clean(whole: Stand) -> None:
    """Phases and rows, changing tiles, sleeping and waking, retiring, closing, forks; 1 to 8
    threads, which the tests choose themselves."""
    check_clean(whole.pytest(EXECUTOR, threads=3), whole.source)


def test_programs_of_many_kinds_are_clean(whole: Stand) -> None:
    """On 1 to 8 threads, in processes that the test starts; and their bits are equal."""
    check_clean(whole.pytest(THREADS[0], "-k", SAME_BITS, threads=3), whole.source)


@pytest.mark.parametrize("threads", [2, 3, 4, 8])
def test_runtimes_on_several_threads_are_clean(whole: Stand, threads: int) -> None:
    command = (*THREADS, "--device", "cpu", "-k", f"not {SAME_BITS} and not {MEASURES_MEMORY}")
    check_clean(whole.pytest(*command, threads=threads), whole.source)


def test_kernels_whose_every_block_is_a_ticket_are_clean(whole: Stand) -> None:
    """Random programs: no two blocks of a kernel, and no two steps of a phase, share data."""
    command = ("polygrad.testing.fuzz", "programs", "-n", "100", "--devices", "cpu")
    check_clean(whole.module(*command, threads=3, split=True), whole.source)
