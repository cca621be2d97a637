"""Learning from itself: games, training, a gate, and again.

    python -m scorn_training.loop FOLDER --preset cgzero --generations 30
    python -m scorn_training.loop FOLDER                  goes on with what is there
    python -m scorn_training.loop FOLDER --ray auto       the same on a Ray cluster

A generation: the best network plays itself (`scorn selfplay`), a network learns from the last generations' games
(`scorn train`), plays against others (`scorn match`), and plays on if the gate says so. Everything is in the folder, the
state in manifest.json; a loop that was killed goes on where it was and loses at most games that were not over. With the
same seed and settings the same networks come out, byte by byte (matches against Stockfish and what hangs on the clock apart).

    manifest.json      settings and what came of every generation
    openings.epd       balanced openings for matches
    gen-0007/games-*/  self-play       gen-0007/train/  checkpoint, log       gen-0007/network.onnx       gen-0007/*.pgn matches
    tensorboard/, report.html, times.jsonl
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import itertools
import json
import math
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from . import charts, openings, schedule, selfplay
from .execution import Job, Local, LoopError, Program, say
from .files import write_whole
from .manifest import FORMAT, read_manifest
from .settings import DEFAULT_PRESET, PRESETS, Settings, add_arguments, as_dict, check, check_files, check_named, first_use, given

# Openings in the book of matches, at least; taken by seed.
BOOK = 200
# Between the levels of UCI_Elo at which Stockfish is asked to play.
YARDSTICK_STEP = 100
# An older network for the ratings and for rivals is one of so many before the best.
RECENT = 10
PLAIN_PUCT = 1_000_000_000
RIVALS_SHARE = 0.1
# Phases, and what each of them makes of the first generation: what is done anew when a setting changes before it is complete.
MADE_BY = {
    "start": ["gen-0000"],
    "games": ["gen-0001/games-*", "gen-0001/damaged-*"],
    "training": ["gen-0001/train", "gen-0001/network.onnx"],
    "matches": ["gen-0001/*.pgn", "gen-0001/*.pgn.json", "openings.epd"],
}
# Choice by value + log(visits), in programs that know it.
VALUE_CHOICE = ["--root-choice", "value_log_visits"]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Loop:
    """A loop in its folder, which no other process can have meanwhile."""

    def __init__(self, folder: Path, program: Program, named: dict, scorn_version: str, preset: str = "") -> None:
        """Opens a loop, or begins one: with these settings, and the preset's for the rest."""
        self.folder, self.program = folder, program
        self._choice: list[str] | None = None
        if ";" in str(folder):
            raise LoopError(f"scorn match parts options by ';', which the path {folder} has: take another folder, or rename it")
        # What is no loop's stays as it is, without a lock in it.
        read_manifest(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(folder / ".lock", "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LoopError(f"{folder} is in use by another loop") from error
        self.manifest = self._open(named, preset, scorn_version)
        self.settings = Settings(**self.manifest["settings"])
        self.executor = Local(program, self.settings.shards)

    # The manifest.

    def _open(self, named: dict, preset: str, version: str) -> dict:
        path = self.folder / "manifest.json"
        manifest = read_manifest(self.folder)
        if manifest is None:
            self.settings = check(Settings(**{**PRESETS[preset or DEFAULT_PRESET], **named}))
            check_files(self.settings)
            say(check_named(named, self.settings))
            # Who mistyped the folder of a loop that is to go on should know.
            sizes = f"{self.settings.games} games a generation, {self.settings.nodes} nodes a move"
            say(f"a new loop begins in {self.folder}: {sizes}")
            self.rehearse()
            settings = as_dict(self.settings)
            manifest = {"format": FORMAT, "program": version, "settings": settings, "generations": [], "current": {}}
            self._write(manifest)
            return manifest
        found = manifest["settings"]
        is_made = len(manifest["generations"]) > 1
        self.settings = check(Settings(**{**found, **PRESETS.get(preset, {}), **named}))
        wanted, defaults = as_dict(self.settings), as_dict(Settings())  # for settings that the program that began did not know
        different = sorted(name for name in wanted if wanted[name] != found.get(name, defaults[name]))
        if different and is_made:
            raise LoopError(f"{path} was begun with other settings ({', '.join(different)}): go on as it was begun")
        rules = [name for name in different if name in PRESETS.get(preset, {}) and name not in named]
        if rules:
            # What this preset does not speak of would stay as another one has it: the rules of nobody.
            told = f"{path} was begun with other rules than those of --preset {preset} ({', '.join(rules)})"
            raise LoopError(f"{told}: go on without --preset, or begin in another folder")
        if not is_made:
            check_files(self.settings)
        if manifest["program"] != version:
            told = f"{self.folder} was begun with {manifest['program']} and goes on with {version}"
            say(f"{told}: it need not come out as with either alone")
        if different:
            say(check_named(named, self.settings))
            self.rehearse()
            self._change(manifest, different)
        return manifest

    def _change(self, manifest: dict, different: list[str]) -> None:
        """Takes these settings for those with which nothing was completed yet, and removes what the old ones have made.

        Killed on the way it has the old settings still, and the manifest tells of nothing that is not there.
        """
        phases = list(MADE_BY)
        phases = phases[min(phases.index(first_use(name)) for name in different) :]
        if "start" in phases:
            manifest["generations"] = []
        manifest["current"] = {name: found for name, found in manifest["current"].items() if name not in phases}
        self._write(manifest)
        made = [path for phase in phases for pattern in MADE_BY[phase] for path in sorted(self.folder.glob(pattern))]
        for path in made:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        manifest["settings"] = as_dict(self.settings)
        self._write(manifest)
        lost = ", ".join(str(path.relative_to(self.folder)) for path in made) or "nothing"
        say(f"other settings ({', '.join(different)}) before a generation was complete; removed, to be made anew: {lost}")

    def rehearse(self) -> None:
        """Does a little of everything that the settings say, elsewhere, before they are kept.

        What the program refuses would else be told in the matches, when hours of games have been played.

        Raises:
            LoopError: something does not work.
        """
        try:
            with tempfile.TemporaryDirectory(prefix="scorn-loop-") as folder:
                self._rehearse(Path(folder))
        except LoopError as error:
            raise LoopError(f"these settings, tried with a few moves, do not work (nothing was written): {error}") from error

    def _rehearse(self, folder: Path) -> None:
        settings = self.settings
        levels = yardstick_levels(settings.yardstick) if settings.yardstick else None
        network, training = folder / "network.onnx", folder / "train"
        training.mkdir()
        checkpoint = training / "checkpoint"
        self.program.run(["train", "start", str(checkpoint), *self.start_flags()])
        self.program.run(["train", "export", str(checkpoint), str(network), "--name", "rehearsal", "--data", "none"])
        # Flags may suit the one who plays the first generation, but not the network that plays the others.
        for player in [Path(settings.teacher), network] if settings.teacher else [network]:
            out = folder / f"games-{player.name}"
            flags = self.game_flags(1, 2, settings.sc_limit, min(settings.longest, settings.random_plies + 2), settings.rivals)
            job = Job([*flags, "--seed", "1"], {"first": player, "second": player}, out)
            self.program.run(job.command({name: str(path) for name, path in job.files.items()}, str(out)))
        files = selfplay.whole_files(out, print)
        if selfplay.positions_of(files):
            data = [(path, 1) for path in files]
            self.program.run(self.training_flags(training, 1, settings.result_share, data))
        # So that a generous limit of time costs none, and a short one is not overstepped where the machine is busy.
        few = ["--pairs", "1", "--longest", "2", "--strict", "--margin", "60000", "--limit", self.limit()]
        new = self.player(str(network)) + ";NodeLimit=2"
        self.program.run(["match", new, new, *few, *self.sprt(), "--json"])
        if levels:
            second = ["--second-limit", "nodes=2"]
            self.program.run(["match", new, self.stockfish(levels[0]), *few, *second, "--json"])

    def _write(self, manifest: dict) -> None:
        text = json.dumps(manifest, indent=1) + "\n"
        write_whole(self.folder / "manifest.json", lambda partial: partial.write_text(text))

    def save(self) -> None:
        self._write(self.manifest)

    @property
    def generations(self) -> list[dict]:
        """Those that are complete; the first has number 0 and no games."""
        return self.manifest["generations"]

    def folder_of(self, generation: int) -> Path:
        return self.folder / f"gen-{generation:04}"

    def network(self, generation: int) -> Path:
        return self.folder_of(generation) / "network.onnx"

    def best(self) -> tuple[int, int | None]:
        """The numbers of Best1 and Best2; there is no Best2 before somebody was promoted."""
        promoted = [0] + [generation["generation"] for generation in self.generations[1:] if generation["promoted"]]
        return promoted[-1], promoted[-2] if len(promoted) > 1 else None

    def learned(self) -> list[dict]:
        """Generations with games."""
        return self.generations[1:]

    # What goes on.

    def run(self, until: int, minutes: float) -> None:
        """Goes on to this generation, or until the time is over (at the end of a generation)."""
        began = time.monotonic()
        if not self.generations:
            self._phase("start", self.begin)
            self.generations.append({"generation": 0, "network": sha256(self.network(0))})
            self.save()
        self.verify()
        self.publish()
        while len(self.learned()) < until and time.monotonic() - began < 60 * minutes:
            number = len(self.generations)
            current = self.manifest["current"]
            if "games" in current and "training" not in current:
                self.set_aside_damaged(number)
            for name, phase in (("games", self.play), ("training", self.train), ("matches", self.measure)):
                if name not in current:
                    current[name] = self._phase(name, phase, number)
                    self.save()
            self.generations.append(self.judge(number, current))
            self.manifest["current"] = {}
            self.save()
            self.clean(number)
            self.publish()
            self.tell()

    def verify(self) -> None:
        """Looks whether the networks that are still there are those that the manifest tells of."""
        for generation in self.generations:
            path = self.network(generation["generation"])
            if path.exists() and sha256(path) != generation["network"]:
                raise LoopError(f"{path} is not the network that manifest.json tells of: it was changed or damaged")

    def _phase(self, name: str, work: Callable, *arguments):
        """Does it, and notes what it cost."""
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        found = work(*arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        cost = {
            "generation": len(self.generations),
            "phase": name,
            "seconds": round(time.monotonic() - began, 2),
            "core_seconds": round(used, 2),
        }
        charts.write_cost(self.folder / "times.jsonl", cost)
        return found

    def begin(self) -> None:
        """Network 0: random weights, or those of a file."""
        folder = self.folder_of(0)
        (folder / "train").mkdir(parents=True, exist_ok=True)
        checkpoint = folder / "train" / "checkpoint"
        self.program.run(["train", "start", str(checkpoint), "--force", *self.start_flags()])
        self.export(0)
        self.book()

    def start_flags(self) -> list[str]:
        """What the first network is made from."""
        if self.settings.start != "random":
            return ["--network", self.settings.start]
        policy, value, hidden = self.settings.shape.split(",")
        sizes = ["--policy-width", policy, "--value-width", value, "--hidden", hidden]
        return [*sizes, "--seed", str(self.settings.derived("weights"))]

    def book(self) -> None:
        """Makes the openings of matches, if they are not there."""
        # A pair of players that leave nothing to chance would repeat the games of an opening that comes again.
        pairs = (self.settings.gate_pairs, self.settings.pool_pairs, self.settings.yardstick_pairs)
        seed = self.settings.derived("openings")
        openings.make(self.folder / "openings.epd", self.program, max(BOOK, *pairs), seed)

    def export(self, number: int) -> None:
        checkpoint = self.folder_of(number) / "train" / "checkpoint"
        name = ["--name", f"self-play {self.settings.seed}, generation {number}", "--data", "self-play"]
        if not self.learned() and number == 0 and self.settings.start == "random":
            name[-1] = "none: random weights"
        self.program.run(["train", "export", str(checkpoint), str(self.network(number)), "--force", *name])

    # Games.

    def limits(self) -> tuple[float, int]:
        """ScLimit (0: plain PUCT) and nodes of the generation to come."""
        settings = self.settings
        if not settings.balance:
            return settings.sc_limit, settings.nodes
        path = [
            schedule.Step(g["games"]["nodes"], g["games"]["sc_limit"], g["games"]["decisive"], g["games"]["draws"])
            for g in self.learned()
        ]
        if not path:
            return settings.sc_limit, settings.nodes
        return schedule.next_limits(path, settings.balance, settings.most_nodes)

    def pairings(self, number: int) -> list[tuple[str, int, Path, Path]]:
        """Who plays how many games against whom: name, games, networks."""
        games = self.settings.games
        first, second = self.best()
        best = self.network(first)
        if number == 1 and self.settings.teacher:
            best = Path(self.settings.teacher)
        if not self.settings.rivals or second is None:
            return [("best", games, best, best)]
        rng = random.Random(self.settings.derived(number, "rivals"))
        older = self.older(number, rng)
        strange = round(RIVALS_SHARE * games) if older is not None else 0
        # Each of the two the more games, the less the newest network won against it.
        need = [1 - rate + 1e-3 for rate in self.win_rates()]
        against_second = round((games - strange) * need[1] / sum(need))
        pairings = [("best", games - strange - against_second, best, best)]
        pairings.append(("second", against_second, best, self.network(second)))
        if strange:
            pairings.append(("older", strange, self.network(rng.choice([first, second])), self.network(older)))
        return [pairing for pairing in pairings if pairing[1] > 0]

    def win_rates(self) -> list[float]:
        """The newest network's scores against those that are Best1 and Best2 now."""
        last = self.generations[-1]
        # It was measured against the best two of then. If it is Best1 itself now, then Best2 is the Best1 of then; itself it neither
        # beats nor loses to.
        return [0.5, last["win_rates"][0]] if last["promoted"] else last["win_rates"]

    def older(self, number: int, rng: random.Random) -> int | None:
        """A network by lot that is neither the newest, nor one of the best."""
        among = [n for n in range(max(0, number - RECENT), number - 1) if n not in self.best()]
        return rng.choice(among) if among else None

    def play(self, number: int) -> dict:
        """The games of a generation."""
        settings = self.settings
        limit, nodes = self.limits()
        jobs = []
        for name, games, first, second in self.pairings(number):
            shards = min(settings.shards, games)
            for shard in range(1, shards + 1):
                arguments = self.game_flags(games, nodes, limit, settings.longest, first != second)
                arguments += ["--shard", f"{shard}/{shards}", "--seed", str(settings.derived(number, name))]
                out = self.folder_of(number) / f"games-{name}-{shard}"
                jobs.append(Job(arguments, {"first": first, "second": second}, out))
        self.executor.run(jobs)
        return self.count([job.out for job in jobs], limit, nodes)

    def game_flags(self, games: int, nodes: int, limit: float, longest: int, are_different: bool) -> list[str]:
        """A call of self-play, but for its seed and its part."""
        settings = self.settings
        arguments = ["selfplay", "--games", str(games), "--nodes", str(nodes), "--records", "--threads", "1"]
        arguments += ["--weights", "{first}", "--longest", str(longest), *settings.engine.split()]
        arguments += self.choice()
        if settings.random_plies:
            arguments += ["--random-plies", str(settings.random_plies), "--random-share", str(settings.random_share)]
        return arguments + self.sides(round(limit), are_different)

    def sides(self, limit: int, are_different: bool) -> list[str]:
        """What distinguishes the players: networks, search-contempt, odds."""
        second = ["WeightsFile={second}"] if are_different else []
        arguments = ["--sc-limit", str(limit)] if limit else []
        if self.settings.odds:
            # The receiver searches as many nodes as the giver's limit, without search-contempt (the paper's odds).
            second += [f"ScLimit={PLAIN_PUCT}", f"NodeLimit={limit}"] if limit else []
            arguments += ["--odds", self.settings.odds]
        if are_different or self.settings.odds:
            arguments += ["--a-plays", "both"]
        return arguments + (["--b", ";".join(second)] if second else [])

    def choice(self) -> list[str]:
        """The flags of choice by value + log(visits), if the program knows them."""
        if not self.settings.value_choice:
            return []
        if self._choice is None:
            # The help names the flag, not its words; who knows the one knows the other.
            is_known = VALUE_CHOICE[0] in self.program.run(["selfplay", "--help"])
            self._choice = VALUE_CHOICE if is_known else []
            if not self._choice:
                say("this program cannot choose moves by value + log(visits): it takes the most visited")
        return self._choice

    def count(self, folders: list[Path], limit: float, nodes: int) -> dict:
        """What the games of folders are together."""
        total = dict.fromkeys(["games", "white", "draws", "black", "plies", "nodes", "samples"], 0)
        for folder in folders:
            path = folder / "summary.json"
            try:
                summary = json.loads(path.read_text())
                for name in total:
                    total[name] += summary[name]
            except (ValueError, KeyError, TypeError) as error:
                told = f"{path} is damaged ({error}): delete it, and the same command writes it anew from the games beside it"
                raise LoopError(told) from error
        visits = total.pop("nodes")
        decisive = total["white"] + total["black"]
        names = [folder.name for folder in folders]
        return {**total, "visits": visits, "decisive": decisive, "sc_limit": limit, "nodes": nodes, "folders": names}

    # Training.

    def files(self, number: int, generations: range) -> tuple[list[tuple[Path, int]], list[str]]:
        """Whole files of visits with their generation, and what was left out."""
        files, left_out = [], []

        def complain(text: str) -> None:
            text = text.replace(f"{self.folder}/", "")
            left_out.append(text)
            say(text)

        for generation in generations:
            play = self.manifest["current"] if generation == number else self.generations[generation]
            for name in play["games"]["folders"]:
                folder = self.folder_of(generation) / name
                files += [(path, generation) for path in selfplay.whole_files(folder, complain)]
        return files, left_out

    def set_aside_damaged(self, number: int) -> None:
        """Has the games of this generation played again, if nothing is left of them to learn from.

        What is there is kept in a folder of its own.
        """
        games = self.manifest["current"]["games"]
        folders = [self.folder_of(number) / name for name in games["folders"]]
        told: list[str] = []
        if not games["samples"] or any([selfplay.whole_files(folder, told.append) for folder in folders]):
            return
        for text in told:
            say(text.replace(f"{self.folder}/", ""))
        names = (self.folder_of(number) / f"damaged-{at}" for at in itertools.count(1))
        aside = next(path for path in names if not path.exists())
        aside.mkdir(parents=True)
        # What was learned from a part of them would not be what is learned from all.
        for folder in [*folders, self.folder_of(number) / "train"]:
            if folder.exists():
                folder.rename(aside / folder.name)
        del self.manifest["current"]["games"]
        self.save()
        say(f"nothing to learn from is left of generation {number}: its games are played again ({aside} has what was there)")

    def train(self, number: int) -> dict:
        """Learns from the window, beginning with the network of the generation before."""
        settings = self.settings
        folder = self.folder_of(number) / "train"
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint, before = folder / "checkpoint", self.folder_of(number - 1) / "train" / "checkpoint"
        files, left_out = self.files(number, range(max(1, number - settings.window + 1), number + 1))
        new = [path for path, generation in files if generation == number]
        if not new and self.manifest["current"]["games"]["samples"]:
            raise LoopError(f"no games of generation {number} are whole any more: the same command plays them again")
        if not new:
            why = f"no position in the games of generation {number} is one to learn from (see --random-plies and --longest)"
            raise LoopError(f"{why}: {'name other settings' if number == 1 else 'begin in another folder'}")
        data, positions, share = self.training_set(number, files)
        steps = self.steps(number, positions)
        start = steps_of(before)
        fresh = self.quality(before, new)
        if not checkpoint.exists():
            write_whole(checkpoint, lambda partial: shutil.copyfile(before, partial))
        arguments = self.training_flags(folder, start + steps, share, data)
        self.program.run([*arguments, "--log-every", str(max(1, steps // 8)), "--save-every", "200"])
        self.export(number)
        return {
            "positions": positions,
            "new": selfplay.positions_of(new),
            "files": len(files),
            "left_out": left_out,
            "steps": steps,
            "learned": self.quality(checkpoint, new),
            "fresh": fresh,
            "network": sha256(self.network(number)),
        }

    def training_flags(self, folder: Path, steps: int, share: str, data: list[tuple[Path, int]]) -> list[str]:
        """A call of training up to this step, but for how often it tells and saves."""
        settings = self.settings
        arguments = ["train", "run", "--folder", str(folder), "--steps", str(steps), "--result-share", share]
        arguments += ["--value-loss", settings.value_loss]
        for path, part in data:
            arguments += ["--data", f"{path}:{part}"]
        # Each thread has something to do.
        chunk = max(1, min(128, settings.batch // settings.train_threads))
        arguments += ["--batch", str(settings.batch), "--chunk", str(chunk), "--rate", str(settings.rate), "--fixed-order"]
        return [*arguments, "--threads", str(settings.train_threads), "--seed", str(settings.derived("training"))]

    def training_set(self, number: int, files: list[tuple[Path, int]]) -> tuple[list[tuple[Path, int]], int, str]:
        """Files with their shares, positions, and the share of results in the value."""
        settings = self.settings
        if not settings.unique:
            counted = [(path, selfplay.positions_of([path])) for path, _ in files]
            counted = [(path, count) for path, count in counted if count]
            return counted, sum(count for _, count in counted), settings.result_share
        weighted = [(path, max(settings.fade_least, 1 - settings.fade * (number - age))) for path, age in files]
        pooled = selfplay.pool(weighted, parse_share(settings.result_share))
        chosen = pooled.searched
        if settings.subset:
            chosen = selfplay.subset(pooled, settings.subset, settings.derived(number, "subset"))
        path = self.folder_of(number) / "train" / "set.vis"
        chosen.write(path)
        # The mean values stand in the file, results in none.
        return [(path, 1)], len(chosen), "0"

    def steps(self, number: int, positions: int) -> int:
        """Steps of a generation."""
        settings = self.settings
        if settings.passes:
            return max(1, math.ceil(settings.passes * positions / settings.batch))
        new = self.manifest["current"]["games"]["samples"]
        return max(1, math.ceil(settings.reuse * new / settings.batch))

    def quality(self, checkpoint: Path, files: list[Path]) -> dict:
        """How well a network foretells games: those of this generation, before (fresh) or after it has learned from them."""
        arguments = ["train", "measure", str(checkpoint), *map(str, files[:2]), "--count", "4000"]
        lines = self.program.run([*arguments, "--result-share", self.settings.result_share]).splitlines()
        found = [losses(line) for line in lines if "in integers" in line]
        found = [line for line in found if line]
        return {key: round(sum(line[key] for line in found) / len(found), 4) for key in found[0]} if found else {}

    # Matches.

    def match(self, number: int, name: str, other: str, pairs: int, more: list[str]) -> Job:
        """The new network against another: `other` is an engine as `scorn match` takes it."""
        seed = self.settings.derived(number, "match", name)
        arguments = ["match", self.player("{new}"), other, "--pairs", str(pairs), "--seed", str(seed)]
        arguments += ["--book", "{book}", "--limit", self.limit()]
        arguments += ["--longest", "400", *more]
        files = {"new": self.network(number), "book": self.folder / "openings.epd"}
        return Job(arguments, files, self.folder_of(number) / f"{name}.pgn")

    def player(self, network: str) -> str:
        """The program with a network, as `scorn match` takes it: a `;` parts options."""
        options = [option for option in self.settings.match_options.split(";") if option]
        return ";".join(["self", "Threads=1", *options, f"WeightsFile={network}"])

    def limit(self) -> str:
        """What a move may cost in matches."""
        return self.settings.match_limit or f"nodes={self.settings.gate_nodes}"

    def sprt(self) -> list[str]:
        """The flags of the match that is the gate."""
        return ["--sprt", self.settings.gate_sprt] if self.settings.gate == "sprt" else []

    def stockfish(self, elo: int) -> str:
        """The yardstick at this level, as `scorn match` takes it."""
        return f"{self.settings.yardstick};Threads=1;Hash=16;UCI_LimitStrength=true;UCI_Elo={elo}"

    def measure(self, number: int) -> list[dict]:
        """Matches of the new network: for the gate, for the ratings, and against the yardstick."""
        settings = self.settings
        self.book()
        first, second = self.best()
        opponents: list[tuple[int, int, list[str]]] = [(first, settings.gate_pairs, self.sprt())]
        if settings.rivals and second is not None:
            opponents.append((second, settings.gate_pairs, []))
        older = self.older(number, random.Random(settings.derived(number, "pool")))
        if settings.pool_pairs and older is not None:
            opponents.append((older, settings.pool_pairs, []))
        names, jobs = [], []
        for opponent, pairs, more in opponents:
            job = self.match(number, f"match-gen-{opponent}", self.player("{other}"), pairs, more)
            jobs.append(Job(job.arguments, {**job.files, "other": self.network(opponent)}, job.out))
            names.append(f"gen-{opponent}")
        if settings.yardstick and number % settings.yardstick_every == 0:
            elo = self.yardstick()
            limit = ["--second-limit", f"nodes={settings.yardstick_nodes}"]
            jobs.append(self.match(number, "match-yardstick", self.stockfish(elo), settings.yardstick_pairs, limit))
            names.append(f"Stockfish {elo}")
        reports = self.executor.run(jobs)
        return [match_facts(f"gen-{number}", name, report) for name, report in zip(names, reports)]

    def yardstick(self) -> int:
        """The UCI_Elo nearest to the best network's rating, as far as it is known; the weakest before."""
        levels = yardstick_levels(self.settings.yardstick)
        rated = charts.ratings(self.learned())
        mine = rated.get(f"gen-{self.best()[0]}")
        if mine is None or not charts.fixed(self.learned()):
            return levels[0]
        return min(levels, key=lambda elo: abs(elo - mine.elo))

    def judge(self, number: int, current: dict) -> dict:
        """The generation with its verdict."""
        settings = self.settings
        gate = current["matches"][0]
        score = points(gate)
        promoted = {
            "none": True,
            "score": score > settings.gate_score,
            "sprt": gate.get("verdict") == "h1",
        }[settings.gate]
        rates = [score]
        if settings.rivals and self.best()[1] is not None:
            rates.append(points(current["matches"][1]))
        else:
            rates.append(0.5)
        network = current["training"]["network"]
        return {"generation": number, **current, "network": network, "promoted": promoted, "win_rates": rates}

    def clean(self, number: int) -> None:
        """Removes what is not needed any more: the training set, and the checkpoint before the last."""
        (self.folder_of(number) / "train" / "set.vis").unlink(missing_ok=True)
        if number >= 2:
            (self.folder_of(number - 2) / "train" / "checkpoint").unlink(missing_ok=True)

    # What is shown.

    def publish(self) -> None:
        """Curves for TensorBoard, and the page."""
        charts.write_tensorboard(self.folder / "tensorboard", self.learned())
        seconds = sum(cost["core_seconds"] for cost in charts.costs(self.folder / "times.jsonl"))
        games = sum(generation["games"]["games"] for generation in self.learned())
        summary = f"{len(self.learned())} generations, {games} games, {seconds / 60:.1f} core minutes on this machine"
        charts.write_page(self.folder / "report.html", f"Loop {self.folder.resolve().name}", summary, self.learned())

    def tell(self) -> None:
        """A line about the last generation."""
        last = self.learned()[-1]
        play, training = last["games"], last["training"]
        rated = charts.ratings(self.learned()).get(f"gen-{last['generation']}")
        elo = f"Elo {rated.elo:.0f} +/- {rated.error:.0f}" if rated else ""
        limit = f", ScLimit {play['sc_limit']:.0f}" if play["sc_limit"] else ""
        print(
            f"generation {last['generation']}: {play['games']} games +{play['white']} ={play['draws']} -{play['black']}{limit}, "
            f"{training['steps']} steps on {training['positions']} positions, kl {training['learned'].get('kl', '-')} "
            f"value {training['learned'].get('value', '-')}, score {points(last['matches'][0]):.2f} against "
            f"{last['matches'][0]['second']}, {'plays on' if last['promoted'] else 'rejected'}; {elo}",
            flush=True,
        )


def yardstick_levels(command: str) -> range:
    """The levels of UCI_Elo that an engine knows, which differ from version to version.

    Raises:
        LoopError: it cannot be started, or does not know the option.
    """
    try:
        said = subprocess.run([command], input="uci\nquit\n", capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise LoopError(f"the yardstick cannot be started: {error}") from error
    return parse_levels(said)


def parse_levels(said: str) -> range:
    """The levels in an engine's answer to `uci`."""
    found = re.search(r"name UCI_Elo .*\bmin (\d+) .*\bmax (\d+)", said)
    if found is None:
        raise LoopError("the yardstick has no option UCI_Elo")
    return range(int(found[1]), int(found[2]) + 1, YARDSTICK_STEP)


def losses(line: str) -> dict:
    """The figures of a line of `scorn train`."""
    found = {key: re.search(rf"\b{key} (\d+\.\d+)", line) for key in ("policy", "kl", "value", "plies")}
    return {key: float(match[1]) for key, match in found.items() if match} if found["kl"] else {}


def steps_of(checkpoint: Path) -> int:
    """How many steps a checkpoint of `scorn train` has behind it.

    Raises:
        LoopError: its first line does not say so.
    """
    with open(checkpoint, "rb") as file:
        line = file.readline()
    try:
        return json.loads(line)["progress"]["step"]
    except (ValueError, KeyError, TypeError) as error:
        raise LoopError(f"{checkpoint} is damaged: its first line is not that of a checkpoint") from error


def parse_share(text: str) -> tuple[float, float]:
    first, _, last = text.partition(",")
    return float(first), float(last or first)


def match_facts(first: str, second: str, report: dict) -> dict:
    """What is kept of a match; nothing in it hangs on the clock."""
    facts = {"first": first, "second": second}
    facts |= {key: report[key] for key in ("wins", "draws", "losses", "pairs")}
    if report.get("sprt"):
        facts |= {"llr": round(report["sprt"]["llr"], 3), "verdict": report["sprt"]["verdict"].lower()}
    return facts


def points(match: dict) -> float:
    """The share of points of the first player."""
    games = match["wins"] + match["draws"] + match["losses"]
    return (match["wins"] + match["draws"] / 2) / max(games, 1)


def find_program(given: str) -> str:
    """The program's path.

    Raises:
        LoopError: there is none.
    """
    root = Path(__file__).resolve().parents[3]
    candidates = [given] if given else ["scorn", str(root / "target/release/scorn")]
    for candidate in candidates:
        found = shutil.which(candidate)
        if found:
            return str(Path(found).resolve())
    raise LoopError(f"no program: {' and '.join(candidates)} cannot be run (--scorn names it)")


def ray_cluster(address: str, program: Program):
    """What runs jobs on a Ray cluster.

    Raises:
        LoopError: there is none, or no Ray to reach it with.
    """
    try:
        from .cluster import Cluster
    except ModuleNotFoundError as error:
        raise LoopError(f"--ray needs what `pip install 'networks/training[ray]'` brings: {error}") from error
    return Cluster(address, program)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scorn_training.loop", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the loop's folder")
    parser.add_argument("--scorn", default="", metavar="FILE", help="the program [scorn, or target/release/scorn]")
    parser.add_argument("--generations", type=int, default=1_000_000, metavar="N", help="go on to this generation")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="X", help="stop after the generation in which they are over")
    parser.add_argument("--ray", default="", metavar="ADDRESS", help="play on this Ray cluster (auto: the one that is running)")
    add_arguments(parser.add_argument_group("settings (kept in the manifest; they cannot change once a generation is complete)"))
    args = parser.parse_args(arguments)
    program = None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        program = Program(find_program(args.scorn))
        version = program.run(["--version"]).strip()
        loop = Loop(args.folder, program, given(args), version, args.preset or "")
        if args.ray:
            loop.executor = ray_cluster(args.ray, program)
        loop.run(args.generations, args.minutes)
    except (LoopError, OSError, ValueError) as error:
        print(f"scorn loop: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("scorn loop: stopped; the same command goes on", file=sys.stderr)
        return 130
    finally:
        if program:
            program.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
