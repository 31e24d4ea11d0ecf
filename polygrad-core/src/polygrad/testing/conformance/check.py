"""What a check of the kit is, what it is run on, and what it says when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...contract import LinearProgram
from ...device.interp import Handle
from ...device.interp_python import PythonWalker
from ...errors import PolygradError
from ...plugin import Device
from ...target import Target
from ...uop.spec_program import line, verify_program
from ..assembler import launch

SHOWN = 120  # lines of a program, and of its rendered text, in a report


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

    @contextmanager
    def explained(self, *programs: LinearProgram) -> Iterator[None]:
        """Adds the programs, and what the renderer made of them, to whatever fails inside."""
        try:
            yield
        except ConformanceError as error:
            raise ConformanceError(f"{error}\n\n{report(self.device, programs)}") from None
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise ConformanceError(f"{text}\n\n{report(self.device, programs)}") from error


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
    """Raise ConformanceError unless both are equal."""
    expect(got == wanted, f"{what}: got {got!r}, expected {wanted!r}")


@contextmanager
def expect_raises(*kinds: type[BaseException], what: str) -> Iterator[None]:
    """Raise ConformanceError unless the block raises one of `kinds`."""
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        yield
    except kinds:
        return
    except Exception as error:
        raise ConformanceError(
            f"{what}: raised {type(error).__name__}: {error}; expected {names}"
        ) from error
    raise ConformanceError(f"{what}: raised nothing; expected {names}")


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
    parts = []
    for program in programs:
        lines = [line(i, instr) for i, instr in enumerate(program.ops)]
        grid = " x ".join(map(str, program.grid)) or "one block"
        parts.append(_block(f"LinearProgram {program.name}, grid {grid}:", lines))
    try:
        code = device.renderer.render(programs).code
    except PolygradError as error:
        parts.append(f"The renderer refuses it: {type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001  (a stranger's code)
        parts.append(f"The renderer fails: {type(error).__name__}: {error}")
    else:
        text = code if isinstance(code, str) else code.hex(" ", 4)
        parts.append(_block("Rendered:", text.splitlines()))
    return "\n\n".join(parts)


def _block(title: str, lines: list[str]) -> str:
    more = [f"... and {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    return "\n".join([title, *("  " + text for text in [*lines[:SHOWN], *more])])
