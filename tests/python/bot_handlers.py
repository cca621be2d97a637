#!/usr/bin/env python3
"""Checks docs/lichess-bot/extra_game_handlers.py without lichess-bot: which challenges it accepts, whether the engine
plays the positions, and what it does when lichess refuses or breaks off.

usage: bot_handlers.py SCORN [POSITIONS]. Needs the packages chess and requests. POSITIONS random positions are tried,
1000 by default. The whole bridge is tested by lichess_bridge.py.
"""

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import chess
import requests

FILE = Path(__file__).resolve().parents[2] / "docs/lichess-bot/extra_game_handlers.py"


POSITIONS = [
    # The position, whether the bot is White, and why it is refused.
    ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1", True, None),
    ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1", False, None),
    ("bqnrkbrn/pppppppp/8/8/8/8/PPPPPPPP/BQ1RKBRN w GDgd - 0 1", True, None),
    ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP w KQkq - 0 1", True, "not a position"),
    # White is to move and gives check.
    ("rnbqkbnr/pppp1ppp/8/8/8/8/PPPPQPPP/RNB1KBNR w KQkq - 0 1", True, "not legal"),
    ("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3", True, "over"),
    # Two knights, two pawns, and a knight with a pawn give check; a bishop with a knight may.
    ("r1b1kb1r/ppNppppp/5N2/8/8/8/PPPPPPPP/R1BQKB1R b KQkq - 0 1", True, "checks"),
    ("rnbq1bnr/pppppppp/8/8/4k3/3P1P2/PPP1P1PP/RNBQKBNR b KQ - 0 1", True, "checks"),
    ("rnbq1bnr/pppppppp/8/8/4k3/3P4/PPP1PPNP/R1BQKBNR b KQ - 0 1", True, None),
    ("rnbq1bnr/pppppppp/8/8/4k3/3P2N1/PPP1PPPP/R1BQKBNR b KQ - 0 1", True, "checks"),
    ("r1b1kb1r/ppp1pppp/5N2/1B6/8/8/PPPPPPPP/R1BQK1NR b KQkq - 0 1", True, None),
    # Three knights, bishops and rooks, and two queens.
    ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPP1/NNBQKBNR w Kkq - 0 1", True, "at the start"),
    ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPP1/BNBQKBNR w Kkq - 0 1", True, "at the start"),
    ("rnbqkbnr/ppppppp1/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", True, None),
    ("rrbqkbnr/ppppppp1/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", True, "at the start"),
    ("rnbqkbqr/ppppppp1/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", True, "at the start"),
    # Bishops on squares of one colour, without and with a pawn less.
    ("rnbqkbnr/pppppppp/8/8/8/3B4/PPPPPPPP/RN1QKBNR w KQkq - 0 1", True, "promotions"),
    ("rnbqkbnr/pppppppp/8/8/8/3B4/PPPPPPP1/RN1QKBNR w KQkq - 0 1", True, None),
    ("rn1qkbnr/pppppppp/4b3/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", True, None),
    ("rn1qkbnr/pppppppp/3b4/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", True, "promotions"),
    # Too few pieces for the bot, but not for the opponent.
    ("4k3/ppp5/8/8/8/8/PP6/4K3 w - - 0 1", True, "nothing to play with"),
    ("4k3/ppp5/8/8/8/8/PP6/4K3 w - - 0 1", False, None),
    # 24 and 25 pawns ahead and behind.
    ("1nb1k1n1/pppppp2/8/8/8/8/PPPPPPPP/RNBQKBNR w KQ - 0 1", True, None),
    ("1nb1k1n1/pppppp2/8/8/8/8/PPPPPPPP/RNBQKBNR w KQ - 0 1", False, None),
    ("1nb1k1n1/ppppp3/8/8/8/8/PPPPPPPP/RNBQKBNR w KQ - 0 1", True, "too far ahead"),
    ("1nb1k1n1/ppppp3/8/8/8/8/PPPPPPPP/RNBQKBNR w KQ - 0 1", False, "too far ahead"),
]


class RateLimitedError(RuntimeError):
    """As lichess-bot's."""


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def load(**waits):
    spec = importlib.util.spec_from_file_location("extra_game_handlers", FILE)
    handlers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(handlers)
    endpoints = {"move": "/move", "stream": "/stream"}
    handlers.lichess = types.SimpleNamespace(RateLimitedError=RateLimitedError, ENDPOINTS=endpoints)
    vars(handlers).update(waits)
    return handlers


class Response:
    """A stream of these lines, which may break off."""

    def __init__(self, *lines, error=None):
        self.lines, self.error = lines, error

    def iter_lines(self):
        yield from self.lines
        if self.error:
            raise self.error

    def close(self):
        pass


def line(status, wtime=100_000):
    return json.dumps({"type": "gameState", "status": status, "wtime": wtime, "btime": wtime, "moves": ""}).encode()


