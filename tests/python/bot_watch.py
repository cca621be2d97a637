#!/usr/bin/env python3
"""Kills and stops engines behind docs/lichess-bot/watch.py, which must answer nevertheless.

usage: bot_watch.py SCORN

Needs nothing but Python. The positions have few legal moves, so that the answers show whether the new engine has the
state of the old one.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

WATCH = Path(__file__).resolve().parents[2] / "docs/lichess-bot/watch.py"
PLACE = "position fen k7/8/1K6/8/8/8/8/1R6 b - - 0 1"
FORCED = "a8b8"
"""Black's only move there."""
LATER = "position fen 8/2k5/3p4/p2P1p2/P2P1P2/8/8/3K4 w - - 0 1 moves d1c2 c7b6"
FROM = "c2"
"""Where only White's king can move, and nothing can be proven."""
PATIENCE = 40.0
LOG_PATIENCE = 20.0


class Session:
    """A UCI session with the engine through watch.py."""

    def __init__(self, engine, *flags):
        command = [sys.executable, str(WATCH), f"--engine={engine}", *map(str, flags)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = subprocess.Popen(command, **pipes)
        self.lines, self.heard = queue.Queue(), []
        # A log of all engines, and the line that each of them writes to it before it may be hurt.
        self.log, self.logged, self.started = None, "", 1
        self.may_read = threading.Event()
        self.may_read.set()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.may_read.wait()
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def send(self, *lines):
        for line in lines:
            self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, word):
        """The next line that starts with a word; all lines before it go to `heard`."""
        self.heard, end = [], time.monotonic() + PATIENCE
        while True:
            # An engine that prints without end is no answer.
            check(time.monotonic() < end, f"no {word} after {len(self.heard)} lines: {self.heard[-5:]}")
            try:
                line = self.lines.get(timeout=1.0)
            except queue.Empty:
                continue
            check(line is not None, f"it ended while waiting for {word}: {self.heard[-20:]}")
            if line.split() and line.split()[0] == word:
                return line
            self.heard.append(line)

    def ask(self, *lines):
        self.send(*lines)
        return self.until("bestmove").split()[1]

    def engine(self):
        """The current engine process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        children += [child for task in Path(f"/proc/{self.process.pid}/task").iterdir()
                     for child in (task / "children").read_text().split()]
        check(len(set(children)) == 1, f"the watch has the children {children}")
        return int(children[0])

    def wait_for_log(self):
        """Waits until each engine has logged its line: a thread of its own writes it, maybe after the answer."""
        end = time.monotonic() + LOG_PATIENCE
        while self.log and self.log.read_text().count(self.logged) < self.started and time.monotonic() < end:
            time.sleep(0.05)

    def hurt(self, how):
        self.wait_for_log()
        old = self.engine()
        os.kill(old, how)
        self.started += 1
        return old

    def end(self):
        self.send("quit")
        check(self.process.wait(PATIENCE) == 0, f"it ended with {self.process.returncode}")


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def took_over(session, old, reason):
    """Another engine has taken over for this reason, and that was reported once."""
    said = [line for line in session.heard if "watch:" in line]
    check(len(said) == 1 and reason in said[0], f"{reason}: {said} in {session.heard[-20:]}")
    check(not Path(f"/proc/{old}").exists() or session.engine() != old, "the old engine is still there")
    twice = [line for line in session.heard if line.startswith(("id ", "option ", "uciok"))]
    check(not twice, f"the engine identified itself twice: {twice}")


def nothing_is_due(session, folder):
    """The status says so, soon after a take-over: otherwise health.py would call a healthy bot stuck."""
    path, end = folder / f"watch-{session.process.pid}.json", time.monotonic() + 5.0
    while (due := json.loads(path.read_text())["due"]) is not None:
        check(time.monotonic() < end, f"due in {due - time.time()} s while nothing is searched for")
        time.sleep(0.1)


def searches(scorn):
    """An engine is stopped (it hangs) or killed in every state."""
    with tempfile.TemporaryDirectory() as folder:
        log, status = Path(folder) / "log", Path(folder) / "status"
        session = Session(scorn, "--backend", "hash", "--threads", "1", f"--status={status}")
        session.send("uci")
        session.until("uciok")
        check(any(line.startswith("option name ScLimit ") for line in session.heard), "no options")
        session.send(f"setoption name LogFile value {log}")
        session.send("setoption name CPuct value 2", "setoption name CPuct value 3", "ucinewgame", "isready")
        session.until("readyok")
        session.log, session.logged = log, "setoption name CPuct value 3"

        # Undisturbed.
        check(session.ask(PLACE, "go wtime 60000 btime 60000") == FORCED, "the only move was not played")
        check(not any("watch:" in line for line in session.heard), f"{session.heard}")

        # It uses as much of its clock as it may when the increment is large.
        session.ask(LATER, "go wtime 6000 btime 6000 winc 3000 binc 3000")
        check(not any("watch:" in line for line in session.heard), f"{session.heard}")

        # It hangs, and most of Black's clock passes, not of White's.
        old, begun = session.hurt(signal.SIGSTOP), time.monotonic()
        check(session.ask(PLACE, "go wtime 600000 btime 4000") == FORCED, "another position")
        took_over(session, old, "does not answer")
        check(3.2 <= time.monotonic() - begun < 20.0, f"after {time.monotonic() - begun} s")

        # It hangs with much time left: that is noticed long before the clock says so.
        old, begun = session.hurt(signal.SIGSTOP), time.monotonic()
        check(session.ask(PLACE, "go wtime 600000 btime 600000") == FORCED, "another position")
        took_over(session, old, "does not answer")
        check(time.monotonic() - begun < 100.0, f"after {time.monotonic() - begun} s")

        # It crashes while it searches, while it ponders, and while it is idle.
        session.send(LATER, "go movetime 1500")
        time.sleep(0.3)
        old = session.hurt(signal.SIGKILL)
        check(session.until("bestmove").split()[1].startswith(FROM), "another position")
        took_over(session, old, "has died")
        session.send(PLACE, "go ponder wtime 60000 btime 60000")
        time.sleep(0.3)
        old = session.hurt(signal.SIGKILL)
        time.sleep(0.5)
        nothing_is_due(session, status)
        session.send("ponderhit")
        check(session.until("bestmove").split()[1] == FORCED, "another position")
        took_over(session, old, "has died")
        old = session.hurt(signal.SIGKILL)
        time.sleep(0.5)
        check(session.ask(PLACE, "go nodes 5") == FORCED, "another position")
        took_over(session, old, "has died")

        # It hangs while it ponders: that is noticed when it should stop, or before.
        session.send(PLACE, "go ponder wtime 60000 btime 60000")
        time.sleep(0.3)
        old = session.hurt(signal.SIGSTOP)
        check(session.ask("stop") == FORCED, "another position")
        took_over(session, old, "does not answer")
        session.send(PLACE, "go ponder wtime 30000 btime 30000")
        time.sleep(0.3)
        old = session.hurt(signal.SIGSTOP)
        while "watch: the engine does not answer" not in session.until("info"):
            pass
        check(session.ask("ponderhit") == FORCED, "another position")

        # It is alive all the time, and lichess-bot sees no answer to a question that it has not asked.
        session.send(LATER, "go movetime 5000")
        session.until("bestmove")
        check("readyok" not in session.heard, f"{session.heard}")
        check(not any("watch:" in line for line in session.heard), f"{session.heard}")

        # Every new one received the last value of each option.
        session.wait_for_log()
        reported = [line for line in log.read_text().splitlines() if "setoption name CPuct" in line]
        check(sum("value 3" in line for line in reported) == 8, f"{reported}")
        check(sum("value 2" in line for line in reported) == 1, f"{reported}")
        session.end()


def handshakes(scorn):
    """An engine that hangs at uci or isready is replaced, and the counters say so."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        # Each script hangs the first time, and is the engine the second time.
        for word, status in [("uci", folder / "uci"), ("isready", folder / "ready")]:
            mark, script = folder / f"mark-{word}", folder / f"hangs-at-{word}"
            script.write_text(f"""#!/bin/sh
if [ -e {mark} ]; then exec {scorn} --backend hash --threads 1; fi
touch {mark}
while read -r line; do
    case "$line" in
    {word}) exec sleep 1000 ;;
    uci) echo uciok ;;
    esac
done
""")
            script.chmod(0o755)
            session, begun = Session(script, "--ready=3", f"--status={status}"), time.monotonic()
            session.send("uci")
            session.until("uciok")
            heard = session.heard
            session.send("isready")
            session.until("readyok")
            heard += session.heard
            passed = time.monotonic() - begun
            check(sum("does not answer" in line for line in heard) == 1, f"{word}: {heard}")
            check(2.9 < passed < 25.0, f"{word}: after {passed} s")
            check(session.ask(PLACE, "go nodes 5") == FORCED, "another position")
            health = [sys.executable, str(WATCH.with_name("health.py")), "--status", str(status)]
            report = json.loads(subprocess.run(health, capture_output=True, text=True, check=True).stdout)
            check(report["ok"] and report["engines"] == 1, f"{report}")
            check((report["stalls"], report["searches"]) == (1, 1), f"{report}")
            session.end()
            report = json.loads(subprocess.run(health, capture_output=True, text=True, check=True).stdout)
            check((report["engines"], report["stalls"], report["searches"]) == (0, 1, 1), f"{report}")


