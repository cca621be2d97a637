#!/usr/bin/env bash
# The games of docs/odds.md: the engine gives odds to weaker opponents. Resumes where it was stopped; one core. With 300
# games a line some five hours, nearly all of them for 5000 and 20 000 nodes, which come last.
#
# Usage: docs/experiments/odds.sh SCORN FOLDER [GAMES [STOCKFISH]]
set -euo pipefail
scorn=$1
folder=$2
games=${3:-300}
stockfish=${4:-/usr/games/stockfish}
mkdir -p "$folder"

# The opponents: the engine itself with few nodes, and networks of human moves at one node.
few() { echo "NodeLimit=$1;Temperature=1;TempDecayMoves=10"; }
human() { echo "WeightsFile=<built in human $1>;NodeLimit=1;Temperature=0.3;PolicyTemperature=1"; }

# Stores the result of a command when it is complete, and prints it.
keep() {
    local name=$1
    shift
    "$@" > "$folder/part.json"
    mv "$folder/part.json" "$folder/$name.json"
    echo "$name: $(grep -oE '"(a|b|draws|wins|losses|games)":[0-9]+' "$folder/$name.json" | sed -n 1,4p | tr '\n' ' ')"
}

# A line of the tables: odds, the opponent's name and options, the giver's nodes and options, further flags.
play() {
    local odds=$1 opponent=$2 second=$3 nodes=$4 options=$5
    shift 5
    local name="$odds-$opponent-$nodes-${options//[;= ]/_}$(printf '%s' "${*//--a-plays /-}")"
    [ -s "$folder/$name.json" ] && return
    rm -rf "${folder:?}/$name"
    # shellcheck disable=SC2086  # flags with their values
    keep "$name" "$scorn" selfplay --games "$games" --nodes "$nodes" --odds "$odds" --threads 1 --seed 20261122 \
        --a "$options" --b "$second" --json --out "$folder/$name" $*
}

# The same against Stockfish at a UCI_Elo, with 20 000 nodes a move. Games differ because it errs at random.
against_stockfish() {
    local odds=$1 fen=$2 elo=$3 nodes=$4 options=$5
    local name="$odds-stockfish-$elo-$nodes-${options//[;= ]/_}"
    [ -s "$folder/$name.json" ] && return
    # The same position for each game.
    for _ in $(seq "$games"); do echo "$fen"; done > "$folder/$name.epd"
    keep "$name" "$scorn" match "self;Threads=1;$options" "$stockfish;Threads=1;UCI_LimitStrength=true;UCI_Elo=$elo" \
        --first-is-white --book "$folder/$name.epd" --order sequential --pairs "$games" --limit "nodes=$nodes" \
        --second-limit nodes=20000 --pgn "$folder/$name.pgn" --json 2>> "$folder/log"
}

plain=ScLimit=1000000000

# Nodes and limits.
for nodes in 100 800; do
    for options in "$plain" ScLimit=8 ScLimit=16 ScLimit=28 ScLimit=60; do
        play queen engine-10 "$(few 10)" "$nodes" "$options"
    done
done
play queen engine-10 "$(few 10)" 800 "ScLimit=28;ScSampling=stratified"

# Other odds.
for options in "$plain" ScLimit=16 ScLimit=28; do
    play rook engine-30 "$(few 30)" 800 "$options"
    play knight engine-100 "$(few 100)" 800 "$options"
    play knight+knight engine-30 "$(few 30)" 800 "$options"
    play rook engine-30 "$(few 30)" 800 "$options" --a-plays black
done
for limit in 60 100 200 400; do
    play knight engine-100 "$(few 100)" 800 "ScLimit=$limit"
done
for limit in 60 100; do
    play rook engine-30 "$(few 30)" 800 "ScLimit=$limit"
    play knight+knight engine-30 "$(few 30)" 800 "ScLimit=$limit"
done

# The value of a draw to the giver.
for score in -0.5 0.5; do
    play rook engine-30 "$(few 30)" 800 "ScLimit=28;DrawScore=$score"
done
for score in -0.2 -0.4; do
    play rook engine-30 "$(few 30)" 800 "ScLimit=200;DrawScore=$score"
done
play rook engine-30 "$(few 30)" 800 ScLimit=200
play queen engine-10 "$(few 10)" 800 "ScLimit=16;DrawScore=-0.4"
play queen human-1900 "$(human 1900)" 800 "ScLimit=28;OpponentRating=1900;DrawScore=-0.4"

# Networks of human moves: the right rating, a wrong one, none. The opponent is the model's own twin: no evidence about
# people (docs/lab/odds-model-twin.md).
for options in "$plain" ScLimit=28; do
    for line in "queen 1900 1900" "queen 1900 1100" "queen+knight 1500 1500" "queen+rook 1100 1100"; do
        read -r odds rating guess <<< "$line"
        play "$odds" "human-$rating" "$(human "$rating")" 800 "$options"
        play "$odds" "human-$rating" "$(human "$rating")" 800 "$options;OpponentRating=$guess"
    done
done
for options in ScLimit=16 ScLimit=60; do
    play queen human-1900 "$(human 1900)" 800 "$options;OpponentRating=1900"
    play queen+knight human-1500 "$(human 1500)" 800 "$options;OpponentRating=1500"
done

# Stockfish.
queen="rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1"
knight="rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR w KQkq - 0 1"
for options in "$plain" ScLimit=28 ScLimit=200; do
    against_stockfish queen "$queen" 1350 800 "$options"
    against_stockfish knight "$knight" 1700 800 "$options"
done
against_stockfish queen "$queen" 1350 800 ScLimit=16
for options in "$plain" ScLimit=28; do
    games=100 against_stockfish knight "$knight" 2100 5000 "$options"
done

# Many nodes.
for options in "$plain" ScLimit=28 ScLimit=60; do
    play queen engine-10 "$(few 10)" 5000 "$options"
done
for options in "$plain" ScLimit=28; do
    games=200 play queen engine-10 "$(few 10)" 20000 "$options"
done
