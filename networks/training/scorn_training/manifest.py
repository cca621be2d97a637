"""Reads and validates manifest.json of a loop. Users edit it and other programs have one, too: faults are named."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

from .execution import LoopError
from .settings import RENAMED, Settings, check

FORMAT = 1

# The parts of a manifest that are validated. A list gives the type of its items and their minimum number; the key `str`
# stands for all keys.
GAMES: dict = {
    **dict.fromkeys(["games", "white", "draws", "black", "decisive", "plies", "nodes", "samples"], int),
    "sc_limit": float,
    "folders": [str, 1],
}
TRAINING: dict = {"positions": int, "steps": int, "learned": {str: float}, "fresh": {str: float}, "network": str}
MATCH: dict = dict.fromkeys(["first", "second"], str) | dict.fromkeys(["wins", "draws", "losses"], int)
# Ratings depend on these names.
PLAYER = re.compile(r"gen-[0-9]+|Stockfish [0-9]+")
PHASES: dict = {"games": GAMES, "training": TRAINING, "matches": [MATCH, 1]}
BEGUN: dict = {"generation": int, "network": str}
LEARNED: dict = {**BEGUN, **PHASES, "promoted": bool, "win_rates": [float, 2]}
WHOLE: dict = {"format": int, "program": str, "settings": {}, "generations": [dict, 0], "current": {}}

WORDS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false", dict: "an object"}


def read_manifest(folder: Path) -> dict | None:
    """The manifest of a loop's folder; None where a new loop can start. Nothing is written.

    Raises:
        LoopError: the folder is not a loop's, or its manifest is invalid.
    """
    path = folder / "manifest.json"
    if not path.exists():
        items = folder.iterdir() if folder.exists() else []
        others = [item.name for item in items if item.name not in (".lock", "manifest.partial")]
        if others:
            raise LoopError(f"{folder} is not empty ({others[0]} is in it) and holds no manifest.json")
        return None
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise _damaged(path, f"it is not JSON: {error}") from error
    # The contents of other formats are unknown.
    wrong = fault(found, {"format": int}) or (fault(found, WHOLE) if found["format"] == FORMAT else "")
    if wrong:
        raise _damaged(path, wrong)
    if found["format"] != FORMAT:
        raise LoopError(f"{path} is of another version of this program: its format is {found['format']}, not {FORMAT}")
    kinds = {item.name: type(item.default) for item in fields(Settings)}
    settings = {RENAMED.get(name, name): value for name, value in found["settings"].items()}
    found["settings"] = settings
    unknown = sorted(settings.keys() - kinds.keys())
    if unknown:
        raise LoopError(f"{path} is of another version of this program: there is no setting {', '.join(unknown)}")
    # Missing settings did not exist when the loop was started.
    wrong = fault(settings, {name: kinds[name] for name in settings}, "settings") or _fault_of_generations(found)
    if wrong:
        raise _damaged(path, wrong)
    try:
        check(Settings(**settings))
    except ValueError as error:
        raise _damaged(path, f'"settings": {error}') from error
    return found


def fault(found: object, shape: type | dict | list, name: str = "") -> str:
    """The fault of a value, and its place; empty: none."""
    kind = shape if isinstance(shape, type) else type(shape)
    is_right = type(found) is kind or (kind is float and type(found) is int)
    if isinstance(shape, list):
        item, least = shape
        if not is_right or len(found) < least:
            return f"{_called(name)} must be a list{f' of at least {least}' if least else ''}"
        return next(filter(None, (fault(value, item, f"{name}[{at}]") for at, value in enumerate(found))), "")
    if not is_right:
        return f"{_called(name)} must be {WORDS[kind]}"
    for key, inner in shape.items() if isinstance(shape, dict) else ():
        if key is not str and key not in found:
            return f'"{key}" is missing' + (f" in {_called(name)}" if name else "")
        for at in found if key is str else [key]:
            wrong = fault(found[at], inner, f"{name}.{at}" if name else at)
            if wrong:
                return wrong
    return ""


def _called(name: str) -> str:
    return f'"{name}"' if name else "it"


def _fault_of_generations(manifest: dict) -> str:
    for at, generation in enumerate(manifest["generations"]):
        name = f"generations[{at}]"
        wrong = fault(generation, LEARNED if at else BEGUN, name)
        if not wrong and generation["generation"] != at:
            wrong = f'"{name}.generation" must be {at}'
        if not wrong and at:
            wrong = _fault_of_players(generation["matches"], name)
        if wrong:
            return wrong
    current = manifest["current"]
    wrong = fault(current, {name: shape for name, shape in PHASES.items() if name in current}, "current")
    return wrong or _fault_of_players(current.get("matches", []), "current")


def _fault_of_players(matches: list[dict], name: str) -> str:
    for at, match in enumerate(matches):
        for side in ("first", "second"):
            if not PLAYER.fullmatch(match[side]):
                return f'"{name}.matches[{at}].{side}" must be such as gen-3 or Stockfish 1320'
    return ""


def _damaged(path: Path, wrong: str) -> LoopError:
    return LoopError(
        f"{path} is damaged, or not that of a loop ({wrong}): repair it, restore a copy, or start in another folder"
    )