def floods(scorn):
    """An engine that prints without end is replaced as one that is silent; it waits while nobody reads."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for may_read in (True, False):
            mark, script = folder / f"mark-{may_read}", folder / f"floods-{may_read}"
            script.write_text(f"""#!/bin/sh
if [ -e {mark} ]; then exec {scorn} --backend hash --threads 1; fi
touch {mark}
while read -r line; do
    case "$line" in
    uci) echo uciok ;;
    isready) echo readyok ;;
    go*) while :; do echo info string busy; done ;;
    esac
done
""")
            script.chmod(0o755)
            session = Session(script)
            session.send("uci", "isready")
            session.until("readyok")
            old = session.engine()
            session.send(PLACE, "go wtime 1500 btime 1500")
            if not may_read:
                session.may_read.clear()
                time.sleep(5.0)
                status = Path(f"/proc/{session.process.pid}/status").read_text()
                peak = int(status.partition("VmHWM:")[2].split()[0]) // 1024
                check(peak < 60, f"{peak} MiB for lines that nobody reads")
                session.may_read.set()
            check(session.until("bestmove").split()[1] == FORCED, "another position")
            took_over(session, old, "does not answer")
            session.end()

        # One that does listen meanwhile is asked and told to stop in time.
        script = folder / "talks"
        script.write_text("""#!/bin/sh
