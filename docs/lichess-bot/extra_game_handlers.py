"""Which challenges from a position the bot accepts, and what it does when lichess refuses a move or a connection breaks
off: replaces the file of this name beside lichess-bot.py.

Refused are positions that are not legal or already over, that no game can reach, that have more pieces than a game
starts with, or in which one side is so far ahead that there is nothing to play for. The limits are the constants below.

A move that lichess refuses because of too many requests (429) is sent again, and the stream of a game that is refused
or breaks off is opened again as long as the game goes on. lichess-bot (2026.8) does neither: after a refused move it
waits for the opponent, it gives a game up whose stream is refused, and if it notices a break after lichess's events are
back, nobody takes the game up again. It loses the game in all these cases. Where it does take a game up that is still
being played, as after a break of the events alone, two processes would play it: such a second start is left out.
"""

import contextlib
import fcntl
import json
import logging
import os
import tempfile
import time

import chess
import requests

try:
    from lib import lichess
except ImportError:  # Read by another program than lichess-bot.
    lichess = None

logger = logging.getLogger(__name__)

MAX_BEHIND = 24
"""Pawns (queen 9, rook 5, bishop and knight 3) by which the bot may be behind: a queen, two rooks and a bishop are
22."""
MAX_AHEAD = 24
"""Pawns by which the opponent may be behind."""
MIN_OWN = 3
"""Pawns that the bot must have at least: with a bare king it cannot win."""
MAX_PROMOTED = 0
"""Pieces beyond those of the normal start that a side may have."""
WORTH = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9}
AT_START = {chess.KNIGHT: 2, chess.BISHOP: 2, chess.ROOK: 2, chess.QUEEN: 1}
PAWNS_AT_START = 8

REFUSED_WAIT = 60.0
"""Seconds before a refused move is sent again: as long as lichess asks for, if the clock allows it."""
REFUSED_CLOCK = 0.2
"""The part of the bot's clock that waiting may take."""
REFUSED_MIN = 0.5
"""Seconds, the minimum for any clock."""
FIRST_WAIT = 5.0
"""Seconds, the maximum before the first move of a side, and the wait for the first stream of a game: lichess aborts a
game in which a side has not moved after about 30 s."""
FIRST_MOVES = 2
"""The moves, one of each side, before which lichess may abort a game."""
RECONNECT_WAIT = 0.5
"""Seconds before the stream of a game is opened again."""
LOCK_ATTEMPTS = 20
"""How often, in a second, the lock of a game is tried."""


def material(board, side):
    return sum(worth * len(board.pieces(piece, side)) for piece, worth in WORTH.items())


def has_too_many_promoted(board, side):
    """Whether more pieces of the side must be promoted than pawns are missing. At the start its bishops stand on
    squares of different colours. The engine refuses such positions."""
    bishops = board.pieces(chess.BISHOP, side)
    promoted = sum(max(len(bishops & colour) - 1, 0) for colour in (chess.BB_LIGHT_SQUARES, chess.BB_DARK_SQUARES))
    promoted += sum(max(len(board.pieces(piece, side)) - count, 0)
                    for piece, count in AT_START.items() if piece != chess.BISHOP)
    return promoted > PAWNS_AT_START - len(board.pieces(chess.PAWN, side))


def has_impossible_check(board):
    """Whether several pawns and knights give check, of which a move uncovers none. `is_valid` finds the other checks
    that no move can have given. The engine refuses all of them."""
    return len(board.checkers() & (board.pawns | board.knights)) > 1


def refusal(fen, bot_is_white):
    """Why a position is not played; None if it is."""
    try:
        board = chess.Board(fen, chess960=True)
    except ValueError as error:
        return f"not a position: {error}"
    if not board.is_valid():
        return f"not legal: {board.status()!r}"
    if has_impossible_check(board):
        return "no move can have given these checks"
    if board.is_game_over():
        return "the game is over"
    for side in chess.COLORS:
        promoted = sum(max(len(board.pieces(piece, side)) - count, 0) for piece, count in AT_START.items())
        if promoted > MAX_PROMOTED:
            return "more pieces than at the start"
        if has_too_many_promoted(board, side):
            return "more pieces than promotions allow"
    own, other = material(board, bot_is_white), material(board, not bot_is_white)
    if own < MIN_OWN:
        return "the bot has nothing to play with"
    if own - other > MAX_AHEAD or other - own > MAX_BEHIND:
        return "one side is too far ahead"
    return None


def is_supported_extra(challenge):
    """Called by lichess-bot for a challenge that the configuration allows."""
    if challenge.variant != "fromPosition":
        return True
    # The colour of a challenge is the challenger's.
    return refusal(challenge.initial_fen, challenge.color == "black") is None


current_game = None
"""The game of this process: lichess-bot plays each game in one of its own."""
clocks_seen_at = None
"""When (time.monotonic()) lichess last told the clocks of this game."""


def game_specific_options(game):
    """No options: the engine's profiles set them."""
    global current_game  # noqa: PLW0603
    current_game = game
    return {}


def wait_after_refusal(game_id, asked_at):
    """Seconds before a refused move is sent again, a part of what is left on the clock; None if nothing is. The clock
    runs since lichess told it, or, if that is not known, since the first attempt."""
    if current_game is None or current_game.id != game_id:
        return None
    clock = current_game.state.get("wtime" if current_game.is_white else "btime", 0) / 1000
    left = clock - (time.monotonic() - (clocks_seen_at or asked_at))
    has_begun = len(current_game.state.get("moves", "").split()) >= FIRST_MOVES
    most = REFUSED_WAIT if has_begun else FIRST_WAIT
    return min(max(REFUSED_CLOCK * left, REFUSED_MIN), most) if left > 0 else None


