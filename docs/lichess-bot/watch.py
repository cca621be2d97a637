#!/usr/bin/env python3
"""Runs between lichess-bot and Scorn, so that an engine that hangs or crashes costs some seconds and not the game.

usage: watch.py [--engine=PROGRAM] [--ready=SECONDS] [--status=FOLDER] [FLAG...]

lichess-bot runs this in place of the engine: the program beside this file, or the one given. Other flags and all
lines are passed on unchanged. lichess-bot itself waits for a move for ever (its library limits the first one only).
Here an engine that crashes is replaced at once, and one that does not answer in time is killed first: within four
fifths of its clock (10 s more than a movetime, 5 s after stop, 10 s for uci, 15 s for isready or as --ready says).
During a search, pondering included, the engine gets isready every two seconds, which an engine must answer at once,
and is killed if it does not answer within a tenth of its clock, at least 3 and at most 10 s. The new engine gets the
options, the position, and the search with the remaining time. As it may have to load its network first, it has the
time for isready in any case, as far as the clock allows. After three failures in one search this gives up, and
lichess-bot sees a dead engine.

With --status, counters are kept in the folder, which health.py reads: a file for each running watch, and the totals
of those that have ended.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import queue
import subprocess
import sys
import threading
import time

STOP_PATIENCE = 5.0
"""Seconds for an answer to stop."""
MOVETIME_PATIENCE = 10.0
"""Seconds beyond a movetime."""
CLOCK_PATIENCE = 0.8
"""Part of the clock: more than the 60 % that the engine may take for a move."""
MIN_PATIENCE = 1.0
"""Seconds, the minimum for any clock."""
UCI_PATIENCE = 10.0
"""Seconds for an answer to uci, for which nothing is loaded."""
READY_PATIENCE = 15.0
"""Seconds for an answer to isready, while the network may be loaded."""
PROBE_INTERVAL = 2.0
"""Seconds between two probes of an engine that searches."""
PROBE_CLOCK = 0.1
"""Part of the clock within which a probe must be answered: a machine that is busy may let an engine wait."""
PROBE_PATIENCE = (3.0, 10.0)
"""The least and the most seconds for that."""
MAX_LATE = 1.0
"""Seconds by which this script may itself wake up too late before answers get as much more time."""
MAX_LINES = 100
"""Lines of an engine that are kept: one that prints faster than lichess-bot reads then waits, as with a pipe."""
FAILURES = 3
"""Engines that may fail in one search."""
START_PAUSE = 2.0
"""Seconds before another try to start an engine: its file may be missing while it is replaced."""
CLOCKS = ("wtime", "btime")
OWN_FLAGS = {"--engine": "PROGRAM", "--ready": "SECONDS", "--status": "FOLDER"}
"""The flags that are not passed on, and what their values are."""


def numbers(go):
    """The numbers of a go command by their names."""
    words = go.split()
    return {name: float(value) for name, value in zip(words, words[1:]) if value.lstrip("-").isdigit()}


def own_clock(position):
    """Which clock runs in a position."""
    before, _, moves = position.partition(" moves ")
    words = before.split()
    is_white = "fen" not in words or words[words.index("fen") + 2] == "w"
    return CLOCKS[is_white == len(moves.split()) % 2]


def patience(go, position):
    """Seconds within which a search must be answered; None for any number."""
    words, limit = go.split(), numbers(go)
    if "infinite" in words or "ponder" in words:
        return None
    limits = []
    if "movetime" in limit:
        limits.append(limit["movetime"] / 1000 + MOVETIME_PATIENCE)
    if any(clock in limit for clock in CLOCKS):
        limits.append(max(CLOCK_PATIENCE * limit.get(own_clock(position), 0) / 1000, MIN_PATIENCE))
    return min(limits, default=None)


def probe_patience(go, position):
    """Seconds within which an engine that searches must answer isready."""
    least, most = PROBE_PATIENCE
    clock = numbers(go).get(own_clock(position))
    return most if clock is None else min(max(PROBE_CLOCK * clock / 1000, least), most)


def later(go, position, seconds):
    """The go command after this many seconds of its time have passed."""
    words = go.split()
    for name in (own_clock(position), "movetime"):
        if name in words[:-1]:
            at = words.index(name) + 1
            words[at] = str(max(int(float(words[at]) - 1000 * seconds), 50))
    return " ".join(words)


COUNTERS = {"searches": 0, "seconds": 0.0, "slowest": 0.0, "crashes": 0, "stalls": 0, "given_up": 0}


def report(line):
    """Prints a line for lichess-bot, which only logs it."""
    print(f"info string watch: {line}", flush=True)


class Status:
    """The counters of this process in a file of the folder; nothing without a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.counters = dict(COUNTERS)
        self.has_failed = False
        if folder:
            # That of a watch that was killed: when a container starts again, so do its process numbers.
            with contextlib.suppress(OSError, ValueError), open(self.own_path(), encoding="utf-8") as file:
                self.add_to_totals(json.load(file))

    def own_path(self):
        return os.path.join(self.folder, f"watch-{os.getpid()}.json")

    def write(self, path, values):
        os.makedirs(self.folder, exist_ok=True)
        part = f"{path}.{os.getpid()}"
        try:
            with open(part, "w", encoding="utf-8") as file:
                json.dump(values, file)
            os.replace(part, path)
        except OSError:
            # As on a full disk.
            with contextlib.suppress(OSError):
                os.remove(part)
            raise

    def save(self, state, deadline=None):
        """The state, and the time (of the clock on the wall) by which it should have changed."""
        if self.folder:
            due = None if deadline is None else time.time() + deadline - time.monotonic()
            own = {"pid": os.getpid(), "state": state, "updated": time.time(), "due": due}
            try:
                self.write(self.own_path(), own | self.counters)
            except OSError as error:
                # The game matters more. Reported once, as it will be so for every move.
                if not self.has_failed:
                    report(f"no counters in {self.folder}: {error.strerror}")
                self.has_failed = True

    def searched(self, seconds):
        self.counters["searches"] += 1
        self.counters["seconds"] += seconds
        self.counters["slowest"] = max(self.counters["slowest"], seconds)

    def end(self):
        """Adds the counters to the totals."""
        if self.folder:
            self.add_to_totals(self.counters)

    def add_to_totals(self, counters):
        """Adds counters to the totals, and removes the file that had them."""
        with contextlib.suppress(OSError), open(os.path.join(self.folder, "lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            totals = dict(COUNTERS)
            path = os.path.join(self.folder, "total.json")
            with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
                totals |= json.load(file)
            for name in COUNTERS:
                value = counters.get(name, 0)
                totals[name] = max(totals[name], value) if name == "slowest" else totals[name] + value
            self.write(path, totals)
            os.remove(self.own_path())


@dataclasses.dataclass
class Waiting:
    """A command, uci or isready, whose answer is due at a time."""

    word: str
    due: float
    is_probe: bool = False
    """Whether lichess-bot did not send it and does not expect the answer."""


class Watch:
    """The current engine, and the state that its successors need."""

    def __init__(self, command, ready_patience=READY_PATIENCE, status=None):
        self.command, self.engine = command, None
        self.patience = {"uci": UCI_PATIENCE, "isready": ready_patience}
        self.status = Status(status)
        self.lines = queue.Queue()
        self.options, self.position, self.go = {}, "position startpos", None
        self.since, self.deadline = 0.0, None
        self.is_stopped = self.is_new_game = self.is_swallowing = False
        # Whether the engine may have its network still to load.
        self.is_fresh = True
        # The commands that wait for their answers, in their order.
        self.pending = []
        self.own_uci_due = None
        self.next_probe = None
        self.failures = 0

    def start(self):
        """Starts an engine; its lines go into the queue."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        engine = self.engine = subprocess.Popen(self.command, text=True, bufsize=1, errors="replace", **pipes)
        self.is_fresh = True
        # The room is for this engine's lines alone: lichess-bot's are always taken.
        room = threading.Semaphore(MAX_LINES)

        def read():
            for line in engine.stdout:
                room.acquire()
                self.lines.put((engine, line.rstrip("\n"), room))
            self.lines.put((engine, None, None))

        threading.Thread(target=read, daemon=True).start()

    def send(self, line):
        try:
            self.engine.stdin.write(line + "\n")
            self.engine.stdin.flush()
        except OSError:
            pass  # It is dead, which its reader notices.

    def due(self):
        """When the next answer is due; None if none is."""
        dues = [self.deadline, self.own_uci_due, *[waiting.due for waiting in self.pending]]
        return min((due for due in dues if due is not None), default=None)

    def wait_for(self, word):
        self.pending.append(Waiting(word, time.monotonic() + self.patience[word]))

    def probe(self):
        """Sends isready to an engine that searches: one that hangs does not answer."""
        self.next_probe = time.monotonic() + PROBE_INTERVAL
        if not any(waiting.is_probe for waiting in self.pending):
            due = time.monotonic() + self.at_least_loading(probe_patience(self.go, self.position))
            self.pending.append(Waiting("isready", due, is_probe=True))
            self.send("isready")

    def save_status(self):
        self.status.save("searching" if self.go else "waiting" if self.pending else "idle", self.due())

    def replace(self, reason):
        """Replaces the engine by another one."""
        self.engine.kill()
        self.engine.wait()
        self.status.counters["crashes" if reason == "has died" else "stalls"] += 1
        self.fail(reason)
        while True:
            try:
                self.start()
                break
            except OSError as error:
                self.fail(f"cannot be started ({error.strerror})")
                time.sleep(START_PAUSE)
        self.take_over()
        self.save_status()

    def fail(self, reason):
        """Counts and reports a failure; ends if there are too many."""
        self.failures += 1
        if self.failures >= FAILURES:
            self.status.counters["given_up"] += 1
            self.status.end()
            report(f"the engine {reason} again: giving up")
            sys.exit(1)
        report(f"the engine {reason}: another one takes over")

    def take_over(self):
        """Brings a new engine to where the old one was."""
        # The answers to uci were sent before, unless the old engine failed to send them.
        waiting, self.pending = [waiting.word for waiting in self.pending if not waiting.is_probe], []
        self.is_swallowing = "uci" not in waiting
        self.own_uci_due = time.monotonic() + UCI_PATIENCE if self.is_swallowing else None
        for line in ["uci", *self.options.values(), *["ucinewgame"] * self.is_new_game, self.position]:
            self.send(line)
        for word in waiting:
            self.wait_for(word)
            if word == "isready":
                self.send(word)
        if not self.go:
            return
        self.next_probe = time.monotonic() + PROBE_INTERVAL
        if self.is_stopped:
            self.send("go nodes 1")
            self.expect(STOP_PATIENCE)
        else:
            passed = time.monotonic() - self.since
            again = self.go if self.deadline is None else later(self.go, self.position, passed)
            self.send(again)
            self.expect(patience(again, self.position))

    def clock_left(self):
        """Seconds that are left on the clock of the search."""
        clock = numbers(self.go).get(own_clock(self.position))
        is_running = "ponder" not in self.go.split()
        passed = time.monotonic() - self.since if is_running else 0
        return float("inf") if clock is None else clock / 1000 - passed

    def at_least_loading(self, seconds):
        """The seconds, or those for isready if the network may be loaded first, as far as the clock allows."""
        return max(seconds, min(self.patience["isready"], self.clock_left())) if self.is_fresh else seconds

    def expect(self, seconds):
        self.deadline = None if seconds is None else time.monotonic() + self.at_least_loading(seconds)

    def handle_input(self, line):
        """Handles a line from lichess-bot; returns whether more may come."""
        word = line.split()[0] if line.split() else ""
        if word == "setoption":
            name = line.partition(" value ")[0].lower()
            # The last value of each, in the order in which these came: one option may have two names.
            self.options.pop(name, None)
            self.options[name] = line
        elif word == "position":
            self.position = line
        elif word == "ucinewgame":
            self.is_new_game = True
        elif word in ("uci", "isready"):
            self.wait_for(word)
        elif word == "go":
            self.go, self.since, self.is_stopped = line, time.monotonic(), False
            self.next_probe = self.since + PROBE_INTERVAL
            self.expect(patience(line, self.position))
        elif word in ("ponderhit", "stop") and self.go:
            words = self.go.split()
            if "ponder" in words:
                # The opponent has moved: the clock runs from now on.
                words.remove("ponder")
                self.go, self.since = " ".join(words), time.monotonic()
            self.is_stopped = self.is_stopped or word == "stop"
            self.expect(STOP_PATIENCE if self.is_stopped else patience(self.go, self.position))
        self.send(line)
        if word in ("uci", "isready", "go", "ponderhit", "stop"):
            self.save_status()
        return word != "quit"

    def pass_on(self, line):
        """Handles a line from the engine."""
        word = line.split()[0] if line.split() else ""
        if self.is_swallowing and word != "info":
            self.is_swallowing = word != "uciok"
            self.own_uci_due = self.own_uci_due if self.is_swallowing else None
            if not self.is_swallowing:
                self.save_status()
            return
        answered = {"uciok": "uci", "readyok": "isready"}.get(word)
        if waiting := next((waiting for waiting in self.pending if waiting.word == answered), None):
            self.pending.remove(waiting)
            if waiting.word == "isready":
                self.is_fresh = False
            if waiting.is_probe:
                self.save_status()
                return
            if not self.go:
                self.failures = 0
        if word == "bestmove":
            if self.go:
                self.status.searched(time.monotonic() - self.since)
            self.go, self.deadline, self.next_probe, self.failures = None, None, None, 0
            self.is_fresh = False
            # An engine that does not search may be loading a network.
            for waiting in self.pending:
                waiting.due = max(waiting.due, time.monotonic() + self.patience[waiting.word])
        print(line, flush=True)
        if answered or word == "bestmove":
            self.save_status()

    def take_lines(self, until):
        """The lines that are there; waits for one, at most until a time."""
        lines = []
        with contextlib.suppress(queue.Empty):
            lines.append(self.lines.get(timeout=None if until is None else max(until - time.monotonic(), 0)))
        return lines + [self.lines.get() for _ in range(self.lines.qsize())]

    def handle(self, who, line):
        """Handles a line; returns whether more may come."""
        if who is None:
            return self.handle_input(line)
        if who is self.engine:
            if line is None:
                self.replace("has died")
            else:
                self.pass_on(line)
        return True

    def check_times(self, late):
        """Acts if an answer is due or it is time for a probe; this comes `late` seconds too late."""
        if late > MAX_LATE:
            # The whole machine stood still, or lichess-bot did not read, which is not the engine's fault.
            more = late + MAX_LATE
            for waiting in self.pending:
                waiting.due += more
            if self.own_uci_due is not None:
                self.own_uci_due += more
        due, now = self.due(), time.monotonic()
        if due is not None and due <= now:
            self.replace("does not answer")
        elif self.next_probe is not None and self.next_probe <= now:
            self.probe()

    def run(self):
        """Runs until lichess-bot closes its end."""
        try:
            self.start()
        except OSError as error:
            sys.exit(f"watch.py: {self.command[0]} cannot be started: {error.strerror}")
        self.save_status()

        def read():
            for line in sys.stdin:
                self.lines.put((None, line.rstrip("\n"), None))
            self.lines.put((None, "quit", None))

        threading.Thread(target=read, daemon=True).start()
        is_open = True
        while is_open:
            times = [at for at in (self.due(), self.next_probe) if at is not None]
            until = max(min(times), time.monotonic()) if times else None
            # An engine may print without end, so the times are looked at after every few lines.
            for who, line, room in self.take_lines(until):
                if room:
                    room.release()
                is_open = is_open and self.handle(who, line)
            if is_open and until is not None:
                self.check_times(time.monotonic() - until)
        try:
            self.engine.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self.engine.kill()
        self.status.end()


def main():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scorn")
    own = {"--engine": beside, "--ready": str(READY_PATIENCE), "--status": ""}
    flags = []
    for flag in sys.argv[1:]:
        name, sign, value = flag.partition("=")
        if name in own:
            if not sign:
                sys.exit(f"watch.py: {name} needs a value: {name}={OWN_FLAGS[name]}")
            own[name] = value
        else:
            flags.append(flag)
    try:
        ready = float(own["--ready"])
    except ValueError:
        sys.exit(f"watch.py: --ready={own['--ready']} is not a number of seconds")
    Watch([own["--engine"], *flags], ready, own["--status"]).run()


if __name__ == "__main__":
    main()
