"""Games of the program against itself with random options, 1 to 16 threads, and small limits of memory, address space
and processes. Nothing may forfeit a game, crash or make an illegal move.

    python3 tests/python/soak.py target/release/scorn --games 2000 --folder soak

prints a line per match and a summary. The results of finished matches are in FOLDER/results.jsonl: the same command
again goes on after them. A match in which something went wrong leaves its command, games and logs in FOLDER; the exit
code is 1 then. Times are generous, because a busy machine is no fault of the program: only an engine
that exceeds its clock by a second and a half forfeits.
"""

import argparse
import json
import pathlib
import random
import re
import shlex
import subprocess
import sys
import threading
import time

# Options with files, with other networks, or that change what a clock or a move means to the match.
EXCLUDED = re.compile(
    r"Weights|Head$|Path$|File$|Encoding|Profiles|Backend|NodesPerSecond|Slowmover|Overhead|Chess960|Ponder"
    r"|SwapColors|HistoryFill|NodeLimit|Threads|Hash$|RamLimitMb|UCI_Opponent|ConfigFile|UCI_AnalyseMode|Preload"
)


def announced(engine):
    """The options of the program: name, type, default, range and values."""
    out = subprocess.run([engine, "uci"], input="uci\n", capture_output=True, text=True, check=True).stdout
    options = []
    for line in out.splitlines():
        found = re.match(r"option name (.+?) type (\w+) default (\S*)(.*)$", line)
        if found and not EXCLUDED.search(found[1]):
            options.append(found.groups())
    return options


def random_value(rng, kind, default, rest):
    """A value of an option; it may still be refused."""
    if kind == "check":
        return rng.choice(["true", "false"])
    if kind == "combo":
        return rng.choice(re.findall(r" var (\S+)", rest))
    if kind == "spin":
        low, high = map(int, re.search(r"min (-?\d+) max (-?\d+)", rest).groups())
        near = max(low, min(high, int(default) * rng.choice([0, 1, 2]) + rng.randint(-3, 3)))
        return str(rng.choice([low, min(high, 10_000), near, near, near]))
    try:
        return f"{float(default) * rng.choice([0, 0.5, 0.9, 1.1, 2]) + rng.choice([0, 0, 0, 0.1, 1]):g}"
    except ValueError:
        return default


def engine(rng, binary, options, log):
    """An engine of a match, as its command line with options, all of which the program accepts."""
    values = {"Threads": rng.randint(1, 16), "RamLimitMb": rng.choice([0, 1, 2, 8, 64]), "Backend": "auto"}
    # The hash evaluator is fast: its trees fill the memory.
    if rng.random() < 0.4:
        values["Backend"] = "hash"
    for name, kind, default, rest in rng.sample(options, rng.randint(0, 12)):
        values[name] = random_value(rng, kind, default, rest)
    lines = [f"setoption name {name} value {value}" for name, value in values.items()]
    said = subprocess.run([binary, "uci"], input="\n".join(lines) + "\nisready\n", capture_output=True, text=True)
    for name in list(values):
        if re.search(rf"info string .*\b{re.escape(name)}\b", said.stdout, re.IGNORECASE):
            del values[name]
    limit = rng.choice(["", "", f"--as={rng.choice([1000, 1500, 2000])}000000", f"--nproc={threads_now() + rng.randint(6, 30)}"])
    command = f"prlimit {limit} {binary} uci" if limit else f"{binary} uci"
    values["LogFile"] = log
    return ";".join([command] + [f"{name}={value}" for name, value in values.items()])


def threads_now():
    """The number of threads on this machine that count against a limit of processes."""
    count = 0
    for task in pathlib.Path("/proc").glob("[0-9]*/task"):
        try:
            count += len(list(task.iterdir()))
        except OSError:
            pass
    return count


class Heartbeat:
    """Notices when this process, and with it the match, was stopped for a while, as by a suspended machine."""

    def __init__(self):
        self.last, self.was_stopped, self.is_over = time.monotonic(), False, threading.Event()
        threading.Thread(target=self.beat, daemon=True).start()

    def beat(self):
        while not self.is_over.wait(0.2):
            now = time.monotonic()
            self.was_stopped |= now - self.last > 1.5
            self.last = now


def play(rng, binary, options, folder, number, pairs):
    """Plays a match. Returns its games, and what went wrong."""
    logs = [folder / f"{number}-{side}.log" for side in "ab"]
    pgn = folder / f"{number}.pgn"
    sides = [engine(rng, binary, options, log) for log in logs]
    limit = rng.choice(["--nodes 1", "--nodes 50", "--nodes 400", "--tc 1+0.05", "--tc 2+0", "--tc 20/2"])
    command = [binary, "match", *sides, *limit.split(), "--pairs", str(pairs), "--time-margin", "1500",
               "--max-plies", "160", "--strict", "--json", "--pgn", str(pgn)]
    heartbeat, started = Heartbeat(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    heartbeat.is_over.set()
    problems = []
    if heartbeat.was_stopped and re.search(r"\(time\)|did not answer", done.stderr):
        print(f"{number}: not counted, the machine stood still", flush=True)
        return 0, []
    if done.returncode != 0:
        problems.append(f"exit code {done.returncode}: {done.stderr.strip()[-400:]}")
    for log in logs:
        text = log.read_text(errors="replace") if log.exists() else ""
        problems += [line for line in text.splitlines() if re.search("crash|panic|NaN", line)][:3]
    try:
        games = json.loads(done.stdout.splitlines()[-1])["games"]
    except (IndexError, KeyError, ValueError, TypeError):
        games = 2 * pairs if done.returncode == 0 else 0
    print(f"{number}: {games} games, {limit}, {time.monotonic() - started:.0f} s, {len(problems)} problems", flush=True)
    if problems:
        (folder / f"{number}.txt").write_text("\n".join([shlex.join(command), *problems, done.stdout]))
        print("\n".join(problems), flush=True)
    else:
        for path in [*logs, pgn, pathlib.Path(f"{pgn}.json")]:
            path.unlink(missing_ok=True)
    return games, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=pathlib.Path)
    parser.add_argument("--games", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=2, help="pairs of games per match")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("soak"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    binary = str(arguments.engine.resolve())
    options = announced(binary)
    results = arguments.folder / "results.jsonl"
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    total = sum(match["games"] for match in done)
    while total < arguments.games and len(done) < arguments.games:
        number = len(done) + 1
        rng = random.Random(arguments.seed * 1_000_003 + number)
        games, problems = play(rng, binary, options, arguments.folder, number, arguments.pairs)
        done.append({"match": number, "games": games, "problems": problems})
        with results.open("a") as file:
            file.write(json.dumps(done[-1]) + "\n")
        total += games
    bad = sum(bool(match["problems"]) for match in done)
    played = sum(match["games"] > 0 for match in done)
    print(f"{total} games in {played} of {len(done)} matches, {bad} matches with problems")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
