"""A loop's folder and its manifest: opening, changing settings, paths, and which networks are the best."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from .execution import LoopError, say
from .files import write_whole
from .manifest import FORMAT, read_manifest
from .settings import DEFAULT_PRESET, PRESETS, Settings, as_dict, check, check_files, check_named, first_use

# An older network, for the ratings and as a reference opponent, is one of this many before the best.
RECENT = 10
# Files that are being removed are moved to this folder, which nothing reads.
REMOVED = "removed"
# Phases, and the files that each of them makes in the first generation: they are made again when a setting changes
# before it is complete.
MADE_BY = {
    "start": ["gen-0000"],
    "games": ["gen-0001/games-*", "gen-0001/damaged-*"],
    "training": ["gen-0001/train", "gen-0001/network.onnx"],
    "matches": ["gen-0001/*.pgn", "gen-0001/*.pgn.json", "openings.epd"],
}


class Folder:
    """A loop's folder, locked against other processes, with its manifest and settings."""

    def __init__(self, path: Path, manifest: dict, lock: IO | None = None) -> None:
        self.path, self.manifest, self._lock = path, manifest, lock
        self.settings = Settings(**manifest["settings"])

    def save(self) -> None:
        """Writes the manifest."""
        text = json.dumps(self.manifest, indent=1) + "\n"
        write_whole(self.path / "manifest.json", lambda partial: partial.write_text(text))

    def close(self) -> None:
        """Releases the lock."""
        if self._lock:
            self._lock.close()

    # The contents of the manifest.

    @property
    def generations(self) -> list[dict]:
        """The complete generations; the first has number 0 and no games."""
        return self.manifest["generations"]

    @property
    def current(self) -> dict:
        """The results of the complete phases of an incomplete generation."""
        return self.manifest["current"]

    def learned(self) -> list[dict]:
        """Generations with games."""
        return self.generations[1:]

    def best(self) -> tuple[int, int | None]:
        """The numbers of Best1 and Best2; there is no Best2 before the first promotion."""
        promoted = [0] + [generation["generation"] for generation in self.learned() if generation["promoted"]]
        return promoted[-1], promoted[-2] if len(promoted) > 1 else None

    def older(self, number: int, rng: random.Random) -> int | None:
        """A random network that is neither the newest nor one of the best."""
        among = [n for n in range(max(0, number - RECENT), number - 1) if n not in self.best()]
        return rng.choice(among) if among else None

    # Paths.

    def of(self, generation: int) -> Path:
        """The folder of a generation."""
        return self.path / f"gen-{generation:04}"

    def network(self, generation: int) -> Path:
        return self.of(generation) / "network.onnx"

    def training(self, generation: int) -> Path:
        """The folder in which a generation is trained."""
        return self.of(generation) / "train"

    def checkpoint(self, generation: int) -> Path:
        return self.training(generation) / "checkpoint"

    @property
    def book(self) -> Path:
        """The openings of matches."""
        return self.path / "openings.epd"

    @property
    def times(self) -> Path:
        """The file of the phases' costs."""
        return self.path / "times.jsonl"

    def inside(self, text: str) -> str:
        """A text with the full paths of the folder's files."""
        return text.replace(f"{self.path}/", "")

    # The networks' checksums.

    def checksum(self, generation: int) -> str:
        """The checksum of a generation's network."""
        return hashlib.sha256(self.network(generation).read_bytes()).hexdigest()

    def verify(self) -> None:
        """Checks that the networks in the folder are those of the manifest.

        Raises:
            LoopError: one is not.
        """
        for generation in self.generations:
            number = generation["generation"]
            path = self.network(number)
            if path.exists() and self.checksum(number) != generation["network"]:
                raise LoopError(f"{path} is not the network in manifest.json: it was changed or damaged")


def open_folder(path: Path, named: dict, preset: str, version: str, rehearse: Callable[[Settings], None]) -> Folder:
    """Opens a loop, or starts one, with the given settings and the preset's for the rest.

    `rehearse` tries settings before they are kept; `version` is the program's.

    Raises:
        LoopError: the folder is not a loop's, in use, or cannot be gone on with in this way; or the rehearsal failed.
        ValueError: the settings are invalid.
    """
    if ";" in str(path):
        raise LoopError(
            f"scorn match separates options by ';', which the path {path} has: take another folder, or rename it"
        )
    # A folder that is not a loop's stays unchanged, without a lock in it.
    read_manifest(path)
    path.mkdir(parents=True, exist_ok=True)
    lock = _lock(path)
    manifest = read_manifest(path)
    if manifest is None:
        return _begin(path, lock, named, preset, version, rehearse)
    return _go_on(Folder(path, manifest, lock), named, preset, version, rehearse)


