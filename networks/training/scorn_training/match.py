"""A match between two UCI engines from book positions, every position with both colours.

Each side is a command line with options after it: `scorn;Backend=onnx-cpu;WeightsFile=net.onnx`. With --adjudicate a
game ends as won when both engines have given one side at least 6 pawns, three moves running, and as drawn when both
have seen at most 0.2 pawns for eight moves after move 34: that is what testers of engines do, it halves the time. Give
both engines the same unit of scores then (`ScoreType=centipawn`).
With --pgn every game is written to that file, and a match that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import math
import queue
import random
import re
import shlex
import threading
from dataclasses import dataclass, field
from pathlib import Path

import chess
import chess.engine
import chess.pgn

from .files import write_whole

LONGEST = 500  # plies; games that are longer are drawn


def positions(path: Path, count: int, seed: int) -> list[str]:
    """Positions of an EPD file (plain or .gz), at random."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        lines = [" ".join(line.split(";")[0].split()[:4]) + " 0 1" for line in file if line.strip()]
    return random.Random(seed).sample(lines, min(count, len(lines)))


@dataclass
class Side:
    """An engine with what it may spend on a move."""

    engine: chess.engine.SimpleEngine
    limit: chess.engine.Limit

    @staticmethod
    def start(text: str, limit: str) -> Side:
        """From `command;Option=value;...` and `time=0.5` or `nodes=100`."""
        command, *options = text.split(";")
        name, _, value = limit.partition("=")
        if name not in ("time", "nodes"):
            raise ValueError(f"limit {limit}: time=SECONDS or nodes=NUMBER expected")
        spent = chess.engine.Limit(**{name: int(value) if name == "nodes" else float(value)})
        side = Side(chess.engine.SimpleEngine.popen_uci(shlex.split(command), timeout=60), spent)
        try:
            side.engine.configure(dict(option.split("=", 1) for option in options))
        except Exception:
            side.end()
            raise
        return side

    def end(self) -> None:
        """Ends the program, which may have died before."""
        with contextlib.suppress(chess.engine.EngineError, TimeoutError):
            self.engine.quit()
        self.engine.close()


@dataclass
class Referee:
    """Ends games on which both engines agree."""

    WON, WON_PLIES = 6.0, 6
    LEVEL, LEVEL_PLIES, LEVEL_FROM_MOVE = 0.2, 16, 35

    won: int = 0  # plies for which they have seen White (above 0) or Black (below) winning
    level: int = 0

    def result(self, board: chess.Board, score: chess.engine.PovScore | None) -> float | None:
        """White's score, if the game can end after this move, for which the mover gave `score`."""
        pawns = score.white().score(mate_score=100_000) / 100 if score else 0.0
        decided = 0 if score is None or abs(pawns) < self.WON else int(math.copysign(1, pawns))
        self.won = self.won + decided if decided * self.won > 0 else decided
        quiet = score is not None and abs(pawns) <= self.LEVEL and board.fullmove_number >= self.LEVEL_FROM_MOVE
        self.level = self.level + 1 if quiet else 0
        if abs(self.won) >= self.WON_PLIES:
            return 1.0 if self.won > 0 else 0.0
        return 0.5 if self.level >= self.LEVEL_PLIES else None


def is_over(board: chess.Board) -> bool:
    """Whether the game ends here. Draws that python-chess lets the mover claim by a move still to be played do not count:
    nobody has to repeat a position."""
    return board.is_game_over() or board.is_repetition(3) or board.is_fifty_moves() or board.ply() >= LONGEST


def play(
    board: chess.Board, sides: dict[chess.Color, Side], referee: Referee | None = None
) -> tuple[chess.Board, float, bool]:
    """Plays on from a board: the board at the game's end, White's score, and whether the referee ended it."""
    game = object()
    while not is_over(board):
        side = sides[board.turn]
        played = side.engine.play(board, side.limit, game=game, info=chess.engine.INFO_SCORE)
        if played.move is None:
            raise RuntimeError(f"{side.engine.id.get('name')} has no move in {board.fen()}")
        board.push(played.move)
        early = referee.result(board, played.info.get("score")) if referee else None
        if early is not None:
            return board, early, True
    return board, {"1-0": 1.0, "0-1": 0.0}.get(board.result(), 0.5), False


def elo(score: float) -> float:
    score = min(max(score, 1e-6), 1 - 1e-6)
    return 400 * math.log10(score / (1 - score))


@dataclass
class Tally:
    """Scores of the first engine: by position, then by game (0: it has White, 1: Black)."""

    scores: dict[int, dict[int, float]] = field(default_factory=dict)

    def add(self, position: int, game: int, score: float) -> None:
        self.scores.setdefault(position, {})[game] = score

    def has(self, position: int, game: int) -> bool:
        return game in self.scores.get(position, {})

    def report(self) -> str:
        """Score and Elo with a 95 % interval from the spread of the positions' means."""
        games = [score for games in self.scores.values() for score in games.values()]
        means = [sum(games.values()) / len(games) for games in self.scores.values()]
        wins, draws, losses = (games.count(score) for score in (1.0, 0.5, 0.0))
        mean = sum(means) / len(means)
        spread = math.sqrt(sum((one - mean) ** 2 for one in means) / max(1, len(means) - 1) / len(means))
        low, high = mean - 1.96 * spread, mean + 1.96 * spread
        return (
            f"{len(games)} games: +{wins} ={draws} -{losses}, {100 * mean:.1f} % ({100 * low:.1f} to {100 * high:.1f}), "
            f"Elo {elo(mean):+.0f} ({elo(low):+.0f} to {elo(high):+.0f})"
        )


