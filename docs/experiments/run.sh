#!/usr/bin/env bash
# The games of docs/experiments.md: figures 2, 3, 4 and 5 and table 3 of the paper on search-contempt, with the built-in
# network. Some 25 minutes of one core with 200 games. Resumes where it was stopped.
#
# Usage: docs/experiments/run.sh SCORN FOLDER [GAMES]
set -euo pipefail
scorn=$1
folder=$2
games=${3:-200}
mkdir -p "$folder"

# A run of self-play: its name, further flags.
play() {
    local name=$1
    shift
    [ -f "$folder/$name/summary.json" ] && return
    local resume=()
    [ -f "$folder/$name/manifest.json" ] && resume=(--resume)
    "$scorn" selfplay --games "$games" --threads 1 --seed 20261122 --games-per-file 100 "$@" --out "$folder/$name" "${resume[@]}"
}

# Figures 2 and 4: ScLimit, with the low schedule of temperatures.
for limit in 1 5 10 20 32 1000000000; do
    play "sc$limit" --nodes 1000 --sc-limit "$limit" --tau tau1
done
# Figure 3: plain PUCT with the high schedule, and with constant temperatures between.
play puct-tau2 --nodes 1000 --tau tau2
for temperature in 0.25 0.5; do
    play "puct-t$temperature" --nodes 1000 --a "Temperature=$temperature" --b "Temperature=$temperature"
done
# Table 3: search-contempt with the low schedule against plain PUCT with the high one, both colours.
games=$((2 * games)) play table3 --nodes 1000 --a-plays both \
    --a "ScLimit=5;Temperature=1;TempDecayMoves=10" --b "Temperature=1"
# Both with the low schedule: search-contempt alone against an equal opponent.
games=$((2 * games)) play equal-tau --nodes 1000 --a-plays both \
    --a "ScLimit=5;Temperature=1;TempDecayMoves=10" --b "Temperature=1;TempDecayMoves=10"
# Figure 5: the controller's path, the nodes doubling as it settles. The paper holds (w+l)/d at 1, which this
# network does not reach at 1000 nodes with any limit; 5 is within reach. Then the same, started with more
# nodes.
games=1500 play figure5 --nodes 1000 --balance 5 --balance-games 100 --double-nodes 4000 --tau tau1
games=1500 play figure5-2000 --nodes 2000 --balance 5 --balance-games 100 --tau tau1
games=1500 play figure5-4000 --nodes 4000 --balance 5 --balance-games 100 --tau tau1

# Figures 2 and 3 are drawn from all games, figure 4 from the first 100 of each run, as in the paper.
mkdir -p "$folder/all" "$folder/first" "$folder/temperature"
for name in sc{1,5,10,20,32,1000000000} puct-tau2; do
    cat "$folder/$name"/games-*.pgn > "$folder/all/$name.pgn"
    cp "$folder/$name/games-00001.pgn" "$folder/first/$name.pgn"
done
# From the low schedule to the high one; plain PUCT with the low one is the last point of figure 2, too.
temperature=("$folder"/temperature/puct-{tau1,t0.25,t0.5,tau2}.pgn)
cp "$folder/all/sc1000000000.pgn" "${temperature[0]}"
for name in puct-t0.25 puct-t0.5 puct-tau2; do
    cat "$folder/$name"/games-*.pgn > "$folder/temperature/$name.pgn"
done
# Extracts one of the three figures of a page: page, number, file.
extract() {
    awk -v wanted="$2" 'sub(/.*<svg/, "<svg") { at++ } at == wanted { print } /<\/svg>/ && at == wanted { exit }' \
        "$folder/$1.html" > "$folder/$3.svg"
}
"$scorn" stats "$folder"/all/*.pgn --html "$folder/figure2.html" --force
"$scorn" stats "${temperature[@]}" --html "$folder/figure3.html" --force
"$scorn" stats "$folder"/first/*.pgn --html "$folder/figure4.html" --force
"$scorn" stats "$folder"/figure5-{2000,4000} --html "$folder/figure5.html" --force
extract figure2 1 figure2
extract figure3 2 figure3
extract figure4 3 figure4
extract figure5 4 figure5
