"""Files that are either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` write beside the file and renames: a killed run or a full disk leaves what was there before."""
    partial = path.with_suffix(".partial")
    write(partial)
    os.replace(partial, path)
