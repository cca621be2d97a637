"""A GUI's session with the engine, through python-chess: options, analysis, games, pondering, Chess960, bad input.

Usage: uci_session.py ENGINE
"""

import subprocess
import sys

import chess
import chess.engine


def play(engine, board, **limit):
    result = engine.play(board, chess.engine.Limit(**limit), info=chess.engine.INFO_ALL)
    assert result.move in board.legal_moves, f"{result.move} is not legal in {board.fen()}"
    return result


def session(path):
    with chess.engine.SimpleEngine.popen_uci(path, timeout=60) as engine:
        print("id:", engine.id["name"], "by", engine.id["author"])
        for name in ("Threads", "Hash", "Move Overhead", "MultiPV", "ScLimit", "WeightsFile", "Backend", "SyzygyPath"):
            assert name in engine.options, f"no option {name}"
        engine.ping()

        board = chess.Board()
        info = play(engine, board, nodes=200).info
        assert info["nodes"] >= 200 and "score" in info and info["pv"], info
        print("start position:", info["score"], board.variation_san(info["pv"]))

        lines = engine.analyse(board, chess.engine.Limit(nodes=300), multipv=3)
        assert len(lines) == 3 and len({line["pv"][0] for line in lines}) == 3

        mate = chess.Board("6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1")
        result = play(engine, mate, nodes=2000)
        assert result.info["score"].white().mate() == 1, result.info

        engine.configure({"ScLimit": 28, "UCI_ShowWDL": True})
        odds = chess.Board("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1")
        result = play(engine, odds, nodes=400)
        assert "wdl" in result.info, result.info
        print("queen odds:", result.info["score"], result.info["wdl"])
        engine.configure({"ScLimit": 1000000000})

        castling = chess.Board("bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9", chess960=True)
        for _ in range(6):
            castling.push(play(engine, castling, nodes=50).move)

        with engine.analysis(board, chess.engine.Limit(time=30)) as analysis:
            for info in analysis:
                if info.get("nodes", 0) > 50:
                    break
            analysis.stop()
            analysis.wait()
        engine.ping()

        pondering = chess.Board()
        for _ in range(4):
            result = engine.play(pondering, chess.engine.Limit(time=0.2), ponder=True)
            pondering.push(result.move)
            pondering.push(result.ponder if result.ponder in pondering.legal_moves else next(iter(pondering.legal_moves)))
    print("session: ok")


def bad_input(path):
    """Nothing here may end the engine, and each mistake must be answered by an info string."""
    mistakes = [
        "hello",
        "setoption name NoSuchOption value 1",
        "setoption name ScLimit value many",
        "position fen this is not a fen",
        "position fen 4k3/8/8/8/8/8/8/4K2k w - - 0 1",
        "position fen P3k3/8/8/8/8/8/8/4K3 w - - 0 1",
        "position startpos moves e2e5",
        "position startpos moves e7e5",
    ]
    script = "".join(f"{line}\n" for line in ["uci", *mistakes, "position startpos", "go nodes 20", "quit"])
    done = subprocess.run([path], input=script, capture_output=True, text=True, timeout=60, check=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("info string")]
    assert len(told) >= len(mistakes), done.stdout
    assert "bestmove" in done.stdout and "panicked" not in done.stderr, done.stderr
    print("bad input: ok")


if __name__ == "__main__":
    session(sys.argv[1])
    bad_input(sys.argv[1])