while read -r line; do
    case "$line" in
    uci) echo uciok ;;
    isready) echo readyok ;;
    go*) (while :; do echo info string busy; done) & ;;
    stop) kill $!; wait; echo bestmove e2e4 ;;
    quit) exit ;;
    esac
done
""")
        script.chmod(0o755)
        session = Session(script)
        session.send("uci", "isready", "go infinite")
        session.until("readyok")
        time.sleep(6.0)
        check(session.ask("stop") == "e2e4", "another move")
        check(not any("watch:" in line for line in session.heard), "an engine that answered was replaced")
        session.end()


def loadings():
    """A new engine has the time of --ready to load its network, but no more than there is on the clock."""
    with tempfile.TemporaryDirectory() as folder:
        # The first one loads nothing, and searches until it dies at stop. The next one loads.
        engine = """
import pathlib, sys, time
mark = pathlib.Path(sys.argv[2])
is_first, is_loaded = not mark.exists(), False
mark.touch()
for line in sys.stdin:
    word = line.split()[0]
    if not (is_first or is_loaded) and word in ("isready", "go"):
        time.sleep(float(sys.argv[1]))
        is_loaded = True
    if word == "quit" or word == "stop" and is_first:
        break
    answer = {"uci": "uciok", "isready": "readyok", "go": "" if is_first else "bestmove e2e4"}.get(word)
    if answer:
        print(answer, flush=True)
