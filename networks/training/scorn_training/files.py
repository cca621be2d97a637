"""Files that are either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` write beside the file and renames: a killed run or a full disk leaves what was there before.

    The file is on the disk before it gets its name, and its name is there when this returns: after a power failure
    there is the old file or the new one. Raises OSError that names the file if it cannot be written; what there is of
    it is removed then."""
    partial = path.with_suffix(".partial")
    try:
        write(partial)
        sync(partial)
        os.replace(partial, path)
        sync(path.parent)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and str(error.filename or partial) == str(partial):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def check_new(path: Path, force: bool) -> None:
    """Raises ValueError if a file is there, unless `force` allows to replace it."""
    if path.exists() and not force:
        raise ValueError(f"{path} exists; --force overwrites it")


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no such operation for folders.
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
