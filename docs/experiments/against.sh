#!/usr/bin/env bash
# What options are worth against Stockfish with few nodes, instead of against the same program without them
# (docs/lab/gains-against-others.md): each setting plays the same openings. Prints a line of a table for each; resumes
# where it was stopped, and adds games when PAIRS is larger.
#
# Usage: docs/experiments/against.sh SCORN STOCKFISH BOOK FOLDER PAIRS NODES THEIR_NODES NAME=OPTIONS...
# Example: docs/experiments/against.sh target/release/scorn stockfish noob_3moves.epd games 545 800 1900 \
#     usual= visits=RootChoice=visits
set -euo pipefail
[ $# -ge 8 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scorn=$1 stockfish=$2 book=$3 folder=$4 pairs=$5 nodes=$6 theirs=$7
shift 7
mkdir -p "$folder"
for setting in "$@"; do
    name=${setting%%=*}
    options=${setting#*=}
    "$scorn" match "self;Threads=1;$options" "$stockfish;Threads=1;Hash=16" --nodes "$nodes" \
        --second-limit "nodes=$theirs" --book "$book" --pairs "$pairs" --seed 77 --resign movecount=4,score=700 \
        --draw movenumber=40,movecount=8,score=15 --pgn "$folder/$name.pgn" > "$folder/$name.log" 2>&1 ||
        { tail -n 3 "$folder/$name.log" >&2; exit 1; }
    echo "$name: $(grep '^[0-9]* games*:' "$folder/$name.log" | tail -1)"
done
