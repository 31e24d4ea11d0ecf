"""Where a verb writes: a folder that a person has named."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import FileError


def make(folder: str | Path, option: str) -> None:
    """Make a folder and those above it; it may be there. Raises FileError, naming the option."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{folder} cannot be made a folder: {error.strerror}. Give another place with {option}."
        ) from error
