#!/usr/bin/env bash
# Two generations from random weights with tiny settings: killed and resumed, they have the same bytes; wrong settings,
# a second loop, damaged files and a full disk are handled; odds, a teacher and clocks reach the program.
#
# Usage: networks/training/loop-smoke.sh
#   SCORN    the program (default: target/release/scorn, target/debug/scorn or scorn in the PATH, else it is built)
#   PYTHON   a Python with the packages of the extra `loop` (default: python3 if it has them, else a virtual
#            environment in target/training-venv, which downloads them once)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
find_python "numpy, scipy, tensorboardX, chess, pytest" "$here[loop]" 'pytest==9.2.0'

work=$(mktemp -d)
full=
finish() {
    if [ -n "$full" ]; then umount "$full" || true; fi
    rm -rf "$work"
}
trap finish EXIT
step() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

rules=(--preset cgzero --games 16 --nodes 8 --max-plies 50 --shape 64,64,8 --batch 64 --subset 300
    --gate-pairs 2 --gate-score 0.3 --pool-pairs 1 --seed 5 --train-threads 1)
settings=("${rules[@]}" --gate-nodes 8)
loop() { "$python" -m scorn_training.loop "$1" --scorn "$scorn" "${@:2}"; }

step "tests of the parts"
"$python" -m pytest -q "$here/tests/test_loop.py"
step "wrong settings are refused at once, and right ones are taken afterwards"
refused() {
    local reported=$1
    shift
    if loop "$work/whole" "${rules[@]}" --generations 2 "$@" 2> "$work/reported"; then fail "$* was taken"; fi
    grep -q -- "$reported" "$work/reported" || fail "$*: $(cat "$work/reported")"
    [ "$(ls -A "$work/whole")" = .lock ] || fail "$* left something: $(ls -A "$work/whole")"
}
refused "--match-limit is nodes=N, .* not foo" --match-limit foo
refused "nothing was written.*invalid value '9\{30\}' for '--nodes" --match-limit nodes=999999999999999999999999999999
refused "--gate-nodes and --match-limit exclude each other" --gate-nodes 8 --match-limit nodes=9
refused "nothing was written.*error: unexpected argument '--nosuch'" --engine '--nosuch 1'
refused "nothing was written.*there is no option 'Nosuch'" --match-options Nosuch=1
refused "nothing was written.*not a sparse network" --start "$root/networks/scorn-dense.onnx"
step "two generations"
loop "$work/whole" "${settings[@]}" --generations 2

# The help is read to its end: a pipe that closes early would be an error.
help=$("$scorn" selfplay --help)
if grep -q -- --root-choice <<< "$help"; then
    grep -q '"RootChoice": "value_log_visits"' "$work/whole/gen-0001/games-best-1/manifest.json" || fail "the choice of moves was not passed"
fi

step "the same, killed while it plays and while it trains"
kill_when() {
    "$python" -m scorn_training.loop "$work/killed" --scorn "$scorn" "$@" > "$work/killed.log" 2>&1 &
    local pid=$! tries=0
    until compgen -G "$work/killed/$pattern" > /dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -gt 3000 ] || ! kill -0 "$pid" 2>/dev/null; then cat "$work/killed.log"; fail "nothing to kill at $pattern"; fi
        sleep 0.02
    done
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || true
    if [ -e "$work/killed/gen-0002/network.onnx" ]; then echo "(it was too late)"; fi
}
pattern='gen-0001/games-best-1/manifest.json' kill_when "${settings[@]}" --generations 2
pattern='gen-0002/train/set.*' kill_when --generations 2
loop "$work/killed" --generations 2
same() {
    (cd "$1" && find . -type f \( -name '*.onnx' -o -name '*.vis' -o -name 'games-*.pgn' -o -name manifest.json \) \
        -exec sha256sum {} + | LC_ALL=C sort -k2)
}
same "$work/whole" > "$work/expected"
same "$work/killed" > "$work/found"
[ "$(grep -c 'network.onnx' "$work/expected")" = 3 ] || fail "three networks are expected"
diff "$work/expected" "$work/found" || fail "the loop that was killed came out otherwise"

step "other settings and a second loop are refused"
if loop "$work/whole" --nodes 9 2> "$work/reported"; then fail "other settings were taken"; fi
grep -q 'other settings (nodes)' "$work/reported" || fail "$(cat "$work/reported")"
exec 9> "$work/whole/.lock"
flock 9
if loop "$work/whole" 2> "$work/reported"; then fail "a second loop was let in"; fi
grep -q 'in use by another loop' "$work/reported" || fail "$(cat "$work/reported")"
exec 9>&-

step "a damaged file is named and left out"
damaged=$(find "$work/killed/gen-0002" -name '*.vis' | sort | sed -n 1p)
printf x | dd of="$damaged" bs=1 seek=200 conv=notrunc status=none
loop "$work/killed" --generations 3 2> "$work/reported"
grep -q "${damaged#"$work/killed/"} is damaged" "$work/reported" || fail "$(cat "$work/reported")"
grep -q 'is damaged' "$work/killed/manifest.json" || fail "the manifest does not name the damaged file"

step "games of which nothing is whole are played again"
# The state of a loop that was stopped at the end of the last generation's games.
"$python" - "$work/killed/manifest.json" << 'END'
import json, sys
with open(sys.argv[1]) as file:
    manifest = json.load(file)
last = manifest["generations"].pop()
with open(sys.argv[1], "w") as file:
    json.dump(manifest | {"current": {"games": last["games"]}}, file)
