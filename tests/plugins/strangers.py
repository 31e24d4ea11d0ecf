"""Devices as strangers would write them, for `install`, and how tests here read what is said."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from polygrad import errors

MACHINE = """
from polygrad.device.interp import InterpDevice as Machine
from polygrad.plugin import Probe
def probe(): return Probe(True, count=1)
"""
ABSENT = """
from polygrad.plugin import Probe
def probe(): return Probe(False, detail="libacme.so.3 not found", hint="install the driver")
"""


def text(error: pytest.ExceptionInfo[errors.PolygradError]) -> str:
    return str(error.value)


def python(code: str, **environment: str) -> str:
    """What a new process prints that runs `code`."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
