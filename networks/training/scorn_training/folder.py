"""A loop's folder and its manifest: opening, changing settings, where things are and which networks are the best."""

from __future__ import annotations

import fcntl
import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO

from .execution import LoopError, say
from .files import write_whole
from .manifest import FORMAT, read_manifest
from .settings import DEFAULT_PRESET, PRESETS, Settings, as_dict, check, check_files, check_named, first_use

# An older network, for the ratings and as a reference opponent, is one of this many before the best.
RECENT = 10
# Phases, and what each of them makes of the first generation: what is done anew when a setting changes before it is
# complete.
MADE_BY = {
    "start": ["gen-0000"],
    "games": ["gen-0001/games-*", "gen-0001/damaged-*"],
    "training": ["gen-0001/train", "gen-0001/network.onnx"],
    "matches": ["gen-0001/*.pgn", "gen-0001/*.pgn.json", "openings.epd"],
}


class Folder:
    """A loop's folder, which no other process can have while the lock is held, its manifest and its settings."""

    def __init__(self, path: Path, manifest: dict, lock: IO | None = None) -> None:
        self.path, self.manifest, self._lock = path, manifest, lock
        self.settings = Settings(**manifest["settings"])

    def save(self) -> None:
        """Writes the manifest."""
        text = json.dumps(self.manifest, indent=1) + "\n"
        write_whole(self.path / "manifest.json", lambda partial: partial.write_text(text))

    def close(self) -> None:
        """Lets others open it."""
        if self._lock:
            self._lock.close()

    # What the manifest tells of.

    @property
    def generations(self) -> list[dict]:
        """Those that are complete; the first has number 0 and no games."""
        return self.manifest["generations"]

    @property
    def current(self) -> dict:
        """What came of the phases that are complete in a generation that is not."""
        return self.manifest["current"]

    def learned(self) -> list[dict]:
        """Generations with games."""
        return self.generations[1:]

    def best(self) -> tuple[int, int | None]:
        """The numbers of Best1 and Best2; there is no Best2 before somebody was promoted."""
        promoted = [0] + [generation["generation"] for generation in self.learned() if generation["promoted"]]
        return promoted[-1], promoted[-2] if len(promoted) > 1 else None

    def older(self, number: int, rng: random.Random) -> int | None:
        """A network by lot that is neither the newest, nor one of the best."""
        among = [n for n in range(max(0, number - RECENT), number - 1) if n not in self.best()]
        return rng.choice(among) if among else None

    # Where things are.

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
        """What the phases cost."""
        return self.path / "times.jsonl"

    def inside(self, text: str) -> str:
        """A text about files of the folder, with their paths in it."""
        return text.replace(f"{self.path}/", "")

    # Whether the networks are the right ones.

    def checksum(self, generation: int) -> str:
        """The checksum of a generation's network."""
        return hashlib.sha256(self.network(generation).read_bytes()).hexdigest()

    def verify(self) -> None:
        """Looks whether the networks that are still there are those that the manifest tells of.

        Raises:
            LoopError: one is not.
        """
        for generation in self.generations:
            number = generation["generation"]
            path = self.network(number)
            if path.exists() and self.checksum(number) != generation["network"]:
                raise LoopError(f"{path} is not the network that manifest.json tells of: it was changed or damaged")


def open_folder(path: Path, named: dict, preset: str, version: str, rehearse: Callable[[Settings], None]) -> Folder:
    """Opens a loop, or begins one: with the settings that are named, and the preset's for the rest.

    `rehearse` tries settings before they are kept; `version` is the program's.

    Raises:
        LoopError: the folder is not a loop's, in use, or cannot be gone on with in this way; or the rehearsal failed.
        ValueError: the settings make no sense.
    """
    if ";" in str(path):
        raise LoopError(
            f"scorn match parts options by ';', which the path {path} has: take another folder, or rename it"
        )
    # What is no loop's stays as it is, without a lock in it.
    read_manifest(path)
    path.mkdir(parents=True, exist_ok=True)
    lock = _lock(path)
    manifest = read_manifest(path)
    if manifest is None:
        return _begin(path, lock, named, preset, version, rehearse)
    return _go_on(Folder(path, manifest, lock), named, preset, version, rehearse)


def _lock(path: Path) -> IO:
    lock = open(path / ".lock", "w")  # noqa: SIM115 - held as long as the loop runs
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
    # Who mistyped the folder of a loop that is to go on should know.
    say(f"a new loop begins in {path}: {settings.games} games a generation, {settings.nodes} nodes a move")
    rehearse(settings)
    manifest = {"format": FORMAT, "program": version, "settings": as_dict(settings), "generations": [], "current": {}}
    folder = Folder(path, manifest, lock)
    folder.save()
    return folder


def _go_on(folder: Folder, named: dict, preset: str, version: str, rehearse: Callable[[Settings], None]) -> Folder:
    path, found = folder.path / "manifest.json", folder.manifest["settings"]
    is_made = len(folder.generations) > 1
    settings = check(Settings(**{**found, **PRESETS.get(preset, {}), **named}))
    # The defaults are for settings that the program that began did not know.
    wanted, defaults = as_dict(settings), as_dict(Settings())
    different = sorted(name for name in wanted if wanted[name] != found.get(name, defaults[name]))
    if different and is_made:
        raise LoopError(f"{path} was begun with other settings ({', '.join(different)}): go on as it was begun")
    rules = [name for name in different if name in PRESETS.get(preset, {}) and name not in named]
    if rules:
        # What this preset does not speak of would stay as another one has it: the rules of nobody.
        told = f"{path} was begun with other rules than those of --preset {preset} ({', '.join(rules)})"
        raise LoopError(f"{told}: go on without --preset, or begin in another folder")
    if not is_made:
        check_files(settings)
    if folder.manifest["program"] != version:
        told = f"{folder.path} was begun with {folder.manifest['program']} and goes on with {version}"
        say(f"{told}: it need not come out as with either alone")
    if different:
        say(check_named(named, settings))
        rehearse(settings)
        _change(folder, settings, different)
    return folder


def _change(folder: Folder, settings: Settings, different: list[str]) -> None:
    """Takes these settings for those with which nothing was completed yet, and removes what the old ones have made.

    Killed on the way it has the old settings still, and the manifest tells of nothing that is not there.
    """
    phases = list(MADE_BY)
    phases = phases[min(phases.index(first_use(name)) for name in different) :]
    if "start" in phases:
        folder.manifest["generations"] = []
    folder.manifest["current"] = {name: found for name, found in folder.current.items() if name not in phases}
    folder.save()
    made = [path for phase in phases for pattern in MADE_BY[phase] for path in sorted(folder.path.glob(pattern))]
    for path in made:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    folder.settings = settings
    folder.manifest["settings"] = as_dict(settings)
    folder.save()
    lost = ", ".join(str(path.relative_to(folder.path)) for path in made) or "nothing"
    say(f"other settings ({', '.join(different)}) before a generation was complete; removed, to be made anew: {lost}")
