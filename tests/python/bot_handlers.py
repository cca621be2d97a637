#!/usr/bin/env python3
"""Checks docs/lichess-bot/extra_game_handlers.py without lichess-bot: what it does when lichess refuses or breaks off.

usage: bot_handlers.py. Needs the packages chess and requests. The whole bridge is tested by lichess_bridge.py.
"""

import importlib.util
import json
import os
import tempfile
import time
import types
from pathlib import Path

import requests

FILE = Path(__file__).resolve().parents[2] / "docs/lichess-bot/extra_game_handlers.py"


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
        streams_are_opened_again(handlers)
        a_refusal_stops_no_later_attempt(handlers)
        one_process_plays_a_game(handlers)
        the_wait_after_a_refusal_leaves_time(load(RECONNECT_WAIT=0.0))
    print("the bot opens streams again, plays a game once and waits within its clock")


if __name__ == "__main__":
    main()