def refused(status):
    response = requests.Response()
    response.status_code = status
    return requests.exceptions.HTTPError(response=response)


def positions_are_accepted_or_refused(handlers):
    for fen, bot_is_white, why_not in POSITIONS:
        found = handlers.refusal(fen, bot_is_white)
        is_right = found is None if why_not is None else found is not None and why_not in found
        check(is_right, f"{fen}, the bot is {'White' if bot_is_white else 'Black'}: {found}")

    # If a piece more may be accepted, a pawn must be missing for it.
    handlers.MAX_PROMOTED = 1
    three_knights = "rnbqkbnr/pppppppp/8/8/8/N7/PPPPPPP1/1NBQKBNR w Kkq - 0 1"
    check(handlers.refusal(three_knights, True) is None, "a promoted knight")
    found = handlers.refusal(three_knights.replace("P1/", "PP/"), True)
    check(found == "more pieces than promotions allow", f"{found}")
    handlers.MAX_PROMOTED = 0

    def is_supported(variant, fen, color):
        return handlers.is_supported_extra(types.SimpleNamespace(variant=variant, initial_fen=fen, color=color))

    # With White the bot would have nothing to play with. The colour of a challenge is the challenger's.
    few = "4k3/ppp5/8/8/8/8/PP6/4K3 w - - 0 1"
    check(is_supported("fromPosition", few, "white"), "the bot has Black")
    check(not is_supported("fromPosition", few, "black"), "the bot has White")
    check(is_supported("standard", "startpos", "black"), "a normal game")


def random_position(chance):
    """A start position from which pieces are taken, and to which some are added; most are legal."""
    board = chess.Board.from_chess960_pos(chance.choice([518, chance.randrange(960)]))
    for _ in range(chance.randint(0, 10)):
        square = chance.choice(list(board.piece_map()))
        if board.piece_type_at(square) != chess.KING or chance.random() < 0.1:
            piece = board.remove_piece_at(square)
            if chance.random() < 0.5:
                board.set_piece_at(chance.randrange(64), piece)
    board.turn = chance.random() < 0.5
    king = board.king(board.turn)
    if king is not None and chance.random() < 0.5:
        # Two checks, of pieces that are there. The squares from which a piece attacks the king are those that a piece
        # of the other colour attacks on the king's.
        taken = [piece for piece in board.piece_map().items() if piece[1].color != board.turn]
        for square, piece in chance.sample(taken, min(len(taken), 2)):
            if piece.piece_type != chess.KING:
                board.remove_piece_at(square)
                attacker = board.copy()
                attacker.set_piece_at(king, chess.Piece(piece.piece_type, board.turn))
                board.set_piece_at(chance.choice([*attacker.attacks(king), square]), piece)
    fields = board.fen().split()
    fields[2] = chance.choice([fields[2], "-", "KQkq", "K", "AHah"])
    if chance.random() < 0.3:
        fields[3] = chance.choice("abcdefgh") + ("6" if board.turn else "3")
    fields[4] = chance.choice(["0", "99", "100", "149", "150"])
    return " ".join(fields)


