#!/usr/bin/env python3
"""Plays games through the real lichess-bot against a local server that implements lichess's bot API.

usage: lichess_bridge.py SCORN [--games 20] [--soak N] [--at-once 22] [--totals FILE]

The bridge is the archive that LICHESS_BOT names (GitHub's .tar.gz of a commit is one), or peers/lichess-bot.tar.zst in
the folder that SCORN_SHARED names; without both, this says SKIPPED. The Python that runs this must have the bridge's
libraries (chess, PyYAML, requests, backoff, rich). The configuration is docs/lichess-bot/config.yml with watch.py
beside it; only the address, the program, the number of games at once, the shortest clock and the thinking time are
replaced.

First the games: from the normal start and at odds, each position with both colours, ended by mate, resignation or the
clock. Then failures: challenges that are refused, games that are aborted by either side, an opponent who leaves,
streams that are refused or break off, an engine that hangs or is killed, also together with its watch. Anything
unexpected ends it with an error.

With --soak the bridge instead plays N short games, many at once, while connections break off, opponents abort, lichess
refuses moves and streams for a while (429), and engines are killed or stopped at random. No game may get stuck or be
lost on time. --totals adds the results to those in FILE (JSON), so that a large number of games can be played in
several runs.
"""

import argparse
import contextlib
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOT = "ScornBot"
TOKEN = "lip_test"
PERFS = {speed: {"games": 10, "rating": 2000} for speed in ("bullet", "blitz", "rapid", "classical")}
PROFILE = {"id": BOT.lower(), "username": BOT, "title": "BOT", "perfs": PERFS}
ODDS = {
    "standard start": None,
    "queen": "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
    "Black's queen": "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "rook": "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/1NBQKBNR w Kkq - 0 1",
    "two knights": "r1bqkb1r/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "queen and rook": "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/1NB1KBNR w Kkq - 0 1",
}
PATIENCE = 60.0
"""Seconds after which a test has hung."""