"""
        program = Path(folder) / "engine.py"
        program.write_text(engine)

        def begin(name, seconds, *lines):
            session = Session(sys.executable, "--ready=120", program, seconds, Path(folder) / name)
            session.send("uci", "isready")
            session.until("readyok")
            session.old = session.engine()
            session.send("position startpos", *lines)
            return session

        stopped = begin("stopped", 8, "go infinite", "stop")
        pondering = begin("pondering", 8, "go ponder wtime 30000 btime 30000", "stop")
        searching = begin("searching", 8, "go wtime 30000 btime 30000")
        late = begin("late", 1000, "go wtime 6000 btime 6000")
        for session in (searching, late):
            session.hurt(signal.SIGKILL)
        for session in (stopped, pondering, searching):
            check(session.until("bestmove") == "bestmove e2e4", "another move")
            took_over(session, session.old, "has died")
            session.end()
        while "does not answer" not in late.until("info"):
            pass
        check(late.process.wait(PATIENCE) == 1, f"it ended with {late.process.returncode}")


def starts(scorn):
    """A program that is missing for a moment, for ever or from the start, and counters that cannot be kept."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        program, status = folder / "engine", folder / "status"
        program.symlink_to(scorn)
        session = Session(program, "--backend", "hash", "--threads", "1", f"--status={status}")
        session.send("uci", "isready")
        session.until("readyok")
        program.unlink()
        session.send(LATER, "go movetime 5000")
        session.hurt(signal.SIGKILL)
        said = session.until("info")
        while "cannot be started" not in said:
            said = session.until("info")
        program.symlink_to(scorn)
        check(session.until("bestmove").split()[1].startswith(FROM), "another position")
        check("No such file" in said, said)
        check(not any("watch:" in line for line in session.heard), f"{session.heard}")
        program.unlink()
        session.hurt(signal.SIGKILL)
        check(session.process.wait(PATIENCE) == 1, f"it ended with {session.process.returncode}")
        totals = json.loads((status / "total.json").read_text())
        check((totals["crashes"], totals["given_up"], totals["searches"]) == (2, 1, 1), f"{totals}")

        missing = subprocess.run([sys.executable, WATCH, f"--engine={program}"], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, check=False, timeout=PATIENCE)
        check(missing.returncode == 1 and not missing.stdout, f"{missing}")
        check(missing.stderr == f"watch.py: {program} cannot be started: No such file or directory\n", f"{missing}")

        program.touch()
        session = Session(scorn, "--backend", "hash", "--threads", "1", f"--status={program}/status")
        session.send("uci", "isready")
        session.until("readyok")
        heard = session.heard
        check(session.ask(PLACE, "go nodes 5") == FORCED, "another position")
        said = [line for line in heard + session.heard if "watch:" in line]
        check(said == [f"info string watch: no counters in {program}/status: Not a directory"], f"{said}")
        session.end()