def _lock(path: Path) -> IO:
    lock = open(path / ".lock", "w")  # noqa: SIM115 - held as long as the loop runs
    if not fcntl:
        say(f"{path} cannot be locked on this system: do not start a second loop in it")
        return lock
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise LoopError(f"{path} is in use by another loop") from error
    return lock


def _begin(
    path: Path, lock: IO, named: dict, preset: str, version: str, rehearse: Callable[[Settings], None]
) -> Folder:
    settings = check(Settings(**{**PRESETS[preset or DEFAULT_PRESET], **named}))
    check_files(settings)
    say(check_named(named, settings))
    # Makes a mistyped folder of an existing loop visible.
    say(f"a new loop starts in {path}: {settings.games} games a generation, {settings.nodes} nodes a move")
    rehearse(settings)
    manifest = {"format": FORMAT, "program": version, "settings": as_dict(settings), "generations": [], "current": {}}
    folder = Folder(path, manifest, lock)
    folder.save()
    return folder


def _go_on(folder: Folder, named: dict, preset: str, version: str, rehearse: Callable[[Settings], None]) -> Folder:
    _delete_removed(folder)
    path, found = folder.path / "manifest.json", folder.manifest["settings"]
    is_made = len(folder.generations) > 1
    settings = check(Settings(**{**found, **PRESETS.get(preset, {}), **named}))
    # The defaults apply to settings that did not exist when the loop was started.
    wanted, defaults = as_dict(settings), as_dict(Settings())
    different = sorted(name for name in wanted if wanted[name] != found.get(name, defaults[name]))
    if different and is_made:
        raise LoopError(f"{path} was started with other settings ({', '.join(different)}): resume it without changes")
    rules = [name for name in different if name in PRESETS.get(preset, {}) and name not in named]
    if rules:
        # Settings that this preset does not name would keep the values of another one: a mixture of both.
        reported = f"{path} was started with other rules than those of --preset {preset} ({', '.join(rules)})"
        raise LoopError(f"{reported}: resume without --preset, or start in another folder")
    if not is_made:
        check_files(settings)
    if folder.manifest["program"] != version:
        reported = f"{folder.path} was started with {folder.manifest['program']} and resumes with {version}"
        say(f"{reported}: results may differ from those of either alone")
    if different:
        say(check_named(named, settings))
        rehearse(settings)
        _change(folder, settings, different)
    return folder


def _change(folder: Folder, settings: Settings, different: list[str]) -> None:
    """Changes settings before a generation is complete, and removes the files that the old ones made.

    If it is killed, the folder has the old settings or the new ones, and each file that it still has is of them. The
    manifest names no missing file.
    """
    phases = list(MADE_BY)
    phases = phases[min(phases.index(first_use(name)) for name in different) :]
    if "start" in phases:
        folder.manifest["generations"] = []
    folder.manifest["current"] = {name: found for name, found in folder.current.items() if name not in phases}
    folder.save()
    made = [path for phase in phases for pattern in MADE_BY[phase] for path in sorted(folder.path.glob(pattern))]
    # A folder that is removed in place could stay behind as a part of itself, which cannot be gone on with.
    removed = folder.path / REMOVED
    removed.mkdir()
    for path in made:
        path.rename(removed / path.name)
    folder.settings = settings
    folder.manifest["settings"] = as_dict(settings)
    folder.save()
    _delete_removed(folder)
    lost = ", ".join(str(path.relative_to(folder.path)) for path in made) or "nothing"
    say(f"other settings ({', '.join(different)}) before a generation was complete; removed, to be made again: {lost}")


def _delete_removed(folder: Folder) -> None:
    """Deletes what was removed, also by a loop that was killed before it could."""
    removed = folder.path / REMOVED
    if removed.exists():
        shutil.rmtree(removed)
