#!/usr/bin/env bash
# The gate for networks at odds: a fixed table of games in which the engine gives odds, compared with the table of the
# network that is in the program. A new network is shipped only if it passes this gate and the one of normal chess.
#
# Usage: benches/odds-gate.sh SCORN FOLDER [--short] [--weights FILE] [--odds-weights FILE]
#        [--baseline FILE] [--write FILE] [--threads N]
#   FOLDER      results; an interrupted run is resumed, by the same program with the same networks only
#   --short     nine cells of 100 games at 400 nodes, some three minutes of one core: the form of CI
#   --weights   the network to judge (WeightsFile); by default the one in the program
#   --odds-weights  the odds network to judge; by default <built in odds>
#   --baseline  table to compare with; by default benches/odds-gate.tsv, with --short benches/odds-gate-short.tsv
#   --write     write the table there as a new baseline, besides comparing
#   STOCKFISH   (variable) Stockfish's path; without it, or with --short, its cells are left out
#
# The full table: queen, rook and knight x three opponents (the engine with few nodes, the policy of the dense network
# at temperature 0.3, Stockfish at a UCI_Elo) x plain PUCT, ScLimit 28, and ScLimit 28 with the odds network; 150 games
# a cell at 800 nodes, White gives the odds and draws its first moves (OpeningVariety, with the values of the baseline),
# so that the games of a cell have different openings and its error is that of independent games. Against Stockfish they
# are not drawn: its own errors differ. (ScLimit 200 hardly differs from plain at so few nodes.) Exit status 1 if the
# mean of one of the three, over the cells that both tables have, is 15 points or more below the baseline. The same
# network and program give the same table, the cells of Stockfish excepted; one cell of another network is within 8
# points of its true value.
set -euo pipefail
here=$(dirname "$0")
[ $# -ge 2 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scorn=$1 folder=$2
shift 2
short="" weights="" weights_file="" odds_network="<built in odds>" baseline="" write="" threads=2
while [ $# -gt 0 ]; do
    case $1 in
        --weights | --odds-weights | --baseline | --write | --threads)
            [ $# -ge 2 ] || { echo "odds-gate.sh: $1 needs a value" >&2; exit 2; } ;;
    esac
    case $1 in
        --short) short=yes ;;
        --weights) weights_file=$2 weights="WeightsFile=$2;" && shift ;;
        --odds-weights) odds_network=$2 && shift ;;
        --baseline) baseline=$2 && shift ;;
        --write) write=$2 && shift ;;
        --threads) threads=$2 && shift ;;
        *) echo "odds-gate.sh: unknown argument $1" >&2 && exit 2 ;;
    esac
    shift
done
[ -n "$baseline" ] || baseline="$here/odds-gate${short:+-short}.tsv"
mkdir -p "$folder"
# Errors of the games are in the log.
failed() { echo "odds-gate.sh: games failed; the end of $folder/log:" >&2; tail -n 3 "$folder/log" >&2; exit 2; }
# Results of another program or of other networks would be taken for those of these.
files=$(sha256sum "${weights_file:-/dev/null}" "$([ -f "$odds_network" ] && echo "$odds_network" || echo /dev/null)")
settings=$(printf '%s\n' "$("$scorn" --version)" "short: ${short:-no}" "odds network: $odds_network" "$files")
if [ -e "$folder/settings" ] && [ "$settings" != "$(cat "$folder/settings")" ]; then
    echo "odds-gate.sh: $folder has results of other settings (see $folder/settings): name another folder" >&2
    exit 2
fi
echo "$settings" > "$folder/settings"
table="$folder/table.tsv"
printf 'odds\topponent\toptions\tgames\twon\tdrawn\tlost\tscore\n' > "$table"

games=150 nodes=800
[ -z "$short" ] || games=100 nodes=400
plain="ScLimit=1000000000"
contempt="ScLimit=28"
# What the profiles set at queen odds.
odds="WeightsFile=$odds_network;$contempt"

# The OpeningVariety with which the baseline was played, as an option.
variety() {
    case $1 in
        queen) echo ";OpeningVariety=8" ;;
        *) echo ";OpeningVariety=2.75" ;;
    esac
}

# A number of a result in JSON, the first one of that name.
number() { grep -oE "\"$1\": ?[0-9]+" "$2" | sed -n 1p | grep -oE '[0-9]+$'; }

