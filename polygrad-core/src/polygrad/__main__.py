"""`python -m polygrad` is the command `polygrad`."""

from __future__ import annotations

import sys

from .cli.command import main

sys.exit(main())
