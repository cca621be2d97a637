"""A real UCI session through python-chess, which checks every move and every line of the engine.

usage: uci_session.py PROGRAM [FLAG...]
"""

import sys

import chess
import chess.engine


def main() -> None:
    with chess.engine.SimpleEngine.popen_uci(sys.argv[1:], timeout=60) as engine:
        print("engine:", engine.id["name"])
        for name in ["Hash", "Move Overhead", "ScLimit", "MultiPV", "UCI_Chess960"]:
            assert name in engine.options, name
        engine.configure({"Hash": 256, "Move Overhead": 50})

        analyse(engine, chess.Board(), chess.engine.Limit(nodes=200))
        analyse(engine, chess.Board(), chess.engine.Limit(time=0.5), multipv=3)
        analyse(engine, chess.Board(), chess.engine.Limit(depth=3))
        mate = chess.Board("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1")
        info = analyse(engine, mate, chess.engine.Limit(nodes=2000))
        assert info["score"].white().is_mate(), info

        # Search-contempt, and back.
        engine.configure({"ScLimit": 40})
        analyse(engine, chess.Board(), chess.engine.Limit(nodes=500))
        engine.configure({"ScLimit": 1000000000})

        # Chess960, castling written as king takes rook.
        board = chess.Board.from_chess960_pos(518 - 100)
        analyse(engine, board, chess.engine.Limit(nodes=200))
        castle = chess.Board("1r2kr2/pppppppp/8/8/8/8/PPPPPPPP/1R2KR2 w FBfb - 0 1", chess960=True)
        moves = [m for m in castle.legal_moves if castle.is_castling(m)]
        assert engine.play(castle, chess.engine.Limit(nodes=20), root_moves=moves).move in moves

        # An infinite analysis that is stopped.
        with engine.analysis(chess.Board(), multipv=2) as analysis:
            for count, _ in enumerate(analysis):
                if count >= 5:
                    break

        # Pondering: hits and misses.
        board = chess.Board()
        for _ in range(6):
            limit = chess.engine.Limit(white_clock=5, black_clock=5, white_inc=0.1, black_inc=0.1)
            result = engine.play(board, limit, ponder=True)
            board.push(result.move)
            board.push(result.ponder or next(iter(board.legal_moves)))

        # No legal moves: no best move.
        assert engine.play(chess.Board("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"), chess.engine.Limit(nodes=1)).move is None
        engine.ping()
    print("session: ok")


def analyse(engine, board, limit, **arguments):
    info = engine.analyse(board, limit, **arguments)
    first = info[0] if isinstance(info, list) else info
    assert first["pv"][0] in board.legal_moves
    assert first["nodes"] > 0 and "score" in first and "nps" in first
    return first


if __name__ == "__main__":
    main()
