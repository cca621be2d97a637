#!/usr/bin/env bash
# How scorn-human-1100, -1500 and -1900.onnx were made: small sparse networks learn what the Maia networks say.
# Usage: human.sh SCORN RECORDS MAIAS FOLDER, with positions of "scorn dataset sample" and a folder that has maia-1100.pb.gz and
# the others. Some 6 minutes a network on one core with ONNX Runtime. What is there already is not made again.
set -euo pipefail
scorn=$1 records=$2 maias=$3 folder=$4
mkdir -p "$folder"
ask() {
    [ -f "$4" ] || "$scorn" dataset policy "$records" --weights "$maias/maia-$1.pb.gz" --skip "$2" --count "$3" --out "$4"
}
for rating in 1100 1500 1900; do
    ask "$rating" 0 600000 "$folder/maia-$rating.vis"
    # Positions that training does not see.
    ask "$rating" 1000000 10000 "$folder/test-$rating.vis"
    train() {
        "$scorn" train run --data "$folder/maia-$rating.vis:1" --test "$folder/test-$rating.vis" --result-share 0 --batch 2048 \
            --rate 0.003 --test-every 1000 --save-every 1000 "$@"
    }
    begun=$folder/$rating
    train --folder "$begun" --policy-width 128 --value-width 64 --hidden 16 --steps 3000
    train --folder "$begun-end" --decay "$begun/checkpoint" --steps 7000
    "$scorn" train export "$begun-end/checkpoint" "$folder/scorn-human-$rating.onnx" --force --license GPL-3.0-or-later \
        --name "scorn-human-$rating 1" \
        --data "what maia-$rating (Maia project, GPL-3.0) says about 600000 positions of dataset sample"
done
