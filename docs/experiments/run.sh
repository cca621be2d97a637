#!/usr/bin/env bash
# The games of docs/paper.md: figures 2, 3, 4, 5 and 6 and table 3 of the paper on search-contempt, with the built-in
# network and, where the page compares networks, with an older one. Some three hours of one core with 100 games. Resumes
# where it was stopped, with the same numbers of games.
#
# Usage: docs/experiments/run.sh SCORN FOLDER [GAMES] [OLDER_NETWORK]
# GAMES: of a point; those of figure 2 get three times as many. THEIRS names a folder with the paper's own games
# (files/*.pgn of https://github.com/amjshl/compute_efficient_alphazero), which are counted, too.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scorn=$1
folder=$2
games=${3:-100}
older=${4:-}
first=20261127
mkdir -p "$folder"
# Games of another program would be counted as if they were of this one.
made_by=$("$scorn" --version)
[ -e "$folder/made-by" ] || compgen -G "$folder/*/manifest.json" > /dev/null || echo "$made_by" > "$folder/made-by"
of=$(cat "$folder/made-by" 2> /dev/null || echo "an unknown program")
[ "$of" = "$made_by" ] || { echo "run.sh: $folder has games of $of: name another folder for $made_by" >&2; exit 2; }

# A run of self-play: its name, the number of games, further flags.
play() {
    local name=$1 count=$2
    shift 2
    if [ -f "$folder/$name/summary.json" ]; then
        grep -Eq "^  \"games\": $count,?\$" "$folder/$name/manifest.json" && return
        echo "$folder/$name is a run of another number of games than $count: name another folder" >&2
        exit 1
    fi
    local resume=()
    [ -f "$folder/$name/manifest.json" ] && resume=(--resume)
    # Without the extensions that the network recommends since these games.
    "$scorn" selfplay --games "$count" --threads 1 --seed "$first" --games-per-file 100 --records \
        --certainty-prop 0 --no-auto-extend "$@" --out "$folder/$name" "${resume[@]}"
}

plain=1000000000
# The schedules of --tau for one side.
tau1="Temperature=0.7;TempDecayMoves=5;TempEndgame=0.1"
tau2="Temperature=0.9;TempDecayMoves=60;TempDecayDelayMoves=20;TempCutoffMove=40;TempEndgame=0.6;TempVisitOffset=-0.8"
# Figures 2 and 4: ScLimit, with the low schedule of temperatures.
for limit in 5 $plain 32 10 1 20 128 64; do
    play "sc$limit" $((3 * games)) --nodes 1000 --sc-limit "$limit" --tau tau1
done
# Figure 3: plain PUCT with the high schedule. The low one is a point of figure 2.
play puct-tau2 "$games" --nodes 1000 --tau tau2
# Table 3: search-contempt with the low schedule against plain PUCT with the high one, both colours.
play table3 $((2 * games)) --nodes 1000 --a-plays both --a "ScLimit=5;$tau1" --b "$tau2"
# The same against plain PUCT with all options of the author's configuration, which also has noise, and with 32.
puct="CPuct=1.2;CPuctAtRoot=2.0;RootHasOwnCpuctParams=true;FpuStrategy=reduction;FpuValue=0.49"
puct+=";FpuStrategyAtRoot=absolute;FpuValueAtRoot=1.0;PolicyTemperature=1.45"
puct+=";DirichletNoiseEpsilon=0.1;DirichletNoiseAlpha=0.12;$tau2"
play table3-author "$games" --nodes 1000 --a-plays both --a "ScLimit=5;$tau1" --b "$puct"
play table3-sc32 "$games" --nodes 1000 --a-plays both --a "ScLimit=32;$tau1" --b "$tau2"
play author-tau2 "$games" --nodes 1000 --a "$puct" --b "$puct"
# Both with the low schedule: search-contempt alone against an equal opponent.
play equal-tau "$games" --nodes 1000 --a-plays both --a "ScLimit=5;$tau1" --b "$tau1"
# Figure 5: the controller's path to a ratio of 1 from above, the nodes doubling as it settles, and from below: with
# 4000 nodes plain PUCT draws more.
play figure5 $((5 * games)) --nodes 1000 --balance 1 --balance-games $((games / 2)) --double-nodes 4000 --tau tau1
play figure5-below $((3 * games)) --nodes 4000 --sc-limit 4000 --balance 1 --balance-games $((games / 2)) --tau tau1
# What moves with the network's strength.
if [ -n "$older" ]; then
    for limit in 5 32 $plain; do
        play "older-sc$limit" "$games" --nodes 1000 --sc-limit "$limit" --tau tau1 --weights "$older"
    done
fi

# Figures 2 and 3 are drawn from all games, figure 4 from the first 100 of each run, as in the paper.
mkdir -p "$folder/first" "$folder/temperature"
for name in sc{1,5,10,20,32,64,128,$plain} puct-tau2; do
    cp "$folder/$name/games-00001.pgn" "$folder/first/$name.pgn"
done
cat "$folder"/sc$plain/games-*.pgn > "$folder/temperature/puct-tau1.pgn"
cat "$folder"/puct-tau2/games-*.pgn > "$folder/temperature/puct-tau2.pgn"
# Extracts a figure of a page: page, number, file.
extract() {
    awk -v wanted="$2" 'sub(/.*<svg/, "<svg") { at++ } at == wanted { print } /<\/svg>/ && at == wanted { exit }' \
        "$folder/$1.html" > "$folder/$3.svg"
}
# A page of statistics, and the same as JSON: its name, arguments.
page() {
    local name=$1
    shift
    "$scorn" stats "$@" --html "$folder/$name.html" --force --json > "$folder/$name.part"
    mv "$folder/$name.part" "$folder/$name.json"
}
page figure2 "$folder"/sc{1,5,10,20,32,64,128} "$folder/temperature/puct-tau1.pgn"
page figure3 "$folder"/temperature/*.pgn
page figure4 "$folder"/first/*.pgn
page figure5 "$folder"/figure5 "$folder"/figure5-below
extract figure2 1 figure2
extract figure3 2 figure3
extract figure4 3 figure4
extract figure5 4 figure5
# Figure 6: how the network misjudges the positions of these games, by 10 000 nodes on many and 100 000 on some.
judge() {
    local name=$1
    shift
    [ -s "$folder/$name.json" ] || page "$name" --network '<built in>' "$@"
}
runs=("$folder"/{puct-tau2,sc$plain,sc32,sc10,sc5})
judge figure6 "${runs[@]}" --deep-sample 200 --deep-nodes 10000
extract figure6 4 figure6
judge figure6-deep "${runs[@]}" --deep-sample 100 --deep-nodes 100000
if [ -n "${THEIRS:-}" ]; then
    judge theirs "$THEIRS"/{pure_PUCT_tau_2,pure_PUCT_tau_1}.pgn \
        "$THEIRS"/hybrid_selfplay_Nscl_{1000000,32,10,5}_N_1000.pgn --deep-sample 200 --deep-nodes 10000
    page their-match "$THEIRS/pure_PUCT_tau_2_vs_hybrid_Nscl_5.pgn"
fi
python3 "$(dirname "$0")/paper_tables.py" "$folder" | tee "$folder/tables.md"
