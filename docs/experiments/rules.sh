#!/usr/bin/env bash
# CGZero's rules against AlphaZero's, both from random weights (docs/lab/cgzero-or-alphazero.md): the same shape
# of network, the same games and nodes, side by side with one thread each for MINUTES. Then matches between
# networks that cost the same number of core seconds of self-play and training (the matches for gate and ratings
# are not counted). Resumes where it was stopped, for MINUTES more.
#
# Usage: docs/experiments/rules.sh SCORN FOLDER BOOK MINUTES [STOCKFISH]
# BOOK: openings; PYTHON names an interpreter that has the packages of networks/training.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scorn=$(realpath "$1")
folder=$2
book=$(realpath "$3")
minutes=$4
stockfish=${5:-/usr/games/stockfish}
python=${PYTHON:-python3}
mkdir -p "$folder"
export PYTHONPATH
PYTHONPATH=$(dirname "$0")/../../networks/training

loops=()
for preset in alphazero cgzero; do
    "$python" -m scorn_training.loop "$folder/$preset" --scorn "$scorn" --preset "$preset" --minutes "$minutes" \
        --shape 256,256,32 --games 400 --nodes 60 --batch 512 --rate 2e-3 --reuse 4 --shards 1 --train-threads 1 \
        --gate-nodes 60 --gate-pairs 20 --pool-pairs 5 --anchor-opponent "$stockfish" --anchor-every 10 --seed 17 \
        >> "$folder/$preset.log" 2>&1 &
    loops+=($!)
done
for loop in "${loops[@]}"; do
    wait "$loop" || { echo "rules.sh: a loop failed; the ends of the logs:" >&2; tail -n 3 "$folder"/*.log >&2; exit 1; }
done

# The last generation that was complete after this many core seconds; nothing if the run is shorter.
after() {
    "$python" - "$folder/$1" "$2" << 'END'
import json, sys
folder, limit = sys.argv[1], float(sys.argv[2])
spent, last = 0.0, 0
for line in open(f"{folder}/times.jsonl"):
    cost = json.loads(line)
    if cost["phase"].split(",")[0] in ("games", "training"):
        spent += cost["core_seconds"]
    if spent > limit:
        print(last)
        break
    if cost["phase"] == "training":
        last = cost["generation"]
END
}

for seconds in 300 600 1200 1900 2400 4800; do
    names=()
    for preset in alphazero cgzero; do
        generation=$(after "$preset" "$seconds")
        [ -n "$generation" ] || break 2
        names+=("$folder/$preset/gen-$(printf %04d "$generation")/network.onnx")
    done
    result=$folder/after-$seconds
    resume=()
    [ -f "$result/manifest.json" ] && resume=(--resume)
    [ -f "$result.json" ] || "$scorn" selfplay "${resume[@]}" --games 400 --nodes 200 --book "$book" --a-plays both --seed 77 --threads 1 --json \
        --a "WeightsFile=${names[1]};PolicyTemperature=1" --b "WeightsFile=${names[0]};PolicyTemperature=1" --out "$result" > "$folder/part.json"
    [ -f "$result.json" ] || mv "$folder/part.json" "$result.json"
    echo "$seconds core seconds, cgzero ${names[1]} against ${names[0]}: $(grep -oE '"(a|b|draws)":[0-9]+' "$result.json" | tr '\n' ' ')"
done