END
records() { (cd "$work/killed/gen-0003" && sha256sum games-*/*.vis); }
records > "$work/records"
for damaged in "$work"/killed/gen-0003/games-*/*.vis; do
    printf x | dd of="$damaged" bs=1 seek=200 conv=notrunc status=none
done
loop "$work/killed" --generations 3 2> "$work/reported" || fail "$(cat "$work/reported")"
grep -q 'gen-0003/games-.* is damaged' "$work/reported" || fail "$(cat "$work/reported")"
grep -q 'generation 3: its games are played again' "$work/reported" || fail "$(cat "$work/reported")"
records | diff "$work/records" - || fail "other games came out"

step "a full disk stops the loop, and it goes on when there is room"
mkdir "$work/small"
if mount -t tmpfs -o size=24m tmpfs "$work/small" 2>/dev/null; then
    full=$work/small
    if loop "$full/loop" "${settings[@]}" --generations 2 2> "$work/reported"; then fail "24 MB were enough"; fi
    cat "$work/reported"
    grep -qi 'no space left' "$work/reported" || fail "it does not say why it stopped"
    mount -o remount,size=100m "$full"
    loop "$full/loop" "${settings[@]}" --generations 2
    same "$full/loop" > "$work/found"
    diff "$work/expected" "$work/found" || fail "after the full disk the loop came out otherwise"
else
    echo "SKIPPED: no right to mount a small disk"
fi

step "odds: the giver has the nodes and the limit, the receiver as many nodes as the limit"
tiny=(--games 2 --nodes 16 --max-plies 20 --shape 64,64,8 --batch 64 --gate-pairs 1 --train-threads 1 --generations 1)
loop "$work/odds" --preset paper --odds queen --sc-limit 5 --gate-nodes 8 "${tiny[@]}"
tags() { sed -n '/^\[\(White\|Black\|WhiteNodes\|BlackNodes\|WhiteScLimit\|BlackScLimit\|FEN\) /p' "$work/odds/gen-0001/games-best-$1"/*.pgn; }
diff - <(tags 1) << 'END' || fail "White gives the odds otherwise"
[White "Scorn A"]
[Black "Scorn B"]
[WhiteNodes "16"]
[BlackNodes "5"]
[WhiteScLimit "5"]
[BlackScLimit "1000000000"]
[FEN "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1"]
END
diff - <(tags 2) << 'END' || fail "Black gives the odds otherwise"
[White "Scorn B"]
[Black "Scorn A"]
[WhiteNodes "5"]
[BlackNodes "16"]
[WhiteScLimit "1000000000"]
[BlackScLimit "5"]
[FEN "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"]
END

step "a damaged summary is named, and settings can change while no generation is complete"
# The state of a loop that was stopped at the end of its games.
"$python" - "$work/odds/manifest.json" << 'END'
import json, sys
with open(sys.argv[1]) as file:
    manifest = json.load(file)
with open(sys.argv[1], "w") as file:
    json.dump(manifest | {"generations": manifest["generations"][:1], "current": {}}, file)
END
summary=$work/odds/gen-0001/games-best-1/summary.json
network=$work/odds/gen-0001/network.onnx
cp "$summary" "$work/summary.json"
mv "$network" "$work/network.onnx"
printf '{"games": 8' > "$summary"
if loop "$work/odds" --generations 1 2> "$work/reported"; then fail "a damaged summary was read"; fi
grep -q "$summary is damaged.*delete it" "$work/reported" || fail "$(cat "$work/reported")"
rm "$summary"
loop "$work/odds" --gate-nodes 7 --generations 1 2> "$work/reported" || fail "$(cat "$work/reported")"
grep -q 'other settings (gate_nodes).*removed.*gen-0001/match-gen-0.pgn' "$work/reported" || fail "$(cat "$work/reported")"
grep -q '"gate_nodes": 7' "$work/odds/manifest.json" || fail "the setting did not change"
cmp "$summary" "$work/summary.json" || fail "the summary came out otherwise"
cmp "$network" "$work/network.onnx" || fail "the network of the same games is another"

step "from a network, taught by another, with clocks in matches"
teacher=$root/networks/scorn-dense.onnx
loop "$work/taught" "${tiny[@]}" --start "$root/networks/sparse/scorn-sparse.onnx" --teacher "$teacher" \
    --match-limit clock=0.2+0.02 --match-options TimeManager=alphazero
"$scorn" train start "$work/start" --network "$root/networks/sparse/scorn-sparse.onnx"
cmp "$work/start" "$work/taught/gen-0000/train/checkpoint" || fail "the first network is not that of --start"
for shard in 1 2; do
    grep -q "\"network\": \"$(sha256sum < "$teacher" | cut -d' ' -f1)\"" "$work/taught/gen-0001/games-best-$shard/manifest.json" ||
        fail "the teacher did not play part $shard"
done
match=$work/taught/gen-0001/match-gen-0.pgn
grep -q '^\[WhiteLimit "clock=0.2+0.02"\]' "$match" || fail "the match had no clock: $(sed 12q "$match")"
grep -q '%clk' "$match" || fail "no clock was noted"
grep -q '^\[White "self;Threads=1;TimeManager=alphazero;' "$match" || fail "the time manager is another: $(sed 12q "$match")"

step "curves"
compgen -G "$work/whole/tensorboard/*tfevents*" > /dev/null || fail "no TensorBoard log"
grep -q '<svg' "$work/whole/report.html" || fail "no plot in the page"
printf '\nloop smoke test passed (%s s)\n' "$SECONDS"