def orders():
    """A new engine receives the last value of each option, in the order in which these were sent."""
    with tempfile.TemporaryDirectory() as folder:
        script, log = Path(folder) / "logs", Path(folder) / "log"
        script.write_text(f"""#!/bin/sh
echo start >> {log}
while read -r line; do
    echo "$line" >> {log}
    case "$line" in
    uci) echo uciok ;;
    isready) echo readyok ;;
    quit) exit ;;
    esac
done
""")
        script.chmod(0o755)
        session = Session(script)
        sent = [f"setoption name {name} value {value}" for name, value in
                [("A", 1), ("B", 2), ("C d", 3), ("a", 4), ("C d", 5)]]
        session.send("uci", *sent, "isready")
        session.until("readyok")
        session.hurt(signal.SIGKILL)
        session.send("isready")
        session.until("readyok")
        session.end()
        received = log.read_text().split("start\n")
        check(len(received) == 3, f"{received}")
        options = [line for line in received[2].splitlines() if line.startswith("setoption")]
        check(options == [sent[1], sent[3], sent[4]], f"{options}")


def full_disks(scorn):
    """Counters that cannot be written leave no file behind: no file may have a byte, as if the disk were full."""
    with tempfile.TemporaryDirectory() as folder:
        watch = [sys.executable, WATCH, f"--engine={scorn}", "--backend=hash", "--threads=1", f"--status={folder}"]
        command = ["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", *watch]
        found = subprocess.run(command, input=f"uci\n{PLACE}\nisready\nquit\n", capture_output=True, text=True,
                               check=True, timeout=PATIENCE)
        said = [line for line in found.stdout.splitlines() if "watch:" in line]
        check(said == [f"info string watch: no counters in {folder}: File too large"], f"{said}")
        check(os.listdir(folder) == ["lock"], f"{os.listdir(folder)}")


def recurring_numbers(scorn):
    """What a watch has counted that was killed stays when another one has its process number, as in a container."""
    with tempfile.TemporaryDirectory() as folder:
        old = {"state": "searching", "updated": 0, "due": None}
        old |= {"searches": 3, "seconds": 9.5, "slowest": 9.0, "stalls": 1}
        # The shell writes the file of the killed watch under its own number, and becomes the watch.
        script = 'echo "$1" > "$2/watch-$$.json" && shift 2 && exec "$@"'
        watch = [sys.executable, WATCH, f"--engine={scorn}", "--backend=hash", "--threads=1", f"--status={folder}"]
        command = ["sh", "-c", script, "sh", json.dumps(old), folder, *watch]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        with subprocess.Popen(command, **pipes) as session:
            # The search is counted before the next command is read.
            for commands, answer in [(f"{PLACE}\ngo nodes 5\n", "bestmove"), ("isready\n", "readyok")]:
                session.stdin.write(commands)
                while not session.stdout.readline().startswith(answer):
                    check(session.poll() is None, "it ended")
            own = Path(folder) / f"watch-{session.pid}.json"
            counted = [json.loads(path.read_text()) for path in (Path(folder) / "total.json", own)]
            check([part["searches"] for part in counted] == [3, 1], f"{counted}")
            session.stdin.write("quit\n")
        totals = json.loads((Path(folder) / "total.json").read_text())
        check((totals["searches"], totals["slowest"], totals["stalls"]) == (4, 9.0, 1), f"{totals}")
        check(totals["seconds"] > 9.5, f"{totals}")
        check(not own.exists(), "the file of the watch is left")


