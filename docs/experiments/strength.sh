#!/usr/bin/env bash
# The games that calibrate UCI_Elo (docs/strength.md): each row of LEVELS, and the networks of human moves,
# against Stockfish at the same UCI_Elo. Prints a table; the measured rating is Stockfish's plus the difference.
# Resumes where it was stopped, and adds games when PAIRS is larger. The page has 80 games a row (PAIRS 40) for people
# and for nodes at 1200 and 1340, and 40 games (PAIRS 20) for nodes from 1350 on.
#
# Usage: docs/experiments/strength.sh SCORN STOCKFISH BOOK FOLDER [PAIRS]
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scorn=$1
stockfish=$2
book=$3
folder=$4
pairs=${5:-10}
mkdir -p "$folder"

# Enough nodes for Stockfish to reach its UCI_Elo, at which it errs on purpose.
enough=20000
# The range of Stockfish's UCI_Elo differs from version to version.
lowest=$(printf 'uci\nquit\n' | "$stockfish" | sed -n 's/.*name UCI_Elo .* min \([0-9]*\) .*/\1/p')

# A number in a JSON object, by name.
number() {
    grep -o "\"$1\": *-\?[0-9.]*" "$2" | sed -n '1s/.*: *//p'
}

# A rating without its decimals; nothing stays nothing.
whole() {
    [ -z "${1:-}" ] || LC_ALL=C printf '%.0f' "$1"
}

# A row: the player, its rating, and the options that select it.
play() {
    local who=$1 elo=$2 options=$3
    local theirs=$((elo > lowest ? elo : lowest))
    local name="$who-$elo"
    "$scorn" match "self;Threads=1;UCI_LimitStrength=true;UCI_Elo=$elo$options" \
        "$stockfish;Threads=1;Hash=16;UCI_LimitStrength=true;UCI_Elo=$theirs" --nodes 1000000 \
        --second-limit "nodes=$enough" --book "$book" --pairs "$pairs" --seed 20261122 --max-plies 400 \
        --pgn "$folder/$name.pgn" --json > "$folder/$name.part"
    mv "$folder/$name.part" "$folder/$name.json"
    local found
    found=$(for name_of in wins draws losses score elo elo_error; do
        echo "$(number "$name_of" "$folder/$name.json") "
    done)
    read -r wins draws losses score difference error <<< "${found//$'\n'/ }"
    difference=$(whole "$difference") error=$(whole "$error")
    echo "| $who | $elo | $theirs | +$wins =$draws -$losses | $score | ${difference:-unknown}${error:+ (+- $error)} |"
}

echo "| | UCI_Elo | Stockfish's | games | score | difference in Elo |"
echo "|---|---|---|---|---|---|"
# The quick ones first.
for elo in 1200 1400 1500 1600 1800; do
    play people "$elo" ";HumanWeights=<built in human {maia}>"
done
for elo in 1200 1340 1350 1500 1700 1900 2000 2200; do
    play nodes "$elo" ""
done
