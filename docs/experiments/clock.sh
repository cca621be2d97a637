#!/usr/bin/env bash
# The games of docs/reliability.md on tiny clocks: the engine against itself, more games at a time than there
# are cores, the four time managers, pondering in half of them. memory.tsv beside the games has the memory of
# the engines' processes in KiB, every ten seconds. Resumes where it was stopped.
#
# Usage: docs/experiments/clock.sh SCORN FOLDER BOOK [CONCURRENCY]
# BOOK: openings (PGN or EPD).
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scorn=$1
folder=$2
book=$3
concurrency=${4:-6}
mkdir -p "$folder"

# A match: its name, the clock, pairs of games, further flags.
play() {
    local name=$1 clock=$2 pairs=$3 first=$4 second=$5
    shift 5
    [ -s "$folder/$name.json" ] && return
    # Both engines of a game think all the time when they ponder.
    local at_a_time=$((${#@} > 0 ? concurrency / 3 : concurrency))
    [ "$at_a_time" -gt 0 ] || at_a_time=1
    "$scorn" match "self;TimeManager=$first;Threads=1" "self;TimeManager=$second;Threads=1" --tc "$clock" --time-margin 0 \
        --book "$book" --seed 20261122 --pairs "$pairs" --concurrency "$at_a_time" --pgn "$folder/$name.pgn" --json "$@" \
        > "$folder/$name.part" 2>> "$folder/log" &
    local match=$!
    while sleep 10; kill -0 "$match" 2> /dev/null; do
        # Between games there may be no engine, which is an error of ps.
        { ps -o rss= --ppid "$match" || true; } | awk -v name="$name" -v OFS='\t' -v at="$(date +%s)" \
            '{sum += $1; if ($1 > most) most = $1} END {if (NR) print name, at, NR, sum, most}' >> "$folder/memory.tsv"
    done
    wait "$match" || { echo "clock.sh: $name failed; the end of $folder/log:" >&2; tail -n 3 "$folder/log" >&2; exit 1; }
    mv "$folder/$name.part" "$folder/$name.json"
    echo "$name: $(grep -o '"forfeits":.*' "$folder/$name.json" | cut -c1-300)"
}

for ponder in "" --ponder; do
    while read -r clock pairs; do
        play "${clock//\//in}$ponder-1" "$clock" "$pairs" legacy smooth $ponder
        play "${clock//\//in}$ponder-2" "$clock" "$pairs" simple alphazero $ponder
    done << TABLE
1+0.01 200
5+0.05 30
40/10+0 20
10+0.1 8
30+0 8
TABLE
done
