"""What a check of the kit is, what it is run on, and what it says when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

from ...contract import LinearProgram
from ...device.interp import Handle
from ...device.interp_python import PythonWalker
from ...errors import PolygradError, pass_on, told
from ...plugin import Device
from ...target import Target
from ...uop.spec_program import line, verify_program
from ..assembler import launch

SHOWN = 120  # lines of a program, of its rendered text and of a tool's log, in a report
WIDEST = 400  # characters of one of them


class ConformanceError(AssertionError):
    """A check of the kit failed: what was expected, the LinearProgram and its rendered text."""


class Subject:
    """The device under test: its name, and the device itself, opened at the first use."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def device(self) -> Device:
        from ...device import get

        return get(self.name)

    @property
    def target(self) -> Target:
        return self.device.target

    def run(
        self, program: LinearProgram, *contents: bytes, scalars: tuple[int | float, ...] = ()
    ) -> list[bytes]:
        """The bytes of every param after one launch."""
        verify_program(program, self.target)
        with self.explained(program):
            return launch(self.device, program, *contents, scalars=scalars)

    def memory(self) -> AbstractContextManager[Callable[..., Any]]:
        """`memory_of` the device."""
        return memory_of(self.device)

    @contextmanager
    def explained(self, *programs: LinearProgram) -> Iterator[None]:
        """Adds the programs, and what the renderer made of them, to whatever fails inside."""
        try:
            yield
        except BaseException as error:
            pass_on(error)
            raise ConformanceError(f"{said(error)}\n\n{report(self.device, programs)}") from error


@contextmanager
def memory_of(device: Device) -> Iterator[Callable[..., Any]]:
    """The device's `alloc`; what it gives is freed at the end, whatever fails inside."""
    allocator = device.allocator
    with ExitStack() as held:

        def alloc(nbytes: int, **options: bool) -> Any:
            handle = allocator.alloc(nbytes, **options)
            held.callback(allocator.free, handle)
            return handle

        yield alloc


class Check(NamedTuple):
    """One check. `since` is the plugin API whose devices it applies to."""

    id: str  # "ops/ADD-float32-vector"
    run: Callable[[Subject], None]
    since: tuple[int, int] = (1, 0)


def expect(condition: Any, text: str) -> None:
    """Raise ConformanceError unless `condition` holds."""
    if not condition:
        raise ConformanceError(text)


def expect_equal(got: Any, wanted: Any, what: str) -> None:
    """Raise ConformanceError unless both are equal; of long ones the first place that differs."""
    if got == wanted:
        return
    while _is_long(got, wanted):
        at = next(i for i, (a, b) in enumerate(zip(got, wanted, strict=True)) if a != b)
        what, got, wanted = f"{what}, place {at}", got[at], wanted[at]
    raise ConformanceError(f"{what}: got {got!r}, expected {wanted!r}")


def _is_long(got: Any, wanted: Any) -> bool:
    """Whether both are sequences, equally long, of which a part says more than the whole."""
    kinds = (list, tuple, bytes, bytearray)
    alike = isinstance(got, kinds) and isinstance(wanted, kinds) and len(got) == len(wanted)
    return alike and len(repr(got)) + len(repr(wanted)) > WIDEST


@contextmanager
def expect_raises(*kinds: type[BaseException], what: str) -> Iterator[None]:
    """Raise ConformanceError unless the block raises one of `kinds`."""
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        yield
    except kinds:
        return
    except BaseException as error:
        pass_on(error)
        raise ConformanceError(f"{what}: raised {told(error)}; expected {names}") from error
    raise ConformanceError(f"{what}: raised nothing; expected {names}")


def raised(run: Callable[[], Any]) -> BaseException | None:
    """What a stranger's code raises, an exit included; not what the person at the keyboard does."""
    try:
        run()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is shown
        pass_on(error)
        return error
    return None


def said(error: BaseException) -> str:
    """What a failure says, a tool's log with the lines it has."""
    if isinstance(error, ConformanceError):
        return str(error)
    return "\n".join(_cut(told(error, lines=True).splitlines()))


def reference(
    program: LinearProgram, *contents: bytes, scalars: tuple[int | float, ...] = ()
) -> list[bytes]:
    """The bytes after one launch by the reference engine in plain Python, whatever is installed."""
    from ...contract import evaluate

    handles = [Handle(bytearray(c), 0, len(c)) for c in contents]
    values = {v.name: x for v, x in zip(program.variables, scalars, strict=True)}
    grid = tuple(evaluate(g, values) for g in program.grid)
    PythonWalker(program).run([h.memory for h in handles], grid, values)
    return [bytes(h.root) for h in handles]


def report(device: Device, programs: tuple[LinearProgram, ...]) -> str:
    """The instructions of programs and the source that the device's renderer prints for them."""
    if not programs:
        return ""
    parts = []
    for program in programs:
        lines = [line(i, instr) for i, instr in enumerate(program.ops)]
        grid = " x ".join(map(str, program.grid)) or "one block"
        parts.append(_block(f"LinearProgram {program.name}, grid {grid}:", lines))
    try:
        lines = _lines(device.renderer.render(programs).code)
    except BaseException as error:  # noqa: BLE001  (a stranger's code)
        pass_on(error)
        verb = "refuses it" if isinstance(error, PolygradError) else "fails"
        parts.append(f"The renderer {verb}: {told(error)}")
    else:
        parts.append(_block("Rendered:", lines))
    return "\n\n".join(parts)


def _lines(code: Any) -> list[str]:
    """A source as it can be read: its text, also where it comes as bytes, else the bytes."""
    if isinstance(code, str):
        return code.splitlines()
    data = bytes(memoryview(code))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        return text.splitlines()
    return [f"{at:06x}  {data[at : at + 32].hex(' ', 4)}" for at in range(0, len(data), 32)]


def _block(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *("  " + text for text in _cut(lines))])


def _cut(lines: Sequence[str]) -> list[str]:
    """The first of `lines`, each of a length that can be read and printed anywhere."""
    more = [f"... and {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    return [*map(_readable, lines[:SHOWN]), *more]


def _readable(line: str) -> str:
    """`line` without what a terminal would obey or could not print."""
    more = f" ... and {len(line) - WIDEST} more characters" if len(line) > WIDEST else ""
    shown = [c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in line[:WIDEST]]
    return "".join(shown) + more
