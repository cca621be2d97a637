#!/usr/bin/env bash
# Trains the model of people: a sparse network learns the predictions of the Maia networks in games that these play
# against themselves and against the program, from normal openings and from starts at odds, and the moves of
# grandmasters. The rating is an input, so one network predicts the moves of all ratings.
#
# Usage: human.sh SCORN NETWORKS MAIAS BOOKS FOLDER [ROUNDS [MINUTES]]
#   SCORN     the program; ONNX Runtime must be installed
#   NETWORKS  the folder networks/: human/ has the network from which it learns on
#   MAIAS     a folder with maia-1100.pb.gz and the others
#   BOOKS     normal-train.epd, odds-train.epd, normal-test.epd and odds-test.epd of scorn_training.human_books
#   ROUNDS    of games, some 430 000 positions each for each rating; default 40
#   MINUTES   of training, default 55
# MASTERS, a variable, names a PGN file of grandmasters' games, the moves of which are learned for a rating of 2600;
# without it there is nothing to learn for that rating.
# TEACHER, a variable, has the options of the backend that evaluates the Maia networks; the default is OpenVINO's 16
# bits, for a processor with AMX. Without it: TEACHER="Backend=onnx-cpu;BackendOptions=precision=int8".
# Existing results are not made again.
set -euo pipefail
scorn=$1 networks=$2 maias=$3 books=$4 folder=$5 rounds=${6:-40} minutes=${7:-55}
default="Backend=openvino;BackendOptions=precision=bf16,batch=32/64/128"
exact="Backend=onnx-cpu;BackendOptions=precision=fp32"
masters=${MASTERS:-}
mkdir -p "$folder"

# teacher RATING BACKEND: the policy of a Maia network is that of one node, without a temperature; moves are drawn from
# it.
teacher() { echo "WeightsFile=$maias/maia-$1.pb.gz;$2;Temperature=1;PolicyTemperature=1"; }

engine="Temperature=1;PolicyTemperature=0.7"

# play OUT BOOK SEED GAMES PLAYER OTHER [FLAGS]: games of one node a move, the policy of each position recorded.
play() {
    local out=$1 book=$2 seed=$3 games=$4 player=$5 other=$6
    shift 6
    [ -s "$out/summary.json" ] && return
    # shellcheck disable=SC2046  # a flag or nothing
    "$scorn" selfplay --nodes 1 --refine-weights "" --games "$games" --book "$books/$book.epd" --seed "$seed" \
        --a "$player" --b "$other" --a-plays both --parallel 512 --batch 128 --threads 2 --max-plies 300 \
        --records --record-policy --games-per-file 100000 \
        $([ -d "$out" ] && echo --resume) --out "$out" "$@"
}

# Games to learn from, 6000 a round for each rating. In a third of the rounds there are 8000, in which the other side is
# the program itself with the policy of its default network, and the positions are those of the Maia network only.
kinds=(odds normal engine normal odds engine)
for ((round = 0; round < rounds; round++)); do
    for rating in 1900 1500 1100; do
        kind=${kinds[round % 6]} maia=$(teacher "$rating" "${TEACHER:-$default}")
        out="$folder/$kind-$rating-$round" seed=$((21000000 + 10 * round + rating))
        case $kind in
            engine) play "$out" odds-train "$seed" 8000 "$maia" "$engine" --record-side a ;;
            *) play "$out" "$kind-train" "$seed" 6000 "$maia" "$maia" ;;
        esac
    done
done
# Games to measure on, from openings that no game above has, in 32 bits.
for rating in 1100 1500 1900; do
    for kind in normal odds; do
        maia=$(teacher "$rating" "$exact")
        play "$folder/test-$kind-$rating" "$kind-test" $((777 + rating)) 120 "$maia" "$maia"
    done
done

# A data flag for each file, with its rating; its share is its size, and 1900 counts 1.6 times. Games of grandmasters
# make a fifth of all, if there are any.
data=() sum=0
for file in "$folder"/{odds,normal,engine}-*/positions-00001.vis; do
    rating=${file%/*} rating=${rating%-*} rating=${rating##*-}
    [ -s "$file" ] || continue
    share=$(($(stat -c %s "$file") * (rating == 1900 ? 16 : 10)))
    sum=$((sum + share))
    data+=(--data "$file@$rating:$share")
done
tests=()
for rating in 1900 1500 1100; do
    tests+=("$folder"/test-{normal,odds}-"$rating/positions-00001.vis@$rating")
done
if [ -n "$masters" ]; then
    data+=(--data "$folder/masters.rec@2600:$((sum / 4))")
    tests+=("$folder/masters.rec@2600")
fi
# It learns on from the network that there is; new columns have no effect at first. The rate falls to zero.
[ -z "$masters" ] || [ -s "$folder/masters.rec" ] || "$scorn" dataset pgn --out "$folder/masters.rec" "$masters"
[ -s "$folder/start" ] || "$scorn" train start "$folder/start" --network "$networks/human/scorn-human.onnx" \
    --policy-width 1024
"$scorn" train run --folder "$folder/run" --decay "$folder/start" --minutes "$minutes" --result-share 0 --only policy \
    --batch 2048 --chunk 256 --threads 2 --rate 1.2e-3 --warmup 100 --test-every 10000 --save-every 4000 \
    "${tests[@]/#/--test=}" "${data[@]}"
"$scorn" train measure "$folder/run/checkpoint" "${tests[@]}" --result-share 0
"$scorn" train export "$folder/run/checkpoint" "$folder/scorn-human.onnx" --force --license GPL-3.0-or-later \
    --name "scorn-human 6" --data "the policies of maia-1100, 1500 and 1900 (Maia project, GPL-3.0) in games that they \
play from openings and odds; moves of grandmasters' games"
