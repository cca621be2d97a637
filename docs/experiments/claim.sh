#!/usr/bin/env bash
# The paper's claim about training (docs/lab/contempt-in-training.md): from one network, the same number of self-play
# games with the same nodes, by
#   temperature   plain PUCT, decisive because moves are drawn by visits throughout the game
#   contempt      ScLimit controlled to TARGET decisive games per draw, with a low temperature
#   quiet         plain PUCT with that low temperature, for comparison
# for each seed, then matches. As it stands, some 250 seconds of one core for each of nine runs. Resumes where it was
# stopped. The log of each run has its core seconds and its ratios, for Elo after equal time.
#
# Usage: docs/experiments/claim.sh SCORN FOLDER START BOOK [GENERATIONS]
# START: a sparse network; BOOK: openings; PYTHON names an interpreter that has the packages of networks/training.
# The paper's own setting, a ratio of 1, needs a network and nodes with which quiet games have less than that (else no
# limit reaches it, and the controller doubles the nodes up to MOST_NODES). Ten core hours an arm:
#   TARGET=1 LIMIT=64 NODES=1000 MOST_NODES=4000 TEMPERATURE=0.3 GAMES=1000 docs/experiments/claim.sh ... 30
# TEMPERATURE is that of the arm of this name; choose it such that its first generation has the ratio TARGET.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scorn=$(realpath "$1")
folder=$2
start=$(realpath "$3")
book=$(realpath "$4")
generations=${5:-10}
target=${TARGET:-8} limit=${LIMIT:-20} nodes=${NODES:-200} most_nodes=${MOST_NODES:-0}
games=${GAMES:-300} temperature=${TEMPERATURE:-1} seeds=${SEEDS:-1 2 3}
mkdir -p "$folder"
export PYTHONPATH
PYTHONPATH=$(dirname "$0")/../../networks/training
last=gen-$(printf %04d "$generations")

learn() {
    local arm=$1 seed=$2
    shift 2
    [ -f "$folder/$arm-$seed/$last/network.onnx" ] && return
    "${PYTHON:-python3}" -m scorn_training.loop "$folder/$arm-$seed" --scorn "$scorn" --preset paper --start "$start" --games "$games" --nodes "$nodes" \
        --generations "$generations" --rate 1e-3 --shards 1 --train-threads 1 --gate-pairs 2 --gate-nodes 100 --pool-pairs 1 \
        --seed "$seed" "$@" \
        >> "$folder/$arm-$seed.log" 2>&1 || { tail -n 3 "$folder/$arm-$seed.log" >&2; exit 1; }
}

# 400 games at equal nodes: name, networks.
compare() {
    local resume=()
    [ -f "$folder/$1/manifest.json" ] && resume=(--resume)
    [ -s "$folder/$1.json" ] || "$scorn" selfplay "${resume[@]}" --games 400 --nodes "$nodes" --book "$book" --a-plays both --seed 77 --threads 1 --json \
        --a "WeightsFile=$2;PolicyTemperature=1" --b "WeightsFile=$3;PolicyTemperature=1" --out "$folder/$1" > "$folder/part.json"
    [ -s "$folder/$1.json" ] || mv "$folder/part.json" "$folder/$1.json"
    echo "$1: $(grep -oE '"(a|b|draws)":[0-9]+' "$folder/$1.json" | tr '\n' ' ')"
}

for seed in $seeds; do
    learn temperature "$seed" --balance 0 --sc-limit 0 --most-nodes 0 \
        --engine "--noise-epsilon 0.25 --policy-softmax-temp 1 --temperature $temperature"
    learn contempt "$seed" --balance "$target" --sc-limit "$limit" --most-nodes "$most_nodes"
    learn quiet "$seed" --balance 0 --sc-limit 0 --most-nodes 0
    network() { realpath "$folder/$1-$seed/$last/network.onnx"; }
    for arm in temperature contempt quiet; do
        compare "$arm-$seed-start-$last" "$(network "$arm")" "$start"
    done
    compare "contempt-$seed-temperature-$last" "$(network contempt)" "$(network temperature)"
    compare "contempt-$seed-quiet-$last" "$(network contempt)" "$(network quiet)"
done