class Game:
    """A game on the server, with an opponent who plays random legal moves."""

    def __init__(self, server, number, fen, bot_is_white, rating, ending, clock):
        import chess

        self.server, self.id, self.fen, self.bot_is_white = server, f"game{number:04}", fen, bot_is_white
        self.rating, self.ending = rating, ending
        self.board = chess.Board(fen) if fen else chess.Board()
        self.limit, self.increment = clock
        self.clock = {True: self.limit * 1000, False: self.limit * 1000}
        self.status, self.winner = "started", None
        self.streams = []
        self.bot_moves = 0
        self.since = time.monotonic()
        self.random = random.Random(number)
        self.lock = threading.RLock()
        self.over = threading.Event()
        self.times_streamed = 0
        # What has happened, with the times, for the report on a game that is lost.
        self.events = []

    def bot_to_move(self):
        return self.board.turn == self.bot_is_white

    def note(self, what):
        self.events.append(f"{time.monotonic() - self.server.begun:.1f} {what}")

    def check_flag(self):
        """Ends the game if the time of the side to move is over."""
        with self.lock:
            side = self.board.turn
            passed = (time.monotonic() - self.since) * 1000
            if self.status == "started" and len(self.board.move_stack) >= 2 and passed > self.clock[side]:
                self.clock[side] -= passed
                self.end("outoftime", "black" if side else "white")

    def state(self):
        state = {
            "type": "gameState",
            "moves": " ".join(move.uci() for move in self.board.move_stack),
            "wtime": int(self.clock[True]), "btime": int(self.clock[False]),
            "winc": self.increment * 1000, "binc": self.increment * 1000,
            "status": self.status,
        }
        return state | ({"winner": self.winner} if self.winner else {})

    def full(self):
        bot = {"id": BOT.lower(), "name": BOT, "title": "BOT", "rating": 2000}
        opponent = {"id": "somebody", "name": "Somebody", "title": None, "rating": self.rating}
        white, black = (bot, opponent) if self.bot_is_white else (opponent, bot)
        return {
            "type": "gameFull", "id": self.id, "rated": False,
            "variant": {"key": "fromPosition", "name": "From Position"} if self.fen
            else {"key": "standard", "name": "Standard"},
            "clock": {"initial": self.limit * 1000, "increment": self.increment * 1000},
            "speed": "blitz", "perf": {"name": "Blitz"}, "createdAt": int(time.time() * 1000),
            "white": white, "black": black, "initialFen": self.fen or "startpos", "state": self.state(),
        }

    def brief(self):
        return {"gameId": self.id, "fullId": self.id, "id": self.id, "speed": "blitz", "isMyTurn": self.bot_to_move(),
                "opponent": {"id": "somebody", "username": "Somebody", "rating": self.rating}}

    def send(self, line):
        for stream in list(self.streams):
            stream.put(line)

    def end(self, status, winner=None):
        with self.lock:
            if self.status != "started":
                return
            self.status, self.winner = status, winner
            self.send(self.state())
            for stream in self.streams:
                stream.put(None)
            self.over.set()

    def play(self, text, is_bot):
        """Plays a move; returns the error, if any."""
        import chess

        with self.lock:
            if self.status != "started":
                return "the game is over"
            if is_bot != self.bot_to_move():
                return "not your turn"
            try:
                move = chess.Move.from_uci(text)
            except ValueError:
                return f"no move: {text}"
            if move not in self.board.legal_moves:
                return f"illegal: {text} in {self.board.fen()}"
            side = self.board.turn
            if len(self.board.move_stack) >= 2:
                self.clock[side] -= (time.monotonic() - self.since) * 1000
                if self.clock[side] <= 0:
                    self.end("outoftime", "black" if side else "white")
                    return "out of time"
                self.clock[side] += self.increment * 1000
            self.board.push(move)
            self.note(f"{'bot' if is_bot else 'opponent'} {text}")
            self.since = time.monotonic()
            self.bot_moves += is_bot
            if self.board.is_checkmate():
                self.end("mate", "white" if side else "black")
            elif self.board.is_game_over(claim_draw=True):
                self.end("draw")
            else:
                self.send(self.state())
        if self.status == "started" and not self.bot_to_move():
            threading.Thread(target=self.opponent, daemon=True).start()
        return None

    def opponent(self):
        """The opponent's turn."""
        name, at = self.ending
        time.sleep(self.random.choice([0.0, 0.05, 0.3]))
        if name == "gone" and self.bot_moves >= at:
            self.send({"type": "opponentGone", "gone": True, "claimWinInSeconds": 1})
            self.send({"type": "chatLine", "room": "player", "username": "lichess", "text": "Opponent left"})
            time.sleep(1.5)
            return self.end("timeout", "white" if self.bot_is_white else "black")
        with self.lock:
            if self.status != "started" or self.bot_to_move():
                return
            if self.bot_moves >= at:
                bot, other = ("white", "black") if self.bot_is_white else ("black", "white")
                if name == "resign":
                    return self.end("resign", bot)
                if name == "abort":
                    return self.end("aborted")
                if name == "time":
                    self.clock[not self.bot_is_white] = 0
                    return self.end("outoftime", bot)
                if name == "drop":
                    self.ending = ("resign", at + 4)
                    self.server.drop_streams()
                if name in self.server.hurt:
                    self.ending = ("resign", at + 3)
                    self.server.hurt[name]()
                if name == "silent":
                    return None
            move = self.random.choice(list(self.board.legal_moves))
        return self.play(move.uci(), False)


