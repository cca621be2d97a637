#!/usr/bin/env bash
# Trains models of people: sparse networks learn the predictions of the Maia networks in games that these play against
# themselves, from normal openings and from starts at odds.
#
# Usage: human.sh SCORN NETWORKS MAIAS BOOKS FOLDER [ROUNDS]
#   SCORN     the program; ONNX Runtime must be installed (8-bit arithmetic needs a processor with VNNI)
#   NETWORKS  the folder networks/: sparse/ has the policy that is the start, human/ the networks whose value is kept
#   MAIAS     a folder with maia-1100.pb.gz and the others
#   BOOKS     normal-train.epd, odds-train.epd, normal-test.epd and odds-test.epd of scorn_training.human_books
#   ROUNDS    of games, 110 000 positions each for each rating and kind; default 6
# Requires the Python package of this folder with its extra "dense". Existing results are not made again.
set -euo pipefail
scorn=$1 networks=$2 maias=$3 books=$4 folder=$5 rounds=${6:-6}
mkdir -p "$folder"

# The policy of a Maia network is that of one node, without a temperature; moves are drawn from it.
drawn="Temperature=1;PolicyTemperature"
teacher() { echo "WeightsFile=$maias/maia-$1.pb.gz;Backend=onnx-cpu;BackendOptions=precision=$2;$drawn=1"; }

# play OUT BOOK SEED GAMES PLAYER [FLAGS]: games of one node a move, the policy of each position recorded.
play() {
    local out=$1 book=$2 seed=$3 games=$4 player=$5
    shift 5
    [ -s "$out/summary.json" ] && return
    # shellcheck disable=SC2046  # a flag or nothing
    "$scorn" selfplay --nodes 1 --refine-weights "" --games "$games" --book "$books/$book.epd" --seed "$seed" \
        --a "$player" --b "$player" --a-plays both --parallel 256 --batch 128 --threads 1 --longest 300 \
        --records --record-policy --games-per-file 100000 \
        $([ -d "$out" ] && echo --resume) --out "$out" "$@"
}

# Games to learn from. In a third of them a move in twenty is random, and no sample.
kinds=(normal odds normal-noise)
for ((round = 0; round < rounds; round++)); do
    for rating in 1100 1500 1900; do
        kind=${kinds[round % 3]} maia=$(teacher "$rating" int8)
        out="$folder/$kind-$rating-$round" seed=$((100000 + 10 * round + rating))
        case $kind in
            *-noise) play "$out" "${kind%-noise}-train" "$seed" 1200 "$maia" --random-plies 100 --random-share 0.05 ;;
            *) play "$out" "$kind-train" "$seed" 1200 "$maia" ;;
        esac
    done
done
# Games to measure on, from openings that no game above has, in 32 bits.
for rating in 1100 1500 1900; do
    for kind in normal odds; do
        maia=$(teacher "$rating" fp32)
        play "$folder/test-$kind-$rating" "$kind-test" $((777 + rating)) 100 "$maia"
    done
done

# A data flag for each file, its share the size of the file; those of one rating count five times.
data_for() {
    local file factor
    for file in "$folder"/{normal,odds}-*/positions-00001.vis; do
        case $file in *-"$1"-*) factor=5 ;; *) factor=1 ;; esac
        [ -s "$file" ] && printf -- '--data %s:%s ' "$file" "$((factor * $(stat -c %s "$file")))"
    done
}
train() {
    local rating=$1
    shift
    # shellcheck disable=SC2046  # flags with their values
    "$scorn" train run --only policy --result-share 0 --batch 1024 --chunk 256 --threads 2 --rate 0.001 --warmup 100 \
        --test-every 1000 --save-every 500 --test "$folder/test-normal-1500/positions-00001.vis" $(data_for "$rating") "$@"
}

# The start: the default network's policy with the 192 of its 352 products that matter most here.
"$scorn" train start "$folder/wide.checkpoint" --network "$networks/sparse/scorn-sparse.onnx" --force
for rating in 1100 1500 1900; do
    value="$folder/value-$rating.checkpoint" start="$folder/start-$rating.checkpoint"
    [ -s "$start" ] && continue
    "$scorn" train start "$value" --network "$networks/human/scorn-human-$rating.onnx" --force
    python3 -m scorn_training.narrow "$folder/wide.checkpoint" "$value" "$start" --width 384 --scorn "$scorn" \
        --data "$folder/normal-1500-0/positions-00001.vis"
done

# A policy for all ratings together, then one for each from there, the rate falling to zero. Too much of either and positions are
# memorised: with six rounds what is held out gained little after two passes.
mkdir -p "$folder/common"
[ -s "$folder/common/checkpoint" ] || cp "$folder/start-1500.checkpoint" "$folder/common/checkpoint"
train none --folder "$folder/common" --steps 3000
for rating in 1100 1500 1900; do
    start="$folder/common-$rating.checkpoint" own="$folder/own-$rating"
    # Nothing is left out here: the policy in common with the value of the rating.
    [ -s "$start" ] || python3 -m scorn_training.narrow "$folder/common/checkpoint" "$folder/value-$rating.checkpoint" "$start" \
        --width 384 --scorn "$scorn" --data "$folder/normal-1500-0/positions-00001.vis"
    train "$rating" --folder "$own" --decay "$start" --steps 2000
    "$scorn" train measure "$own/checkpoint" "$folder"/test-{normal,odds}-"$rating"/positions-00001.vis --result-share 0
    "$scorn" train export "$own/checkpoint" "$folder/scorn-human-$rating.onnx" --force --license GPL-3.0-or-later \
        --name "scorn-human-$rating 2" \
        --data "the policy of maia-$rating (Maia project, GPL-3.0) in games that it plays from openings and odds starts"
done
