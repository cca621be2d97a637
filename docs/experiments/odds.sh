#!/usr/bin/env bash
# The games of docs/odds.md with the networks in the program: White gives odds to opponents of several kinds, with each
# rule of the giver. Prints a line of a table for each cell; resumes where it was stopped, with the same program and as
# many games. With 200 games a cell some three hours of one core; the cells of the page come first.
#
# The giver draws its first moves (OpeningVariety): without that most of the games of a cell are of one opening, and
# their errors are not those of independent games.
#
# Usage: docs/experiments/odds.sh SCORN FOLDER [GAMES]
#   MAIA        (variable) maia-1900.pb.gz; without it its cells are left out
#   STOCKFISH   (variable) Stockfish's path; without it its cells are left out
#   CELLS       (variable) an extended regular expression: only the cells whose names it matches are played
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scorn=$1
folder=$2
games=${3:-200}
# A wrong expression is an error of bash, not a mismatch.
[[ "" =~ ${CELLS:-} ]] || [ $? -eq 1 ] || { echo "odds.sh: CELLS is no regular expression: $CELLS" >&2; exit 2; }
mkdir -p "$folder"
# Cells of another program or with other errors would be printed as if they were of this run.
made_by="$("$scorn" --version), $games games a cell"
[ -e "$folder/made-by" ] || echo "$made_by" > "$folder/made-by"
[ "$(< "$folder/made-by")" = "$made_by" ] ||
    { echo "odds.sh: $folder has cells of $(< "$folder/made-by"): name another folder for $made_by" >&2; exit 2; }
# The cells that were printed: some tables have one in common.
declare -A printed=()

# The opponents.
policy() { echo "WeightsFile=$1;NodeLimit=1;Temperature=$2;PolicyTemperature=1;RefineWeights="; }
declare -A opponents=(
    [dense-policy]=$(policy "<built in dense>" 0.3)
    [maia-1900]=$(policy "${MAIA:-}" 0.3)
    [maia-1900-t1]=$(policy "${MAIA:-}" 1)
)
# As the network of 26 November 2026 recommended: the opponents stay the same.
before="CertaintyProp=0;AutoExtend=false"
for nodes in 10 30 100; do
    opponents[engine-$nodes]="NodeLimit=$nodes;Temperature=1;TempDecayMoves=10;$before"
done
declare -A positions=(
    [queen]="rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1"
    [rook]="rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/1NBQKBNR w Kkq - 0 1"
    [knight]="rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR w KQkq - 0 1"
    [knight+knight]="rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKB1R w KQkq - 0 1"
)

# Errors of the games are in the log.
failed() { echo "odds.sh: games failed; the end of $folder/log:" >&2; tail -n 3 "$folder/log" >&2; exit 1; }

# A number of a result in JSON, the first one of that name.
number() { grep -oE "\"$1\": ?[0-9]+" "$2" | sed -n 1p | grep -oE '[0-9]+$'; }

# Prints the giver's score with its error of 95 %, from won, drawn and lost games; where all have one result, the
# one-sided 95 % bound of Clopper and Pearson (about 300 % / games from the end), or nothing if all are drawn.
score() {
    awk -v name="$1" -v w="$2" -v d="$3" -v l="$4" 'BEGIN {
        n = w + d + l; s = (w + d / 2) / n; unseen = 100 * (1 - exp(log(0.05) / n))
        printf "%s\t%d\t%d\t%d\t%.1f", name, w, d, l, 100 * s
        if (w == n) printf " (above %.1f)\n", 100 - unseen
        else if (l == n) printf " (below %.1f)\n", unseen
        else if (d == n) print ""
        else printf " +- %.1f\n", 196 * sqrt(((w + d / 4) / n - s * s) / n) }'
}

# Plays the games of a cell: odds, opponent, the giver's nodes, the rule's name, the giver's options.
cell() {
    local odds=$1 opponent=$2 nodes=$3 rule=$4 options=$5
    local name="$odds $opponent $nodes $rule"
    case "$odds $opponent" in
        # It errs at random: no two games have the same opening.
        *stockfish*) ;;
        queen*) options+=";OpeningVariety=8" ;;
        *) options+=";OpeningVariety=2.75" ;;
    esac
    local out="$folder/${name// /_}"
    [[ $name =~ ${CELLS:-} ]] || return 0
    if [[ $opponent == maia* && -z ${MAIA:-} || $opponent == stockfish* && -z ${STOCKFISH:-} ]]; then
        return 0
    fi
    [[ -z ${printed[$name]:-} ]] || return 0
    printed[$name]=yes
    if [[ $opponent == stockfish-* ]]; then
        if [ ! -s "$out.json" ]; then
            # The same position for each game; Stockfish errs at random.
            for _ in $(seq "$games"); do echo "${positions[$odds]}"; done > "$out.epd"
            rm -f "$out.pgn"
            "$scorn" match "self;Threads=1;$options" \
                "$STOCKFISH;Threads=1;UCI_LimitStrength=true;UCI_Elo=${opponent#*-}" --first-is-white \
                --book "$out.epd" --order sequential --pairs "$games" --nodes "$nodes" \
                --second-limit nodes=20000 --pgn "$out.pgn" --json > "$out.part" 2>> "$folder/log" || failed
            mv "$out.part" "$out.json"
        fi
        score "$name" "$(number wins "$out.json")" "$(number draws "$out.json")" "$(number losses "$out.json")"
    else
        if [ ! -s "$out.json" ]; then
            rm -rf "$out"
            "$scorn" selfplay --games "$games" --nodes "$nodes" --odds "$odds" --threads 1 --seed 20261127 \
                --a "$options" --b "${opponents[$opponent]}" --json --out "$out" > "$out.part" \
                2>> "$folder/log" || failed
            mv "$out.part" "$out.json"
        fi
        score "$name" "$(number a "$out.json")" "$(number draws "$out.json")" "$(number b "$out.json")"
    fi
}