def is_refusal(error):
    """Whether lichess, or lichess-bot because of an earlier answer of lichess, refuses requests for the moment."""
    response = getattr(error, "response", None)
    return isinstance(error, lichess.RateLimitedError) or getattr(response, "status_code", None) == 429


def repeating(make_move):
    """`make_move` of lichess-bot, which sends a move again while lichess refuses it."""

    def repeat(self, game_id, move):
        asked_at = time.monotonic()
        while True:
            try:
                return make_move(self, game_id, move)
            except Exception as error:
                wait = wait_after_refusal(game_id, asked_at) if is_refusal(error) else None
                if wait is None:
                    raise
                logger.warning("lichess refuses the move of %s for now: it is sent again in %.1f s", game_id, wait)
                time.sleep(wait)
                # Otherwise lichess-bot would not even try before a minute is over.
                self.rate_limit_timers.pop(lichess.ENDPOINTS["move"], None)

    return repeat


def lock_of(game_id):
    """The file that the process which plays a game keeps locked."""
    name = "".join(letter for letter in game_id if letter.isalnum())
    return os.path.join(tempfile.gettempdir(), f"scorn-bot-{os.getuid()}-{name}.lock")


def is_played(game_id):
    """Whether a process plays the game."""
    with contextlib.suppress(FileNotFoundError), open(lock_of(game_id), encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def locked(path):
    """The file, locked for this process."""
    lock = open(path, "w", encoding="utf-8")
    try:
        for attempt in range(LOCK_ATTEMPTS):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # Another process may just look whether the game is played.
                if attempt == LOCK_ATTEMPTS - 1:
                    raise
                time.sleep(0.05)
    except BaseException:
        lock.close()
        raise
    return lock


class GameStream:
    """The lines of a game, from as many connections as it takes. Only one process may have it."""

    def __init__(self, game_id, connect):
        self.game_id, self.connect = game_id, connect
        self.lock = locked(lock_of(game_id))
        try:
            self.response = self.connected()
        except BaseException:
            # lichess-bot may try again in this process, where the exception keeps this object alive.
            self.unlock()
            raise

    def unlock(self):
        with contextlib.suppress(OSError):
            os.remove(self.lock.name)
        self.lock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()
        self.unlock()

    def iter_lines(self):
        """The lines until the game is over. Every connection begins with the whole game, of which later ones keep the
        state."""
        global clocks_seen_at  # noqa: PLW0603
        is_first, is_over = True, False
        while True:
            is_begun = False
            try:
                for line in self.response.iter_lines():
                    event = json.loads(line) if line else {}
                    state = event.get("state", event)
                    if "wtime" in state:
                        clocks_seen_at = time.monotonic()
                    if "status" in state:
                        is_over = state["status"] not in ("created", "started")
                    if line and not is_begun and not is_first:
                        line = json.dumps(state).encode()
                    is_begun = is_begun or bool(line)
                    is_first = is_first and not line
                    yield line
            except (requests.exceptions.RequestException, ValueError) as error:
                # A last line may be a part of one.
                logger.warning("the stream of a game has broken off: %s", error)
            if is_over:
                return
            self.response.close()
            time.sleep(RECONNECT_WAIT)
            self.response = self.connected()

    def connected(self):
        """A connection, as soon as lichess gives one: it may refuse some, or be unreachable for a while."""
        while True:
            try:
                return self.connect()
            except (requests.exceptions.RequestException, lichess.RateLimitedError) as error:
                response = getattr(error, "response", None)
                if response is not None and 400 <= response.status_code < 500 and not is_refusal(error):
                    raise
                wait = RECONNECT_WAIT
                if is_refusal(error):
                    # The clock is not known yet, or is over, if this finds nothing.
                    wait = wait_after_refusal(self.game_id, time.monotonic()) or FIRST_WAIT
                logger.warning("the stream of a game cannot be opened yet, next attempt in %.1f s: %s", wait, error)
                time.sleep(wait)


def reconnecting(get_game_stream):
    """`get_game_stream` of lichess-bot, whose stream lasts as long as the game."""

    def stream(self, game_id):
        def connect():
            # Otherwise lichess-bot would not even try for a minute after a refusal.
            self.rate_limit_timers.pop(lichess.ENDPOINTS["stream"], None)
            return get_game_stream(self, game_id)

        return GameStream(game_id, connect)

    return stream


class EventStream:
    """lichess's events, without the starts of games that are being played."""

    def __init__(self, response):
        self.response = response

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()

    def iter_lines(self):
        """The lines; an empty one, as lichess sends it every few seconds, replaces an event that is left out."""
        for line in self.response.iter_lines():
            event = json.loads(line) if line else {}
            is_known = event.get("type") == "gameStart" and is_played(event["game"]["id"])
            yield b"" if is_known else line


def filtering(get_event_stream):
    """`get_event_stream` of lichess-bot, without games that are being played."""
    return lambda self: EventStream(get_event_stream(self))


if lichess is not None:
    lichess.Lichess.make_move = repeating(lichess.Lichess.make_move)
    lichess.Lichess.get_game_stream = reconnecting(lichess.Lichess.get_game_stream)
    lichess.Lichess.get_event_stream = filtering(lichess.Lichess.get_event_stream)
