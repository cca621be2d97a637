"""A short match that fails on illegal moves, crashes and time losses. Who wins does not matter.

usage: play_match.py GAMES BASE INCREMENT PROGRAM OPPONENT

The clock runs as a GUI's would: what the engine and the way to it take together is charged.
"""

import shlex
import sys
import time

import chess
import chess.engine

# What a busy machine may add to a move without anybody's fault, in seconds.
GRACE = 0.05
# Games are cut off here; a draw.
LONGEST = 300


def main() -> None:
    games, base, increment = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    commands = [shlex.split(sys.argv[4]), shlex.split(sys.argv[5])]
    for number in range(games):
        engines = [chess.engine.SimpleEngine.popen_uci(command, timeout=60) for command in commands]
        try:
            engines[1].configure({"Threads": 1, "Hash": 16, "Skill Level": 0})
            for engine in engines:
                engine.ping()
            white = number % 2
            result = play(engines[white], engines[1 - white], base, increment)
            print(f"game {number + 1}: Scorn is {'Black' if white else 'White'}, {result}")
        finally:
            for engine in engines:
                engine.quit()


def play(white, black, base, increment) -> str:
    board = chess.Board()
    clocks = {chess.WHITE: base, chess.BLACK: base}
    least = dict(clocks)
    while not board.is_game_over(claim_draw=True) and board.ply() < LONGEST:
        engine = white if board.turn else black
        limit = chess.engine.Limit(
            white_clock=clocks[True], black_clock=clocks[False], white_inc=increment, black_inc=increment
        )
        started = time.perf_counter()
        # python-chess raises for an illegal move and for an engine that has died.
        result = engine.play(board, limit, game=board)
        clocks[board.turn] -= time.perf_counter() - started
        assert result.move is not None, f"no move in {board.fen()}"
        if clocks[board.turn] < -GRACE:
            sys.exit(f"{engine.id['name']} lost on time in {board.fen()}: {clocks[board.turn]:.3f} s")
        clocks[board.turn] = max(0.0, clocks[board.turn]) + increment
        least[board.turn] = min(least[board.turn], clocks[board.turn])
        board.push(result.move)
    outcome = board.result(claim_draw=True)
    return f"{outcome} after {board.ply()} plies; least time left {least[True]:.2f} s and {least[False]:.2f} s"


if __name__ == "__main__":
    main()