def health():
    """health.py finds what is stuck, a token that others can read, and what is missing."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        script = [sys.executable, str(WATCH.with_name("health.py")), "--status", str(folder)]
        stuck = {"pid": os.getpid(), "state": "searching", "updated": 0, "due": time.time() - 60}
        (folder / "watch-1.json").write_text(json.dumps(stuck | {"searches": 3, "seconds": 1.5, "slowest": 1.0}))
        played = [("Bot", "x", "1-0"), ("x", "BOT", "1-0"), ("x", "bot", "1/2-1/2"), ("bot", "x", "*")]
        played += [("x", "y", "0-1")]
        text = '[Event "?"]\n[White "{}"]\n[WhiteElo "1500"]\n[Black "{}"]\n[Result "{}"]\n\n1. e4 *\n\n'
        (folder / "games.pgn").write_text("".join(text.format(*game) for game in played))
        config = folder / "config.yml"
        config.touch(0o644)
        more = ["--games", str(folder), "--bot", "bot", "--config", str(config)]
        found = subprocess.run(script + more, capture_output=True, text=True, check=False)
        report = json.loads(found.stdout)
        check(found.returncode == 1 and len(report["problems"]) == 2, f"{report}")
        check(report["games"] == {"won": 1, "drawn": 1, "lost": 1}, f"{report}")
        check((report["searches"], report["mean_seconds"]) == (3, 0.5), f"{report}")
        config.chmod(0o600)
        # The process was killed, and its number is another program's now: what it had counted stays.
        (folder / "watch-1.json").write_text(json.dumps(stuck | {"pid": 1, "searches": 3}))
        found = subprocess.run(script + more, capture_output=True, text=True, check=True)
        report = json.loads(found.stdout)
        check((report["ok"], report["engines"], report["searches"]) == (True, 0, 3), f"{report}")
        without_name = subprocess.run(script + more[:2], capture_output=True, text=True, check=False)
        check(without_name.returncode == 2 and "--bot" in without_name.stderr, f"{without_name}")
        # Games of others only: the name is wrong.
        found = subprocess.run(script + more + ["--bot", "bo"], capture_output=True, text=True, check=False)
        report = json.loads(found.stdout)
        check(found.returncode == 1 and report["problems"] == [f"no game of bo in {folder}"], f"{report}")
        check(report["games"] == {"won": 0, "drawn": 0, "lost": 0}, f"{report}")
        (folder / "watch-1.json").unlink()
        check(subprocess.run(script + more, capture_output=True, check=False).returncode == 0, "nothing is stuck now")
        # What does not exist is not healthy. The last --status, --games and --config count.
        for flag in ("--status", "--games", "--config"):
            missing = [flag, str(folder / "missing")]
            found = subprocess.run(script + more + missing, capture_output=True, text=True, check=False)
            check(found.returncode == 1 and not found.stderr, f"{missing}: {found}")
            expected = [f"{folder}/missing: No such file or directory"]
            report = json.loads(found.stdout)
            check(not report["ok"] and report["problems"] == expected, f"{missing}: {report}")


def flags():
    """A flag whose value stands behind a space is refused: it would be passed on to another engine."""
    for flag, value in [("--engine", "PROGRAM"), ("--ready", "SECONDS"), ("--status", "FOLDER")]:
        found = subprocess.run([sys.executable, WATCH, flag, "x"], capture_output=True, text=True, check=False)
        expected = f"watch.py: {flag} needs a value: {flag}={value}\n"
        check((found.returncode, found.stderr) == (1, expected), f"{found}")


def endings(scorn):
    """An engine that never works is given up, and the engine ends with watch.py."""
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder) / "broken"
        broken.write_text("#!/bin/sh\nread line\nexit 3\n")
        broken.chmod(0o755)
        session = Session(broken)
        session.send("uci")
        check(session.process.wait(PATIENCE) == 1, f"it ended with {session.process.returncode}")
    session = Session(scorn, "--backend", "hash")
    session.send("isready")
    session.until("readyok")
    engine = session.engine()
    session.process.stdin.close()
    check(session.process.wait(PATIENCE) == 0, f"it ended with {session.process.returncode}")
    check(not Path(f"/proc/{engine}").exists(), "the engine outlived the watch")


def main():
    scorn = Path(sys.argv[1]).resolve()
    begun = time.monotonic()
    health()
    flags()
    orders()
    full_disks(scorn)
    recurring_numbers(scorn)
    endings(scorn)
    handshakes(scorn)
    floods(scorn)
    loadings()
    starts(scorn)
    searches(scorn)
    print(f"engines that hang and die behind watch.py: answered in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
