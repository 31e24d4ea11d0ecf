"""A device with parts that a test says, registered under the name `faulty`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from polygrad.contract import LinearProgram
from polygrad.device.interp import InterpAllocator, InterpDevice, InterpRenderer
from polygrad.plugin import DevicePlugin, Probe
from polygrad.uop.ops import Ops


class Faulty(InterpDevice):
    """The device `faulty`, its parts replaced by what a test says."""

    parts: ClassVar[dict[str, Any]] = {}

    @classmethod
    def open(cls, index: int, options: Any) -> Faulty:
        from dataclasses import fields

        device = cls(index)
        parts = dict(cls.parts)
        target = type(device.target)(
            **{f.name: getattr(device.target, f.name) for f in fields(device.target)}
            | {"name": "faulty", **parts.pop("target", {})}
        )
        device.target = target
        for name, make in parts.items():
            setattr(device, name, make(target))
        device.renderer.target = target
        return device


def probe() -> Probe:
    return Probe(True)


PLUGIN = DevicePlugin(
    name="faulty", api=(1, 0), device=f"{__name__}:Faulty", probe=f"{__name__}:probe", summary="x"
)


class Swapped(InterpRenderer):
    """Prints one operation for another."""

    pairs: ClassVar[dict[Ops, Ops]] = {}

    def render(self, programs: Any) -> Any:
        return super().render([self._faulty(p) for p in programs])

    def _faulty(self, program: LinearProgram) -> LinearProgram:
        ops = [i._replace(op=self.pairs.get(i.op, i.op)) for i in program.ops]
        return replace(program, ops=tuple(ops))


def swapped(**pairs: str) -> Callable[[Any], Swapped]:
    table = {Ops[a]: Ops[b] for a, b in pairs.items()}
    return type("Swapped", (Swapped,), {"pairs": table, "key": f"swapped {pairs}"})


def parts(**methods: Any) -> Callable[[Any], Any]:
    """An allocator that has other methods."""
    return lambda target: type("Other", (InterpAllocator,), methods)()


def launching(run: Callable[..., Any]) -> Callable[[Any], Any]:
    """A `load` whose programs are launched by `run(program, *handles, **options)`."""

    def load(binary: Any) -> Any:
        programs = InterpDevice.open(0, {}).load(binary)
        return {name: partial(run, program) for name, program in programs.items()}

    return lambda target: load
