"""`polygrad VERB`: arguments, exit status, and how a result is printed.

A verb is a function that takes the parsed arguments and gives a `Result`: data for `--json`, text
for people, and whether something is wrong. Exit status: 0 fine, 1 a problem, 2 wrong usage. Verbs
of plugins (the hook `polygrad_commands`) are looked for only where the verb is none of ours, so
that no plugin is loaded for `polygrad --help`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
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


def plugins(arguments: argparse.Namespace) -> Result:
    from . import plugins

    return plugins.report()


def formats(arguments: argparse.Namespace) -> Result:
    from . import plugins

    if arguments.file is not None:
        return plugins.format_of(arguments.file)
    return plugins.listing("polygrad.formats")


def models(arguments: argparse.Namespace) -> Result:
    from . import plugins

    return plugins.listing("polygrad.models")


def doctor(arguments: argparse.Namespace) -> Result:
    from . import doctor

    return doctor.report(arguments.name)


def env(arguments: argparse.Namespace) -> Result:
    from . import env

    return env.report()


def compile(arguments: argparse.Namespace) -> Result:
    from . import compile

    return compile.report(arguments.file, arguments.target, arguments.output)


def new_format(arguments: argparse.Namespace) -> Result:
    from . import new_format

    return new_format.report(arguments.name, arguments.dir)


def conformance(arguments: argparse.Namespace) -> Result:
    from . import conformance

    return conformance.report(
        arguments.name,
        pattern=arguments.k,
        file=arguments.report,
        quiet=arguments.json,
        each=arguments.verbose,
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
    (("-v", "--verbose"), {"action": "store_true", "help": "name each check before it runs"}),
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
    "plugins": Verb(
        plugins, "list every plugin of every kind: where it is from and how far it can be loaded"
    ),
    "formats": Verb(
        formats,
        "list the installed file formats, or tell which one a file is of",
        [(("file",), {"metavar": "FILE", "nargs": "?", "help": "the file to look at"})],
    ),
    "models": Verb(models, "list the installed model families"),
    "doctor": Verb(
        doctor,
        "check settings, packages, plugins and devices, and say how to mend what is wrong",
        [(("name",), {"metavar": "NAME", "nargs": "?", "help": "check this device only"})],
    ),
    "env": Verb(env, "print what a report of a fault should say about this machine"),
    "compile": Verb(
        compile,
        "compile the kernels of a bundle for a machine that need not be here",
        [
            _BUNDLE,
            (
                ("--target",),
                {"metavar": "DEVICE[:ARCH]", "required": True, "help": "such as cpu:x86_64-v3"},
            ),
            (
                ("-o", "--output"),
                {"metavar": "FOLDER", "help": "where source and code are written"},
            ),
        ],
    ),
    "new-format": Verb(
        new_format,
        "write a package that adds a file format: it builds, installs and is found",
        [
            (("name",), {"metavar": "NAME", "help": "of the format, such as acme"}),
            (("--dir",), {"metavar": "FOLDER", "default": ".", "help": "where it is written"}),
        ],
    ),
}


def parser(verbs: Mapping[str, Verb] = VERBS) -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="polygrad", description="Devices and bundles of polygrad.")
    top.add_argument("--version", action="version", version=f"polygrad-core {__version__}")
    top.add_argument("--plugins", metavar="RULES", help="as POLY_PLUGINS: none, cpu,acme or -acme")
    subparsers = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in verbs.items():
        sub = subparsers.add_parser(name, help=verb.help, description=verb.help)
        sub.add_argument("--json", action="store_true", help="print JSON")
        for flags, options in verb.arguments:
            sub.add_argument(*flags, **options)
    return top


def _verbs(given: Sequence[str]) -> Mapping[str, Verb]:
    """Ours, and those of plugins where the verb given is none of ours."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--plugins")
    known, rest = early.parse_known_args(given)
    verb = next((word for word in rest if not word.startswith("-")), None)
    if verb is None or verb in VERBS:
        return VERBS
    from . import theirs

    with Context(**_rules(known.plugins)):
        return {**theirs.verbs(verb), **VERBS}


def _rules(plugins: str | None) -> dict[str, str]:
    return {} if plugins is None else {"POLY_PLUGINS": plugins}


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    as_json = "--json" in given
    try:
        verbs = _verbs(given)
        arguments = parser(verbs).parse_args(given)
        with Context(**_rules(arguments.plugins)):
            result = verbs[arguments.verb].run(arguments)
    except (PolygradError, OSError) as error:
        if as_json:
            print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        else:
            print(f"polygrad: {error}", file=sys.stderr)
        return 1
    say(json.dumps(result.data, indent=2) if arguments.json else result.text)
    return 0 if result.ok else 1


def say(text: str) -> None:
    """Print, also to a reader that has seen enough (`polygrad inspect net.pgb | head -1`) and to
    one that has no such letters."""
    try:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
