#!/usr/bin/env bash
# The games of docs/odds.md: the engine gives odds to weaker opponents. Usage: docs/experiments/odds.sh SCORN FOLDER [GAMES]; goes on
# where it was stopped. Some 20 minutes of one core with 300 games a line.
set -euo pipefail
scorn=$1
folder=$2
games=${3:-300}
mkdir -p "$folder"

# The opponents: the engine itself with few nodes, and networks that know how people play, at one node.
declare -A opponents=(
    [engine-10]="NodeLimit=10;Temperature=1;TempDecayMoves=10"
    [engine-30]="NodeLimit=30;Temperature=1;TempDecayMoves=10"
    [engine-100]="NodeLimit=100;Temperature=1;TempDecayMoves=10"
    [human-1900]="WeightsFile=<built in human 1900>;NodeLimit=1;Temperature=0.3;PolicyTemperature=1"
)

# A line of the tables: odds, opponent, the giver's nodes and its options.
play() {
    local odds=$1 opponent=$2 nodes=$3 options=$4
    local name="$odds-$opponent-$nodes-${options//[;= ]/_}"
    [ -s "$folder/$name.json" ] && return
    rm -rf "${folder:?}/$name"
    "$scorn" selfplay --games "$games" --nodes "$nodes" --odds "$odds" --threads 1 --seed 20261122 \
        --a "$options" --b "${opponents[$opponent]}" --json --out "$folder/$name" > "$folder/part.json"
    mv "$folder/part.json" "$folder/$name.json"
    echo "$name: $(cut -d, -f1,2,6 "$folder/$name.json")"
}

plain=ScLimit=1000000000
for nodes in 100 800; do
    for options in "$plain" ScLimit=8 ScLimit=16 ScLimit=28 ScLimit=60; do
        play queen engine-10 "$nodes" "$options"
    done
done
play queen engine-10 800 "ScLimit=28;ScSampling=stratified"
for options in "$plain" ScLimit=28 "$plain;OpponentRating=1900" "ScLimit=28;OpponentRating=1900" "ScLimit=28;OpponentRating=1100"; do
    play queen human-1900 800 "$options"
done
for options in "$plain" ScLimit=28; do
    play rook engine-30 800 "$options"
    play knight engine-100 800 "$options"
done
for options in "$plain" ScLimit=28 ScLimit=60; do
    play queen engine-10 5000 "$options"
done
for options in "$plain" ScLimit=28; do
    play queen engine-10 20000 "$options"
done
