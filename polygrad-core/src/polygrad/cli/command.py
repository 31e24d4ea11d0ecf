"""`polygrad VERB`: arguments, exit status, and how a result is printed.

A verb is a function that takes the parsed arguments and gives a `Result`: data for `--json`, text
for people, and whether something is wrong. Exit status: 0 fine, 1 a problem, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import __version__
from ..errors import PolygradError
from ..settings import Context


class Result(NamedTuple):
    data: Any  # what --json prints
    text: str
    ok: bool = True


def devices(arguments: argparse.Namespace) -> Result:
    from . import devices

    return devices.report(verbose=arguments.verbose)


def inspect(arguments: argparse.Namespace) -> Result:
    from . import bundle

    return bundle.report(arguments.file)


def tune(arguments: argparse.Namespace) -> Result:
    from . import tune

    a = arguments
    return tune.report(a.file, a.output, a.device, a.beam, a.seconds)


def conformance(arguments: argparse.Namespace) -> Result:
    from . import conformance

    return conformance.report(
        arguments.name, pattern=arguments.k, file=arguments.report, quiet=arguments.json
    )


def new_backend(arguments: argparse.Namespace) -> Result:
    from . import new_backend

    return new_backend.report(arguments.name, arguments.dir)


class Verb(NamedTuple):
    run: Callable[[argparse.Namespace], Result]
    help: str
    arguments: Sequence[tuple[tuple[str, ...], dict[str, Any]]] = ()


_VERBOSE = (
    ("-v", "--verbose"),
    {"action": "store_true", "help": "also where each device comes from and what it cost to ask"},
)
_BUNDLE = (("file",), {"metavar": "FILE.pgb", "help": "a bundle that Model.save wrote"})
_KIT = (
    (("name",), {"metavar": "NAME", "help": "the device, such as cpu or acme:1"}),
    (("-k",), {"metavar": "TEXT", "default": "", "help": "only checks whose name contains TEXT"}),
    (("--report",), {"metavar": "FILE", "help": "write every check's outcome to FILE as JSON"}),
)
_NEW = (
    (("name",), {"metavar": "NAME", "help": "the device, such as acme"}),
    (("--dir",), {"metavar": "DIR", "help": "where; polygrad-backend-NAME if not given"}),
)
VERBS: dict[str, Verb] = {
    "conformance": Verb(
        conformance, "check a device against everything that the contract asks of it", _KIT
    ),
    "devices": Verb(
        devices,
        "list the installed devices and say which of them work here",
        [_VERBOSE],
    ),
    "new-backend": Verb(
        new_backend, "write a package with a device that passes the conformance kit", _NEW
    ),
    "inspect": Verb(
        inspect,
        "show the entrypoints, shapes, state and sizes of a bundle; reads no weights",
        [_BUNDLE],
    ),
    "tune": Verb(
        tune,
        "search for faster kernels for this machine and write them into a bundle",
        [
            _BUNDLE,
            (("-o", "--output"), {"metavar": "OUT.pgb", "help": "write another file instead"}),
            (("--device",), {"help": "device to tune for; the one in force if not given"}),
            (("--beam",), {"type": int, "default": 4, "help": "width of the search (4)"}),
            (
                ("--seconds",),
                {"type": int, "default": 10, "help": "time of the search for one kernel (10)"},
            ),
        ],
    ),
}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="polygrad", description="Devices and bundles of polygrad.")
    top.add_argument("--version", action="version", version=f"polygrad-core {__version__}")
    top.add_argument("--plugins", metavar="RULES", help="as POLY_PLUGINS: none, cpu,acme or -acme")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        sub = verbs.add_parser(name, help=verb.help, description=verb.help)
        sub.add_argument("--json", action="store_true", help="print JSON")
        for flags, options in verb.arguments:
            sub.add_argument(*flags, **options)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    rules = {} if arguments.plugins is None else {"POLY_PLUGINS": arguments.plugins}
    try:
        with Context(**rules):
            result = VERBS[arguments.verb].run(arguments)
    except (PolygradError, OSError) as error:
        if arguments.json:
            print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        else:
            print(f"polygrad: {error}", file=sys.stderr)
        return 1
    _print(json.dumps(result.data, indent=2) if arguments.json else result.text)
    return 0 if result.ok else 1


def _print(text: str) -> None:
    """Print, also to a reader that has seen enough (`polygrad inspect net.pgb | head -1`)."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