def the_engine_plays_what_is_accepted(handlers, scorn, count):
    """Random positions, as lichess-bot sends them: the engine has a legal move in each."""
    chance, accepted = random.Random(5), []
    while len(accepted) < count:
        fen = random_position(chance)
        if handlers.refusal(fen, chance.random() < 0.5) is None:
            # As lichess-bot decides it.
            board = chess.Board(fen)
            board.chess960 = board != chess.Board(fen, chess960=True)
            accepted.append(chess.Board(fen, chess960=board.chess960))
    command = [scorn, "--backend", "hash", "--threads", "1", "--profiles", "off"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(command, **pipes) as engine:
        for board in accepted:
            engine.stdin.write(f"setoption name UCI_Chess960 value {str(board.chess960).lower()}\n")
            engine.stdin.write(f"position fen {board.fen(shredder=board.chess960, en_passant='fen')}\ngo nodes 1\n")
            move = next(line.split()[1] for line in engine.stdout if line.startswith("bestmove"))
            check(move != "(none)" and chess.Move.from_uci(move) in board.legal_moves, f"{move} in {board.fen()}")
        engine.stdin.write("quit\n")


def streams_are_opened_again(handlers):
    """Whatever breaks them off, and however often lichess refuses (also the first one), until the game is over or
    unknown."""
    full = json.dumps({"type": "gameFull", "state": {"status": "started", "wtime": 1000}}).encode()
    answers = [
        refused(429), RateLimitedError("wait"), requests.exceptions.ConnectionError("no network"), refused(502),
        Response(full, b'{"type": "gameSta', error=requests.exceptions.ConnectionError("broken")),
        refused(429), RateLimitedError("wait"), requests.exceptions.ConnectionError("no network"), refused(502),
        Response(line("started"), b"", error=requests.exceptions.ChunkedEncodingError("broken")),
        Response(line("resign")),
    ]

    def connect():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with handlers.GameStream("game1", connect) as stream:
        lines = [found for found in stream.iter_lines() if found]
    check([json.loads(found)["type"] for found in lines] == ["gameFull", "gameState", "gameState"], f"{lines}")
    check(not answers, f"{answers}")
    for unknown in ([refused(404)], [Response(full), refused(404)]):
        answers[:] = [*unknown, Response(line("mate"))]
        try:
            with handlers.GameStream("game2", connect) as stream:
                list(stream.iter_lines())
        except requests.exceptions.HTTPError:
            check(len(answers) == 1, f"{answers}")
            # lichess-bot tries again while the exception is handled.
            check(not handlers.is_played("game2"), "a game without a stream is played")
            check(not os.path.exists(handlers.lock_of("game2")), "a file was left behind")
            with handlers.GameStream("game2", connect):
                check(not answers, f"{answers}")
        else:
            raise AssertionError("a game that lichess does not know was asked for again")


def a_refusal_stops_no_later_attempt(handlers):
    """lichess-bot itself sends no request for a minute after a refusal: that time is cleared before each attempt."""
    timers = {"/stream": "a minute", "/move": "a minute"}
    answers = [refused(429), RateLimitedError("wait"), Response(line("mate"))]

    def get_game_stream(bot, game_id):
        check(timers == {"/move": "a minute"}, f"{game_id}: {timers}")
        bot.rate_limit_timers["/stream"] = "a minute"
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    bot = types.SimpleNamespace(rate_limit_timers=timers)
    with handlers.reconnecting(get_game_stream)(bot, "game5") as stream:
        check(list(stream.iter_lines()) == [line("mate")], "another line")
    check(not answers, f"{answers}")


def one_process_plays_a_game(handlers):
    check(not handlers.is_played("game3"), "nobody plays it")
    check(not os.path.exists(handlers.lock_of("game3")), "a file was left behind")
    with handlers.GameStream("game3", Response):
        check(handlers.is_played("game3"), "it is being played")
        begun = time.monotonic()
        try:
            handlers.GameStream("game3", Response)
        except BlockingIOError:
            check(time.monotonic() - begun > 0.5, "the lock was not tried again")
        else:
            raise AssertionError("two processes play a game")
    check(not handlers.is_played("game3") and not os.path.exists(handlers.lock_of("game3")), "it is over")


def the_wait_after_a_refusal_leaves_time(handlers):
    """A fifth of what is left of the clock, which has run while the engine was thinking."""
    state = {"wtime": 100_000, "btime": 5_000, "moves": "e2e4 e7e5"}
    handlers.game_specific_options(types.SimpleNamespace(id="game4", is_white=True, state=state))
    handlers.clocks_seen_at = time.monotonic() - 60
    wait = handlers.wait_after_refusal("game4", time.monotonic())
    check(abs(wait - 0.2 * 40) < 0.5, f"{wait}")
    handlers.clocks_seen_at = time.monotonic() - 101
    check(handlers.wait_after_refusal("game4", time.monotonic()) is None, "the time is over")
    check(handlers.wait_after_refusal("other", time.monotonic()) is None, "another game")
    # Of ten minutes a fifth would be two; before the first move of a side lichess aborts the game after half a minute.
    handlers.clocks_seen_at = time.monotonic()
    for moves, most in [("", 5), ("e2e4", 5), ("e2e4 e7e5", 60), ("e2e4 e7e5 g1f3", 60)]:
        state |= {"wtime": 600_000, "moves": moves}
        wait = handlers.wait_after_refusal("game4", time.monotonic())
        check(wait == most, f"{wait} s after the moves {moves}")
    handlers.clocks_seen_at = None
    stream = handlers.GameStream("game4", lambda: Response(line("started"), line("mate")))
    with stream:
        list(stream.iter_lines())
    check(time.monotonic() - handlers.clocks_seen_at < 5, "the clocks were not seen")


def main():
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        handlers = load(RECONNECT_WAIT=0.0, FIRST_WAIT=0.0)
        positions_are_accepted_or_refused(handlers)
        the_engine_plays_what_is_accepted(handlers, sys.argv[1], int((sys.argv[2:] or [1000])[0]))
        streams_are_opened_again(handlers)
        a_refusal_stops_no_later_attempt(handlers)
        one_process_plays_a_game(handlers)
        the_wait_after_a_refusal_leaves_time(load(RECONNECT_WAIT=0.0))
    print("the bot accepts what the engine plays, opens streams again, plays a game once and waits within its clock")


if __name__ == "__main__":
    main()