class Server:
    """The part of lichess that a bot uses."""

    def __init__(self):
        self.games, self.challenges = {}, {}
        self.declined = {}
        self.events = []
        self.errors = []
        self.reconnected = self.refused = 0
        self.busy_until = 0.0
        self.refused_streams = 0
        self.number = 0
        self.hurt = {}
        self.begun = time.monotonic()
        handler = type("Handler", (Handler,), {"lichess": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/"

    def challenge(self, fen=None, bot_is_white=True, rating=1500, ending=("resign", 8), clock=(60, 1), **changes):
        """Challenges the bot; returns the game if it accepts."""
        self.number += 1
        game = Game(self, self.number, fen, bot_is_white, rating, ending, clock)
        key = "fromPosition" if fen else "standard"
        challenge = {
            "id": game.id, "status": "created", "rated": False, "speed": "blitz", "color": "random",
            "finalColor": "black" if bot_is_white else "white",
            "variant": {"key": key, "name": key}, "perf": {"name": "Blitz"},
            "timeControl": {"type": "clock", "limit": clock[0], "increment": clock[1]},
            "challenger": {"id": "somebody", "name": "Somebody", "title": None, "rating": rating},
            "destUser": {"id": BOT.lower(), "name": BOT, "title": "BOT", "rating": 2000},
        } | ({"initialFen": fen} if fen else {}) | changes
        self.challenges[game.id], game.challenge = game, challenge
        self.event({"type": "challenge", "challenge": challenge})
        return game

    def event(self, event):
        for stream in list(self.events):
            stream.put(event)

    def accept(self, name):
        game = self.challenges.pop(name, None)
        if not game:
            return False
        self.games[name] = game
        self.event({"type": "gameStart", "game": game.brief()})
        if not game.bot_to_move():
            threading.Thread(target=game.opponent, daemon=True).start()
        return True

    def ongoing(self):
        return [game for game in self.games.values() if game.status == "started"]

    def drop_streams(self):
        """Drops the connection."""
        for stream in self.events + [stream for game in self.games.values() for stream in game.streams]:
            stream.put(ConnectionError)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    lichess = None

    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # The bridge waits two seconds for an answer, and then asks again.

    def stream(self, lines):
        """Sends lines as they come, until None; an empty line a second keeps the connection."""
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                try:
                    line = lines.get(timeout=1)
                    text = json.dumps(line) + "\n" if isinstance(line, dict) else ""
                except queue.Empty:
                    line, text = {}, "\n"
                if line is ConnectionError:
                    self.connection.close()
                    return
                if line is None:
                    self.wfile.write(b"0\r\n\r\n")
                    return
                self.wfile.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
                self.wfile.flush()
        except OSError:
            pass

    def do_GET(self):
        path = self.path.split("?")[0]
        lichess = self.lichess
        if path == "/api/account":
            self.answer(PROFILE)
        elif path == "/api/account/playing":
            self.answer({"nowPlaying": [game.brief() for game in lichess.ongoing()]})
        elif path == "/api/users/status":
            self.answer([{"id": BOT.lower(), "online": True}])
        elif path == "/api/bot/online":
            self.answer("")
        elif path == "/api/stream/event":
            lines = queue.Queue()
            for game in lichess.ongoing():
                lines.put({"type": "gameStart", "game": game.brief()})
            # Those that the connection that was lost may not have brought.
            for game in list(lichess.challenges.values()):
                lines.put({"type": "challenge", "challenge": game.challenge})
            lichess.reconnected += bool(lichess.events)
            lichess.events = [lines]
            self.stream(lines)
        elif (found := re.fullmatch(r"/api/bot/game/stream/(\w+)", path)) and found[1] in lichess.games:
            game = lichess.games[found[1]]
            if self.is_refused() or lichess.refused_streams:
                game.note("stream refused")
                lichess.refused_streams = max(lichess.refused_streams - 1, 0)
                self.answer({"error": "too many requests"}, 429)
                return
            lines = queue.Queue()
            with game.lock:
                game.times_streamed += 1
                game.note("stream")
                lines.put(game.full())
                if game.status != "started":
                    lines.put(None)
                game.streams = [lines]
            self.stream(lines)
        elif re.fullmatch(r"/game/export/\w+", path):
            self.answer("*\n")
        else:
            lichess.errors.append(f"GET {path}")
            self.answer({"error": "not found"}, 404)

    def is_refused(self):
        """Whether lichess has too many requests for now: a move or a stream of a game is refused, as its documentation
        says."""
        lichess = self.lichess
        if time.monotonic() >= lichess.busy_until:
            return False
        lichess.refused += 1
        return True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        path = self.path.split("?")[0]
        lichess = self.lichess
        words = path.strip("/").split("/")
        if path == "/api/token/test":
            return self.answer({body: {"scopes": "bot:play", "userId": BOT.lower(), "expires": None}})
        if words[:2] == ["api", "challenge"] and words[3] == "accept":
            return self.answer({"ok": True}, 200 if lichess.accept(words[2]) else 404)
        if words[:2] == ["api", "challenge"] and words[3] == "decline":
            lichess.challenges.pop(words[2], None)
            lichess.declined[words[2]] = body.removeprefix("reason=")
            return self.answer({"ok": True})
        game = lichess.games.get(words[3]) if words[:3] == ["api", "bot", "game"] else None
        if not game:
            lichess.errors.append(f"POST {path}")
            return self.answer({"error": "not found"}, 404)
        if words[4] == "move" and self.is_refused():
            game.note("refused")
            return self.answer({"error": "too many requests"}, 429)
        if words[4] == "move":
            problem = game.play(words[5], True)
            if problem and problem != "the game is over":
                lichess.errors.append(f"{game.id}: {problem}")
            return self.answer({"error": problem} if problem else {"ok": True}, 400 if problem else 200)
        if words[4] == "abort":
            game.end("aborted")
        elif words[4] == "resign":
            game.end("resign", "black" if game.bot_is_white else "white")
        return self.answer({"ok": True})


def stat(process):
    """What /proc says of a process after its name: its state, parent, group, session and more."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


class Bridge:
    """lichess-bot, running."""

    def __init__(self, folder, server, scorn, at_once=3, nodes=150):
        import yaml

        config = yaml.safe_load((ROOT / "docs/lichess-bot/config.yml").read_text())
        config |= {"token": TOKEN, "url": server.url, "abort_time": 4, "quit_after_all_games_finish": False}
        self.status, self.games = folder / "status", folder / "games"
        flags = {"engine": str(scorn), "status": str(self.status)}
        config["engine"] |= {"dir": str(ROOT / "docs/lichess-bot"), "engine_options": flags}
        config["pgn_directory"] = str(self.games)
        (folder / "lichess-bot/extra_game_handlers.py").write_text(
            (ROOT / "docs/lichess-bot/extra_game_handlers.py").read_text())
        self.engine_log = folder / "engine.log"
        config["engine"]["uci_options"] |= {"NodeLimit": nodes, "Threads": 1, "RamLimitMb": 64,
                                            "LogFile": str(self.engine_log), "LostGamesFile": str(folder / "lost.epd")}
        config["challenge"] |= {"concurrency": at_once, "max_simultaneous_games_per_user": 99, "min_base": 10}
        path = folder / "config.yml"
        path.write_text(yaml.safe_dump(config))
        self.log_path = folder / "bridge.log"
        self.log = self.log_path.open("w")
        command = [sys.executable, "lichess-bot.py", "--config", str(path), "--disable_auto_logging"]
        # The locks of games are in TMPDIR: another run on this machine has games of the same names.
        environment = os.environ | {"COLUMNS": "250", "NO_COLOR": "1", "TMPDIR": str(folder)}
        self.process = subprocess.Popen(command, cwd=folder / "lichess-bot", stdout=self.log, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
        self.scorn = scorn

    def text(self):
        return self.log_path.read_text(errors="replace")

    def engines(self):
        """The engine processes of this bridge."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(folder / "exe") != str(self.scorn.resolve()):
                    continue
                # The session of the process: the bridge began one for all that it starts... or an engine began its own.
                session = os.getsid(int(stat(folder.name)[1]))
            except OSError:
                continue
            if session == self.process.pid:
                found.append(int(folder.name))
        return found

    def watches(self):
        """The processes of watch.py."""
        return [int(stat(engine)[1]) for engine in self.engines()]

    def hurt(self, how, processes):
        """Sends a signal to some of the processes; there must be one."""
        found = processes()
        if not found:
            raise RuntimeError("nothing to hurt")
        for process in found:
            os.kill(process, how)

    def session(self):
        """All living processes of the bridge's session: groups of their own (the watches and engines) included."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = stat(folder.name)[:4]
            except OSError:
                continue
            if int(session) == self.process.pid and state not in "ZX":
                found.append(int(folder.name))
        return found

    def stop(self):
        """Ends all processes: a watch that outlives the bridge would still write into the folder that is deleted."""
        deadline = time.monotonic() + PATIENCE
        while left := {*self.session(), *self.engines()}:
            check(time.monotonic() < deadline, f"cannot end the processes {left}")
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self.process.poll()
            time.sleep(0.01)
        self.process.wait()
        self.log.close()


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def wait_for(bridge, what, happened):
    deadline = time.monotonic() + PATIENCE
    while not happened():
        check(bridge.process.poll() is None, f"lichess-bot ended while waiting for {what}")
        check(time.monotonic() < deadline, f"waited {PATIENCE} s for {what}")
        time.sleep(0.05)


def play_games(server, bridge, count):
    """Normal games and odds, every start position with both colours: the second game is the rematch."""
    endings = [("resign", 6), ("resign", 14), ("time", 7), ("resign", 9)]
    games = []
    starts = list(ODDS.items())
    for number in range(count):
        name, fen = starts[number // 2 % len(starts)]
        rating = 900 + 1900 * number // count
        games.append(server.challenge(fen, number % 2 == 0, rating, endings[number % len(endings)]))
        # One after the other: lichess-bot 2026.8 mistakes two games that start in the same instant for one.
        wait_for(bridge, f"game {number + 1}, {name}", lambda: games[-1].times_streamed)
        wait_for(bridge, "a free place", lambda: sum(game.status == "started" for game in games) < 3)
    for game in games:
        wait_for(bridge, f"the end of {game.id}", game.over.is_set)
        check(game.status in ("resign", "mate", "draw", "outoftime"), f"{game.id} ended by {game.status}")
        bot = "white" if game.bot_is_white else "black"
        check(game.status == "draw" or game.winner == bot, f"{game.id}: the bot has lost by {game.status}")
        check(game.status == "mate" or game.bot_moves >= 4, f"{game.id} has {game.bot_moves} moves of the bot")
    check("Traceback" not in bridge.text(), "lichess-bot has reported an error")


def refuse(server, bridge):
    """Challenges that the configuration does not allow are declined, with the reason."""
    for reason, changes in {
        "variant": {"variant": {"key": "atomic", "name": "Atomic"}},
        "casual": {"rated": True},
        "timeControl": {"speed": "correspondence", "timeControl": {"type": "correspondence", "daysPerTurn": 2}},
        # extra_game_handlers.py
        "generic": {"fen": "qqqqkqqq/qqqqqqqq/8/8/8/8/8/4K3 w - - 0 1"},
    }.items():
        game = server.challenge(**changes)
        wait_for(bridge, f"a refusal for {reason}", lambda: game.id in server.declined)
        check(server.declined[game.id] == reason, f"declined for {server.declined[game.id]}, not {reason}")


def trouble(server, bridge):
    """All failures of a game."""
    queen = ODDS["queen"]
    for name, bot_is_white, ending, status in [
        ("the opponent aborts", True, ("abort", 1), "aborted"),
        ("the opponent never begins", False, ("silent", 0), "aborted"),
        ("the opponent leaves", True, ("gone", 3), "timeout"),
    ]:
        game = server.challenge(queen, bot_is_white, ending=ending)
        wait_for(bridge, f"the end of a game in which {name}", game.over.is_set)
        check(game.status == status, f"{name}: ended by {game.status}")
    check("Traceback" not in bridge.text(), "lichess-bot has reported an error")
    for name, ending, clock, notices in [
        ("the streams break off", ("drop", 3), (60, 1), True),
        ("the engine is killed", ("kill", 3), (60, 1), False),
        # Half of the clock passes, or five seconds if it ponders.
        ("the engine hangs", ("hang", 3), (12, 2), False),
        ("the engine is killed and its watch, too", ("kill all", 3), (60, 1), True),
    ]:
        game = server.challenge(queen, True, ending=ending, clock=clock)
        wait_for(bridge, f"the end of a game in which {name}", game.over.is_set)
        # The opponent plays anything, so it may be mated before it resigns.
        check(game.status in ("resign", "mate") and game.winner == "white", f"{name}: {game.status}, {game.winner}")
        # The bridge resumes the game, or only notices a slow move.
        check((game.times_streamed > 1) == notices, f"{name}: the game was taken up {game.times_streamed} times")
        # It resigns three moves after the trouble or later; mate may come with the next one.
        least = ending[1] + (3 if game.status == "resign" else 1)
        check(game.bot_moves >= least, f"{name}: the bot made {game.bot_moves} moves")
    check(server.reconnected >= 1, "the stream of events was not taken up again")
    server.refused_streams = 2
    game = server.challenge(queen, True, ending=("resign", 4))
    wait_for(bridge, "the end of a game whose first stream is refused", game.over.is_set)
    check(game.status in ("resign", "mate") and game.winner == "white", f"refused: {game.status}, {game.winner}")
    check(not server.refused_streams and game.times_streamed == 1, f"{server.refused_streams}: {game.events}")
    game = server.challenge(queen, False, ending=("resign", 4))
    wait_for(bridge, "a game after all that", game.over.is_set)


def add_totals(path, results):
    """Adds numbers to those of earlier runs."""
    totals = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, number in results.items():
        totals[name] = totals.get(name, 0) + number
    part = path.with_suffix(".part")
    part.write_text(json.dumps(totals, indent=1), encoding="utf-8")
    os.replace(part, path)


def soak(server, bridge, count, at_once, totals):
    """Many short games at once, and trouble all the time."""
    chance = random.Random(1)
    started, last = [], time.monotonic()
    trouble = {"kill": 0, "stop": 0, "drop": 0, "refuse": 0, "abort": 0}
    while len(started) < count or any(game.status == "started" for game in started):
        check(bridge.process.poll() is None, "lichess-bot ended")
        running = [game for game in started if game.status == "started"]
        if len(started) < count and len(running) < at_once:
            ending = ("abort", 1) if chance.random() < 0.05 else ("resign", chance.randint(2, 5))
            trouble["abort"] += ending[0] == "abort"
            fen = chance.choice(list(ODDS.values()))
            game = server.challenge(fen, chance.random() < 0.5, chance.randint(900, 2500), ending, (60, 1))
            started.append(game)
            wait_for(bridge, f"the start of {game.id}", lambda: game.times_streamed)
        if time.monotonic() - last > 1.0:
            last = time.monotonic()
            what = chance.choice(["kill", "stop", "refuse", "drop", "nothing", "nothing"])
            engines = bridge.engines()
            if what in ("kill", "stop") and engines:
                with_signal = signal.SIGKILL if what == "kill" else signal.SIGSTOP
                try:
                    os.kill(chance.choice(engines), with_signal)
                    trouble[what] += 1
                except ProcessLookupError:
                    pass
            elif what == "refuse":
                server.busy_until = time.monotonic() + 0.3
                trouble[what] += 1
            elif what == "drop" and chance.random() < 0.3:
                server.drop_streams()
                trouble[what] += 1
        for game in running:
            game.check_flag()
            check(time.monotonic() - game.since < PATIENCE, f"{game.id} is stuck: {game.events}")
        time.sleep(0.02)
    ends = {}
    for game in started:
        bot = "white" if game.bot_is_white else "black"
        lost = game.status not in ("aborted", "draw") and game.winner != bot
        end = f"lost by {game.status}" if lost else game.status
        ends[end] = ends.get(end, 0) + 1
        if lost:
            print(f"{game.id} {end}, the bot is {bot}: {'; '.join(game.events)}", file=sys.stderr)
    if totals:
        add_totals(totals, {"games": count, "refused": server.refused} | ends | trouble)
    print(f"{count} games, {at_once} at once: {ends}; trouble: {trouble}, {server.refused} requests refused",
          flush=True)
    check(not any(end in ("lost by outoftime", "lost by resign", "lost by timeout") for end in ends), f"{ends}")


def check_health(bridge, searches):
    """The counters of the games, and the games as PGN."""
    health = [sys.executable, str(ROOT / "docs/lichess-bot/health.py"), "--status", str(bridge.status),
              "--games", str(bridge.games), "--bot", BOT]
    found = subprocess.run(health, capture_output=True, text=True, check=False)
    report = json.loads(found.stdout)
    print(found.stdout.strip())
    check(report["ok"] and report["searches"] >= searches, f"{report}")


def check_engine(bridge, games):
    """The lines sent to the engine, and its answers."""
    log = bridge.engine_log.read_text(errors="replace")
    check("error" not in log.lower(), "the engine has reported an error")
    check(log.count("ucinewgame") >= games, "not every game was announced")
    check("info string profile odds given" in log, "no profile for odds that are given")
    check("setoption name UCI_Opponent value none 900 human Somebody" in log, "the opponent's rating was not sent")
    check(re.search(r"known opponent[^:\n]*: .*OpponentWeights", log), "the rating selected no profile")
    check("go ponder" in log and "ponderhit" in log, "no pondering")


def bridge_archive():
    """The archive of lichess-bot: one that is named must exist; None if there is none."""
    if named := os.environ.get("LICHESS_BOT"):
        check(Path(named).is_file(), f"LICHESS_BOT: no file {named}")
        return Path(named)
    archive = Path(os.environ.get("SCORN_SHARED", ROOT / "../shared")) / "peers/lichess-bot.tar.zst"
    if archive.exists():
        return archive
    print(f"SKIPPED: no {archive} (set LICHESS_BOT or SCORN_SHARED)", file=sys.stderr)
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scorn", type=Path)
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--soak", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=22)
    parser.add_argument("--totals", type=Path)
    args = parser.parse_args()
    archive = bridge_archive()
    if not archive:
        return
    if args.soak:
        # lichess-bot starts a process for each game before the first, which takes a minute on a busy machine.
        globals()["PATIENCE"] = 300.0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "lichess-bot").mkdir()
        unpack = ["tar", "-xf", archive, "-C", folder / "lichess-bot", "--strip-components=1"]
        subprocess.run(unpack, check=True)
        server = Server()
        bridge = Bridge(folder, server, args.scorn.resolve(), *([args.at_once, 20] if args.soak else []))
        server.hurt = {
            "kill": lambda: bridge.hurt(signal.SIGKILL, bridge.engines),
            "hang": lambda: bridge.hurt(signal.SIGSTOP, bridge.engines),
            "kill all": lambda: bridge.hurt(signal.SIGKILL, lambda: bridge.watches() + bridge.engines()),
        }
        try:
            wait_for(bridge, "lichess-bot", lambda: server.events)
            if args.soak:
                soak(server, bridge, args.soak, args.at_once, args.totals)
                check_health(bridge, args.soak)
            else:
                play_games(server, bridge, args.games)
                refuse(server, bridge)
                trouble(server, bridge)
                check_engine(bridge, args.games)
                check_health(bridge, 4 * args.games)
                check(not server.errors, f"unexpected: {server.errors}")
        except AssertionError:
            print(re.sub(" {9,}", "  ", bridge.text())[-6000:], file=sys.stderr)
            if bridge.engine_log.exists():
                print(bridge.engine_log.read_text(errors="replace")[-3000:], file=sys.stderr)
            print(server.errors, file=sys.stderr)
            raise
        finally:
            bridge.stop()
    print(f"{len(server.games)} games through lichess-bot in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
