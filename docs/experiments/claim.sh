#!/usr/bin/env bash
# The paper's claim about training, with a small network (docs/lab/contempt-in-training.md): from one weak network, the
# same number of self-play games with the same nodes, by
#   temperature   plain PUCT, decisive because moves are drawn by visits throughout the game
#   contempt      ScLimit controlled to about the same (w+l)/d, with a low temperature (tau_1)
#   quiet         plain PUCT with that low temperature, for comparison
# three seeds each, then matches. Some 250 seconds of one core for each of nine runs. Resumes where it was stopped.
#
# Usage: docs/experiments/claim.sh SCORN FOLDER START BOOK [GENERATIONS]
# START: a sparse network; BOOK: openings; PYTHON names an interpreter that has the packages of networks/training.
set -euo pipefail
scorn=$(realpath "$1")
folder=$2
start=$(realpath "$3")
book=$(realpath "$4")
generations=${5:-10}
mkdir -p "$folder"
export PYTHONPATH
PYTHONPATH=$(dirname "$0")/../../networks/training
last=gen-$(printf %04d "$generations")

learn() {
    local arm=$1 seed=$2
    shift 2
    [ -f "$folder/$arm-$seed/$last/network.onnx" ] && return
    "${PYTHON:-python3}" -m scorn_training.loop "$folder/$arm-$seed" --scorn "$scorn" --preset paper --start "$start" --games 300 --nodes 200 \
        --generations "$generations" --rate 1e-3 --shards 1 --train-threads 1 --gate-pairs 2 --gate-nodes 100 --pool-pairs 1 \
        --seed "$seed" "$@" >> "$folder/$arm-$seed.log" 2>&1
}

# 400 games at equal nodes: name, networks.
compare() {
    [ -s "$folder/$1.json" ] || "$scorn" selfplay --games 400 --nodes 200 --book "$book" --a-plays both --seed 77 --threads 1 --json \
        --a "WeightsFile=$2;PolicyTemperature=1" --b "WeightsFile=$3;PolicyTemperature=1" --out "$folder/$1" > "$folder/part.json"
    [ -s "$folder/$1.json" ] || mv "$folder/part.json" "$folder/$1.json"
    echo "$1: $(grep -oE '"(a|b|draws)":[0-9]+' "$folder/$1.json" | tr '\n' ' ')"
}

for seed in 1 2 3; do
    learn temperature "$seed" --balance 0 --sc-limit 0 --engine "--noise-epsilon 0.25 --policy-softmax-temp 1 --temperature 1"
    learn contempt "$seed" --balance 8 --sc-limit 20 --most-nodes 0
    learn quiet "$seed" --balance 0 --sc-limit 0
    network() { realpath "$folder/$1-$seed/$last/network.onnx"; }
    for arm in temperature contempt quiet; do
        compare "$arm-$seed-start" "$(network "$arm")" "$start"
    done
    compare "contempt-$seed-temperature" "$(network contempt)" "$(network temperature)"
    compare "contempt-$seed-quiet" "$(network contempt)" "$(network quiet)"
done