# Adds a line to the table: the giver's won, drawn and lost games.
line() {
    local odds=$1 opponent=$2 name=$3 won=$4 drawn=$5 lost=$6
    awk -v o="$odds" -v p="$opponent" -v n="$name" -v w="$won" -v d="$drawn" -v l="$lost" 'BEGIN {
        printf "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%.1f\n", o, p, n, w + d + l, w, d, l, 100 * (w + d / 2) / (w + d + l) }' |
        tee -a "$table"
}

# A cell against a second side of this program.
against() {
    local odds=$1 opponent=$2 name=$3 options=$4 second=$5
    local cell="$folder/$odds-$opponent-$name"
    if [ ! -s "$cell.json" ]; then
        rm -rf "$cell"
        "$scorn" selfplay --games "$games" --nodes "$nodes" --odds "$odds" --seed 20261126 --threads "$threads" \
            --a "$options$(variety "$odds")" --b "$second" --out "$cell" --json > "$cell.part" 2>> "$folder/log" ||
            failed
        mv "$cell.part" "$cell.json"
    fi
    line "$odds" "$opponent" "$name" "$(number a "$cell.json")" "$(number draws "$cell.json")" "$(number b "$cell.json")"
}

# A cell against Stockfish, which moves after 20 000 nodes. It errs at random, so that no two games have the same opening.
against_stockfish() {
    local odds=$1 elo=$2 fen=$3 name=$4 options=$5
    local cell="$folder/$odds-stockfish-$elo-$name"
    if [ ! -s "$cell.json" ]; then
        for _ in $(seq "$games"); do echo "$fen"; done > "$cell.epd"
        "$scorn" match "self;Threads=1;$options" "$STOCKFISH;Threads=1;UCI_LimitStrength=true;UCI_Elo=$elo" \
            --first-is-white --book "$cell.epd" --order sequential --pairs "$games" --nodes "$nodes" \
            --second-limit nodes=20000 --concurrency "$threads" --pgn "$cell.pgn" --json > "$cell.part" \
            2>> "$folder/log" || failed
        mv "$cell.part" "$cell.json"
    fi
    line "$odds" "stockfish-$elo" "$name" "$(number wins "$cell.json")" "$(number draws "$cell.json")" \
        "$(number losses "$cell.json")"
}

# As the network of 26 November 2026 recommended: the opponents stay the same.
few() { echo "NodeLimit=$1;Temperature=1;TempDecayMoves=10;CertaintyProp=0;AutoExtend=false"; }
policy="WeightsFile=<built in dense>;NodeLimit=1;Temperature=0.3;PolicyTemperature=1;RefineWeights="
for name in plain contempt odds; do
    options=$weights${!name}
    [ "$name" != odds ] || options=$odds
    against queen engine-10 "$name" "$options" "$(few 10)"
    against queen dense-policy "$name" "$options" "$policy"
    against rook engine-30 "$name" "$options" "$(few 30)"
    [ -z "$short" ] || continue
    against rook dense-policy "$name" "$options" "$policy"
    against knight engine-100 "$name" "$options" "$(few 100)"
    against knight dense-policy "$name" "$options" "$policy"
    [ -n "${STOCKFISH:-}" ] || continue
    against_stockfish queen 1350 "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1" "$name" "$options"
    against_stockfish rook 1500 "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/1NBQKBNR w Kkq - 0 1" "$name" "$options"
    against_stockfish knight 1700 "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR w KQkq - 0 1" "$name" "$options"
done
[ -z "$write" ] || cp "$table" "$write"
[ -s "$baseline" ] || { echo "odds-gate.sh: no baseline $baseline to compare with (write one with --write)" >&2; exit 2; }

# The mean difference of each rule over the cells in both tables, and its error of 95 %.
awk -F'\t' '
    FNR == 1 { next }
    { key = $1 FS $2 FS $3 }
    NR == FNR { score[key] = $8; games[key] = $4; next }
    key in score {
        n[$3]++; sum[$3] += $8 - score[key]
        # The variance of a score of a game is at most 0.25.
        error[$3] += 2500 / $4 + 2500 / games[key]
    }
    END {
        for (rule in n) {
            mean = sum[rule] / n[rule]
            printf "%s: %+.1f +- %.1f points over %d cells\n", rule, mean, 1.96 * sqrt(error[rule]) / n[rule], n[rule]
            if (mean <= -15) failed = 1
            all++
        }
        if (!all) { print "odds-gate.sh: the tables have no cell in common"; exit 2 }
        if (failed) { print "FAILED: a fall of 15 points or more"; exit 1 }
        print "passed"
    }' "$baseline" "$table"
