#!/usr/bin/env python3
"""Prints the state and the counters of the bot as JSON, and fails if an engine is stuck or never started.

usage: health.py --status FOLDER [--games FOLDER] [--bot NAME] [--config FILE]

FOLDER of --status is that of watch.py, that of --games the pgn_directory of lichess-bot. The exit code is 1 if an
answer is overdue by more than 30 s although watch.py runs, if others can read the token in FILE, if there are games
and NAME plays in none of them, or if a folder or the file cannot be read: watch.py makes the folder of --status when
lichess-bot tries the engine at its start. Needs nothing but Python.
"""

import argparse
import json
import os
import re
import stat
import sys
import time
from pathlib import Path

TAG = re.compile(r'\[(White|Black|Result) "([^"]*)"\]')
OVERDUE = 30.0
"""Seconds beyond the time by which watch.py should have acted."""
RESULTS = {"1-0": ("won", "lost"), "0-1": ("lost", "won"), "1/2-1/2": ("drawn", "drawn")}
"""What the results are for White and for Black."""


def read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def unreadable(folders):
    """Why folders cannot be read, in which nothing would be found otherwise."""
    problems = []
    for folder in folders:
        try:
            os.listdir(folder)
        except OSError as error:
            problems.append(f"{folder}: {error.strerror}")
    return problems


def exposed(config):
    """What is wrong with the file that has the token."""
    try:
        mode = config.stat().st_mode
    except OSError as error:
        return [f"{config}: {error.strerror}"]
    return [f"others can read the token: chmod 600 {config}"] if mode & (stat.S_IRWXG | stat.S_IRWXO) else []


def is_running(pid):
    """Whether the process is a watch.py: its number may be that of another program by now."""
    if not Path("/proc/self/cmdline").exists():
        try:
            os.kill(pid, 0)
        except OSError as error:
            return not isinstance(error, ProcessLookupError)
        return True
    try:
        return b"watch.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def counters(folder):
    """The sums of all counters, those of watches that were killed included, and the running watches."""
    known = [status for status in map(read, folder.glob("watch-*.json")) if status]
    running = [status for status in known if is_running(status["pid"])]
    sums = {}
    for part in [read(folder / "total.json"), *known]:
        for name in ("searches", "seconds", "crashes", "stalls", "given_up"):
            sums[name] = sums.get(name, 0) + part.get(name, 0)
        sums["slowest"] = max(sums.get("slowest", 0), part.get("slowest", 0))
    return sums, running


def headers(text):
    """White, Black and the result of each game."""
    tags = {}
    for line in text.splitlines():
        if tag := TAG.match(line):
            tags[tag[1]] = tag[2]
        elif not line.startswith("["):
            tags = {}
        if len(tags) == 3:
            yield tags.pop("White"), tags.pop("Black"), tags.pop("Result")


def games(folder, bot):
    """The numbers of the bot's finished games by their results for it, and what is wrong with the folder."""
    found = {"won": 0, "drawn": 0, "lost": 0}
    players = set()
    for path in folder.glob("*.pgn"):
        for *sides, result in headers(path.read_text(encoding="utf-8", errors="replace")):
            sides = [side.lower() for side in sides]
            players.update(sides)
            if bot.lower() in sides and result in RESULTS:
                found[RESULTS[result][sides.index(bot.lower())]] += 1
    is_absent = players and bot.lower() not in players
    return found, [f"no game of {bot} in {folder}"] if is_absent else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[2])
    parser.add_argument("--status", metavar="FOLDER", type=Path, required=True, help="the status folder of watch.py")
    parser.add_argument("--games", metavar="FOLDER", type=Path, help="lichess-bot's pgn_directory, to count results")
    parser.add_argument("--bot", metavar="NAME", default="", help="the name under which the bot plays, for --games")
    parser.add_argument("--config", metavar="FILE", type=Path, help="lichess-bot's configuration, with the token")
    args = parser.parse_args()
    if args.games and not args.bot:
        parser.error("--games needs --bot: the name under which the bot plays")
    sums, running = counters(args.status)
    now = time.time()
    problems = unreadable(folder for folder in (args.status, args.games) if folder)
    problems += [f"process {status['pid']}: {status['state']}, overdue since {now - status['due']:.0f} s"
                 for status in running if status["due"] is not None and now - status["due"] > OVERDUE]
    if args.config:
        problems += exposed(args.config)
    played = {}
    if args.games:
        played, wrong = games(args.games, args.bot)
        problems += wrong
    report = {
        "ok": not problems, "problems": problems, "engines": len(running),
        "searches": sums["searches"], "mean_seconds": round(sums["seconds"] / max(sums["searches"], 1), 3),
        "slowest_seconds": round(sums["slowest"], 3), "crashes": sums["crashes"], "stalls": sums["stalls"],
        "given_up": sums["given_up"],
    }
    if args.games:
        report["games"] = played
    print(json.dumps(report))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
