#!/usr/bin/env bash
# The whole recipe on a tiny sample: games -> records -> labels -> training -> export -> a move. It shows that
# every step works; the resulting network is useless.
#
# Usage: networks/training/smoke.sh
#   SCORN    the program (default: target/release/scorn, target/debug/scorn or scorn in the PATH, else it is built)
#   PYTHON   a Python with the packages of pyproject.toml (default: python3 if it has them, else a virtual
#            environment in target/training-venv, which downloads them once)
#   TEACHER  a UCI engine (default: stockfish if it is installed, else Scorn itself with its hash evaluator)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
find_python "torch, onnx, onnxruntime, chess, pytest, scipy, tensorboardX" "$here[test]"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '\n== %s\n' "$*"; }

step "tests of the parts"
"$python" -m pytest -q "$here/tests"
step "games to records"
"$scorn" dataset pgn "$root/tests/data/training-smoke.pgn" --out "$work/games.rec" --held-out 20
step "positions for the teacher"
"$scorn" dataset sample "$work/games.rec" --out "$work/sample.rec" --count 600 --sample-seed 7
step "positions from our own search trees"
"$scorn" dataset visit "$work/games.rec" --out "$work/visited.rec" --count 160 --nodes 50 --backend rten
step "labels"
teacher=${TEACHER:-$(command -v stockfish || ls /usr/games/stockfish 2>/dev/null || true)}
if [ -n "$teacher" ]; then
    "$scorn" dataset label "$work/sample.rec" --out "$work/labels.rec" --engine "$teacher" --nodes 50 --option Hash=4
else
    echo "NO STOCKFISH: Scorn's hash evaluator is the teacher"
    "$scorn" dataset label "$work/sample.rec" --out "$work/labels.rec" --engine "$scorn" --nodes 4 --queue 1 \
        --option Backend=hash
fi
step "labels by a deeper search of our own, with the next best moves"
"$scorn" dataset label "$work/visited.rec" --out "$work/deeper.rec" --engine "$scorn" --nodes 100 --multipv 3 --queue 1 \
    --option ScoreType=centipawn --option Backend=rten
"$scorn" dataset stats "$work/games.rec" "$work/labels.rec" "$work/deeper.rec"

sizes='{"channels": 32, "hidden": 32, "blocks": 2, "value_channels": 4, "value_hidden": 32, "policy": 16}'
train() {
    "$python" -m scorn_training.train --scorn "$scorn" --data "$work/games.rec:0.4" --data "$work/labels.rec:0.4" \
        --data "$work/deeper.rec:0.2" --config "$sizes" --batch 64 \
        --test "$work/games.rec" --test "$work/labels.rec" "$@"
}
step "training, interrupted and continued, then a decay"
train --folder "$work/run" --steps 60 --warmup 20
train --folder "$work/run" --steps 100 --warmup 20
train --folder "$work/final" --decay "$work/run/checkpoint.pt" --steps 200
step "held-out figures"
"$python" -m scorn_training.evaluate --scorn "$scorn" "$work/final/checkpoint.pt" "$work/games.rec" --count 500
step "export and check"
"$python" -m scorn_training.export "$work/final/checkpoint.pt" "$work/net.onnx" --name smoke --data "smoke test"
"$python" -m scorn_training.verify "$work/final/checkpoint.pt" "$work/net.onnx" "$work/games.rec"
step "a move, from the policy"
"$python" -m scorn_training.play "$work/net.onnx" | tee "$work/move"
grep -Eq '^bestmove [a-h][1-8][a-h][1-8]' "$work/move"
step "a move, from the engine"
printf 'position startpos moves e2e4\ngo nodes 50\n' | "$scorn" --backend rten --weights "$work/net.onnx" | tee "$work/engine"
grep -Eq '^bestmove [a-h][1-8][a-h][1-8]' "$work/engine"
step "a match"
"$scorn" match "self;Backend=rten;WeightsFile=$work/net.onnx" "self;Backend=rten" --nodes 8 --pairs 1 \
    --max-plies 60 --strict --pgn "$work/match.pgn"
step "a sparse network with PyTorch: from random weights, interrupted and continued, then a decay"
on_gpu() {
    "$python" -m scorn_training.train_sparse --scorn "$scorn" --device cpu --threads 2 --batch 64 --log-every 10 \
        --data "$work/games.rec:0.5" --data "$work/labels.rec:0.5" "$@"
}
mkdir "$work/sparse"
"$scorn" train start "$work/sparse/checkpoint" --policy-width 64 --value-width 64 --hidden 8 --stages 2
on_gpu --folder "$work/sparse" --steps 10 --warmup 5
on_gpu --folder "$work/sparse" --steps 20 --warmup 5
on_gpu --folder "$work/sparse-end" --decay "$work/sparse/checkpoint" --steps 40
grep -q 'step 40 positions' "$work/sparse-end/log.txt"
"$scorn" train measure "$work/sparse-end/checkpoint" "$work/games.rec"
"$scorn" train export "$work/sparse-end/checkpoint" "$work/sparse.onnx" --name smoke
printf 'position startpos\ngo nodes 50\n' | "$scorn" --weights "$work/sparse.onnx" | tee "$work/engine"
grep -Eq '^bestmove [a-h][1-8][a-h][1-8]' "$work/engine"
printf '\nsmoke test passed\n'