odds_network="WeightsFile=<built in odds>"

# Cells of one kind of odds and opponent: the default network plain and with limits, the odds network likewise, and
# with the opponent's rating set ("told" in the names of cells, as in earlier results).
usual() {
    local limit
    cell "$1" "$2" "$3" plain ScLimit=1000000000
    for limit in $4; do
        cell "$1" "$2" "$3" "limit-$limit" "ScLimit=$limit"
    done
}
for_odds() {
    local limit
    cell "$1" "$2" "$3" odds-plain "$odds_network;ScLimit=1000000000"
    for limit in $4; do
        cell "$1" "$2" "$3" "odds-$limit" "$odds_network;ScLimit=$limit"
    done
}
rated() {
    local limit
    for limit in $5; do
        cell "$1" "$2" "$3" "odds-$limit-told-$4" "$odds_network;ScLimit=$limit;OpponentRating=$4"
    done
}

# The same for strong opponents: the human model of grandmasters with the default network and with the one for odds.
master() {
    local limit
    for limit in 200 28; do
        cell "$1" "$2" "$3" "limit-$limit-told-2600" "ScLimit=$limit;OpponentRating=2600"
    done
    rated "$1" "$2" "$3" 2600 28
}

# Search-contempt in which a part of the visits to frozen nodes search on, by ratio or by a schedule "visits:ratio".
hybrid() {
    local odds=$1 opponent=$2 nodes=$3 rule=$4 options=$5 ratio
    for ratio in 0.9 0.8 0.5; do
        cell "$odds" "$opponent" "$nodes" "$rule-hybrid-$ratio" "$options;HybridSamplingRatio=$ratio"
    done
    cell "$odds" "$opponent" "$nodes" "$rule-hybrid-rising" "$options;HybridRatioSchedule=50:0.5 500:0.9"
    cell "$odds" "$opponent" "$nodes" "$rule-hybrid-falling" "$options;HybridRatioSchedule=50:0.9 500:0.5"
}

# Every rule against every kind of opponent.
for opponent in maia-1900 maia-1900-t1 engine-10 dense-policy; do
    usual queen $opponent 800 28
    for_odds queen $opponent 800 28
done
for opponent in maia-1900 maia-1900-t1 dense-policy; do
    rated queen $opponent 800 1900 28
done
# With a wrong rating.
rated queen maia-1900 800 1100 28
rated queen engine-10 800 1500 28
# Limits.
usual queen engine-10 800 "8 16 60 200"
for_odds queen engine-10 800 "8 16 60 200"
rated queen maia-1900 800 1900 "8 16 60 200"
# Less than a queen.
usual knight engine-100 800 "200 28"
for_odds knight engine-100 800 28
usual rook engine-30 800 "200 28"
for_odds rook engine-30 800 28
usual knight+knight engine-30 800 "200 28"
for odds in knight rook knight+knight; do
    usual $odds maia-1900 800 ""
    rated $odds maia-1900 800 1900 28
done
# Stockfish.
usual queen stockfish-1350 800 28
for_odds queen stockfish-1350 800 28
# Nodes.
for nodes in 100 3000; do
    usual queen maia-1900 $nodes 28
    for_odds queen maia-1900 $nodes 28
    rated queen maia-1900 $nodes 1900 28
    usual queen engine-10 $nodes 28
    for_odds queen engine-10 $nodes 28
done
# Hybrid search-contempt.
for nodes in 800 3000; do
    hybrid queen maia-1900 $nodes odds-28 "$odds_network;ScLimit=28"
    hybrid queen maia-1900 $nodes odds-28-told-1900 "$odds_network;ScLimit=28;OpponentRating=1900"
done
hybrid queen engine-10 800 odds-28 "$odds_network;ScLimit=28"
hybrid queen dense-policy 800 odds-28 "$odds_network;ScLimit=28"
hybrid knight engine-100 800 limit-28 ScLimit=28
# More limits, and more of the rest.
usual queen maia-1900 800 "8 16 60 200"
for_odds queen maia-1900 800 "8 16 60 200"
usual knight stockfish-1700 800 "200 28"
usual rook stockfish-1500 800 "200 28"
for_odds knight+knight engine-30 800 28
usual queen stockfish-1350 800 "8 16 60 200"
for_odds queen stockfish-1350 800 "8 16 60 200"
rated queen stockfish-1350 800 1350 28
for odds in knight rook; do
    usual $odds maia-1900 800 "200 28"
done
# Strong opponents.
for opponent in engine-100 stockfish-2000; do
    for odds in knight rook; do
        usual $odds $opponent 800 200
        master $odds $opponent 800
    done
done
games=100
for opponent in maia-1900 engine-10; do
    usual queen $opponent 20000 28
    for_odds queen $opponent 20000 28
done
rated queen maia-1900 20000 1900 28
[ ${#printed[@]} -gt 0 ] ||
    { echo "odds.sh: no cell has a name like '${CELLS:-}' and an opponent that is there (MAIA, STOCKFISH)" >&2; exit 1; }
