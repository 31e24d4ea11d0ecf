"""`python -m polygrad.testing.fuzz KIND ...`: compare with an oracle on random inputs.

    symbolic   integer expressions against brute force at every point
    programs   tensor programs on devices against numpy

Each kind is a module of its own, imported when it is asked for, with `main(arguments) -> exit
status`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Final

KINDS: Final = {"symbolic": "fuzz_symbolic", "programs": "fuzz_programs"}


def main(arguments: Sequence[str]) -> int:
    """Run the fuzzer that the first argument names with the rest."""
    if not arguments or arguments[0] not in KINDS:
        wanted = arguments[0] if arguments else "nothing"
        wrong = not arguments or arguments[0] not in ("-h", "--help")
        print(__doc__ if not wrong else f"fuzz: no kind {wanted!r}: say one of {', '.join(KINDS)}")
        return 2 if wrong else 0
    module = importlib.import_module(f"{__package__}.{KINDS[arguments[0]]}")
    status: int = module.main(arguments[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
