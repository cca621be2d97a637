#!/usr/bin/env bash
# Trains the model of people: a sparse network learns the predictions of the Maia networks in games that these play
# against themselves and against the program, from normal openings and from starts at odds. The rating is an input, so
# one network predicts the moves of all ratings.
#
# Usage: human.sh SCORN NETWORKS MAIAS BOOKS FOLDER [ROUNDS]
#   SCORN     the program; ONNX Runtime must be installed (8-bit arithmetic needs a processor with VNNI)
#   NETWORKS  the folder networks/: sparse/ has the policy that is the start
#   MAIAS     a folder with maia-1100.pb.gz and the others
#   BOOKS     normal-train.epd, odds-train.epd, normal-test.epd and odds-test.epd of scorn_training.human_books
#   ROUNDS    of games, 45 000 positions each for each rating; default 56
# Existing results are not made again.
set -euo pipefail
scorn=$1 networks=$2 maias=$3 books=$4 folder=$5 rounds=${6:-56}
mkdir -p "$folder"

# The policy of a Maia network is that of one node, without a temperature; moves are drawn from it.
drawn="Temperature=1;PolicyTemperature"
teacher() { echo "WeightsFile=$maias/maia-$1.pb.gz;Backend=onnx-cpu;BackendOptions=precision=$2;$drawn=1"; }

engine="Temperature=1;PolicyTemperature=0.7"

# play OUT BOOK SEED GAMES PLAYER OTHER [FLAGS]: games of one node a move, the policy of each position recorded.
play() {
    local out=$1 book=$2 seed=$3 games=$4 player=$5 other=$6
    shift 6
    [ -s "$out/summary.json" ] && return
    # shellcheck disable=SC2046  # a flag or nothing
    "$scorn" selfplay --nodes 1 --refine-weights "" --games "$games" --book "$books/$book.epd" --seed "$seed" \
        --a "$player" --b "$other" --a-plays both --parallel 256 --batch 128 --threads 1 --longest 300 \
        --records --record-policy --games-per-file 100000 \
        $([ -d "$out" ] && echo --resume) --out "$out" "$@"
}

# Games to learn from, 600 of them a round. In a third of the rounds the other side is the program itself, with the
# policy of its default network, and the positions are those of the Maia network only.
kinds=(odds normal engine normal odds engine)
for ((round = 0; round < rounds; round++)); do
    for rating in 1900 1500 1100; do
        kind=${kinds[round % 6]} maia=$(teacher "$rating" int8)
        out="$folder/$kind-$rating-$round" seed=$((11000000 + 10 * round + rating))
        case $kind in
            engine) play "$out" odds-train "$seed" 1000 "$maia" "$engine" --record-side a ;;
            *) play "$out" "$kind-train" "$seed" 600 "$maia" "$maia" ;;
        esac
    done
done
# Games to measure on, from openings that no game above has, in 32 bits.
for rating in 1100 1500 1900; do
    for kind in normal odds; do
        maia=$(teacher "$rating" fp32)
        play "$folder/test-$kind-$rating" "$kind-test" $((777 + rating)) 100 "$maia" "$maia"
    done
done

# A data flag for each file, with its rating; its share is its size, and 1900 counts 1.6 times.
data() {
    local file rating
    for file in "$folder"/{odds,normal,engine}-*/positions-00001.vis; do
        rating=${file%-*} rating=${rating##*-}
        [ ! -s "$file" ] || printf -- '--data %s@%s:%s ' "$file" "$rating" \
            "$(($(stat -c %s "$file") * (rating == 1900 ? 16 : 10)))"
    done
}
tests() {
    local rating
    for rating in 1900 1500 1100; do
        printf -- '%s%s@%s ' "$1" "$folder/test-normal-$rating/positions-00001.vis" "$rating" \
            "$1" "$folder/test-odds-$rating/positions-00001.vis" "$rating"
    done
}
# The start is the default network's policy. Its outputs do not change with the new inputs, whose weights are 0. The rate
# falls to zero.
[ -s "$folder/start" ] || "$scorn" train start "$folder/start" --inputs history \
    --network "$networks/sparse/scorn-sparse.onnx" --reinit value --value-width 64 --hidden 16
# shellcheck disable=SC2046  # flags with their values
"$scorn" train run --folder "$folder/run" --decay "$folder/start" --steps 37000 --result-share 0 --batch 2048 \
    --chunk 256 --threads 2 --rate 1.2e-3 --warmup 100 --test-every 1500 --save-every 1000 $(tests "--test ") $(data)
# shellcheck disable=SC2046  # files
"$scorn" train measure "$folder/run/checkpoint" $(tests "") --result-share 0
"$scorn" train export "$folder/run/checkpoint" "$folder/scorn-human.onnx" --force --license GPL-3.0-or-later \
    --name "scorn-human 4" \
    --data "the policies of maia-1100, 1500 and 1900 (Maia project, GPL-3.0) in games that they play from openings and odds"