RESULTS = {1.0: "1-0", 0.5: "1/2-1/2", 0.0: "0-1"}


@dataclass
class Record:
    """The games of a match in a PGN file. `Round` tells position and game: 7.2 is the seventh with colours changed."""

    path: Path
    players: tuple[str, str]  # as they were given on the command line
    limits: tuple[str, str]

    def headers(self, position: int, game: int) -> dict[str, str]:
        """What a game says about the match that it belongs to."""
        white, black = (0, 1) if game == 0 else (1, 0)
        return {
            "Event": "match",
            "Round": f"{position + 1}.{game + 1}",
            "White": self.players[white].replace('"', "'"),
            "Black": self.players[black].replace('"', "'"),
            "WhiteLimit": self.limits[white],
            "BlackLimit": self.limits[black],
        }

    def cut(self) -> None:
        """Takes away a last game that was not written to its end, because the disk was full, say."""
        text = self.path.read_text()
        if text and not re.search(r"\s(1-0|0-1|1/2-1/2)\n\n\Z", text):
            last = text.rfind("\n\n[Event ")
            whole = text[: last + 2] if last >= 0 else ""
            write_whole(self.path, lambda partial: partial.write_text(whole))

    def read(self, fens: list[str]) -> Tally:
        """What was played before."""
        tally = Tally()
        if not self.path.exists():
            return tally
        self.cut()
        with open(self.path) as file:
            while headers := chess.pgn.read_headers(file):
                position, game = (int(part) - 1 for part in headers["Round"].split("."))
                expected = self.headers(position, game)
                is_ours = all(headers.get(name, value) == value for name, value in expected.items())
                fen = headers.get("FEN", chess.STARTING_FEN)
                if not is_ours or position >= len(fens) or fen != chess.Board(fens[position]).fen():
                    raise ValueError(
                        f"{self.path}: round {headers['Round']} is of another match (engines, limits, book, seed or pairs)"
                    )
                white = {text: score for score, text in RESULTS.items()}[headers["Result"]]
                tally.add(position, game, white if game == 0 else 1 - white)
        return tally

    def write(self, position: int, game: int, board: chess.Board, white: float, is_adjudicated: bool) -> None:
        played = chess.pgn.Game.from_board(board)
        played.headers.update(self.headers(position, game))
        played.headers.update({"Result": RESULTS[white], "Termination": "adjudication" if is_adjudicated else "normal"})
        with open(self.path, "a") as file:
            print(played, file=file, end="\n\n")


class Match:
    """The games of a match, played by one or more pairs of engines at a time."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.fens = positions(args.book, args.pairs, args.seed)
        self.limits = args.limit, args.second_limit or args.limit
        self.record = Record(args.pgn, (args.first, args.second), self.limits) if args.pgn else None
        self.tally = self.record.read(self.fens) if self.record else Tally()
        self.games: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        for position in range(len(self.fens)):
            for game in range(1 if args.first_is_white else 2):
                if not self.tally.has(position, game):
                    self.games.put((position, game))
        self.lock = threading.Lock()
        self.failures: list[BaseException] = []

    def run(self) -> Tally:
        threads = [threading.Thread(target=self.work) for _ in range(self.args.concurrency)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]
        if self.tally.scores:
            print(self.tally.report(), flush=True)
        return self.tally

    def work(self) -> None:
        sides: list[Side] = []
        try:
            for player, limit in zip((self.args.first, self.args.second), self.limits):
                sides.append(Side.start(player, limit))
            while not self.failures:
                self.play_game(*self.games.get_nowait(), *sides)
        except queue.Empty:
            pass
        except Exception as failure:  # any failure of an engine ends the match, in all threads
            self.failures.append(failure)
        finally:
            for side in sides:
                side.end()

    def play_game(self, position: int, game: int, first: Side, second: Side) -> None:
        white, black = (first, second) if game == 0 else (second, first)
        referee = Referee() if self.args.adjudicate else None
        board, score, is_adjudicated = play(
            chess.Board(self.fens[position]), {chess.WHITE: white, chess.BLACK: black}, referee
        )
        with self.lock:
            if self.record:
                self.record.write(position, game, board, score, is_adjudicated)
            self.tally.add(position, game, score if game == 0 else 1 - score)
            print(self.tally.report(), flush=True)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--book", type=Path, required=True, help="EPD file")
    parser.add_argument("--pairs", type=int, default=100, help="positions, each played with both colours")
    parser.add_argument("--first-is-white", action="store_true", help="no second game with colours changed, for odds")
    parser.add_argument("--limit", default="time=1")
    parser.add_argument("--second-limit", help="if it differs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=1, help="games at a time")
    parser.add_argument("--pgn", type=Path, help="file for the games; a match found there is continued")
    parser.add_argument("--adjudicate", action="store_true", help="end games on which both engines agree")
    Match(parser.parse_args(argv)).run()


if __name__ == "__main__":
    main()
