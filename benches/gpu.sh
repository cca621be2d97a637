#!/usr/bin/env bash
# Everything about a GPU in one go: does it load, is it right, how fast is it, what does it say when something is wrong.
# Writes Markdown to standard output, ready for benches/RESULTS.md, in less than ten minutes. Needs bash, awk and the files
# it is given; nothing is built or downloaded.
#
#   benches/gpu.sh --engine target/release/scorn --runtime runtime --backend cuda NETWORK...
#
#   --engine FILE     the program
#   --runtime FOLDER  ONNX Runtime with its GPU libraries, as the README's command makes it
#   --backend NAME    cuda (the default), tensorrt, or onnx-cpu for a dry run
#   --time MS         of each measurement (300)
#   --nodes N         of each search (20000)
#   --train COMMAND   a command that trains for a while; its last line goes into the report
#
# The exit code is 1 if a network does not load or a backend differs from the CPU by more than it may.
set -uo pipefail

engine= runtime= backend=cuda time=300 nodes=20000 train=
networks=()
while [ $# -gt 0 ]; do
    case "$1" in
        --engine) engine=$2; shift 2 ;;
        --runtime) runtime=$2; shift 2 ;;
        --backend) backend=$2; shift 2 ;;
        --time) time=$2; shift 2 ;;
        --nodes) nodes=$2; shift 2 ;;
        --train) train=$2; shift 2 ;;
        -*) echo "unknown option $1 (see the head of this file)" >&2; exit 2 ;;
        *) networks+=("$1"); shift ;;
    esac
done
if [ ! -x "$engine" ] || [ ! -d "$runtime" ] || [ ${#networks[@]} -eq 0 ]; then
    echo "usage: benches/gpu.sh --engine FILE --runtime FOLDER [--backend cuda] NETWORK..." >&2
    exit 2
fi

case "$backend" in
    cuda) precisions=(fp16 tf32 fp32) packed=("fp32,packed") sessions=(1 2 4) sizes=1,8,64,256,512,1024 threads=(1 2 4) batches=(64 256 1024) games=512 visits=100 ;;
    tensorrt) precisions=(fp16 tf32) packed=() sessions=(1 2 4) sizes=1,8,64,256 threads=(1 2 4) batches=(64 256) games=512 visits=100 ;;
    # A processor: fewer and smaller measurements of the same kind.
    *) precisions=(fp32) packed=() sessions=() sizes=1,16 threads=(1 2) batches=(1 16) games=2 visits=5 ;;
esac

failures=0
fail() { failures=$((failures + 1)); echo "**FAILED**: $*"; }

scorn() { "$engine" --onnxruntime-path "$runtime" "$@"; }

# A search: search NETWORK NODES FLAGS... prints what the engine says.
search() {
    local network=$1 count=$2
    shift 2
    printf 'isready\nucinewgame\nposition startpos\ngo nodes %s\n' "$count" |
        scorn --weights "$network" --backend "$backend" "$@" 2>&1
}

# The nodes per second of a search's last line.
nps() { awk '/^info / { for (i = 1; i < NF; i++) if ($i == "nps") n = $(i + 1) } END { print n == "" ? "-" : n }'; }

# What was said about an error, or the given text.
error_or() { awk -v text="$1" '/^info string error/ && !e { sub(/^info string error: /, ""); e = $0 } END { print e == "" ? text : e }'; }

memory() { nvidia-smi --query-gpu=memory.used --format=csv,noheader 2>/dev/null | head -1; }

# Rows of a table from backendbench's JSON, one object a line: the values of some keys.
rows() {
    awk -v keys="$1" -v first="$2" '
        BEGIN { count = split(keys, key, ",") }
        {
            line = first
            for (i = 1; i <= count; i++) {
                value = $0
                if (!sub(".*\"" key[i] "\":", "", value)) next
                sub(/[,}].*/, "", value)
                line = line " | " sprintf(value + 0 == int(value + 0) || value + 0 >= 100 ? "%.0f" : "%.2f", value)
            }
            print line " |"
        }'
}

name() { basename "$1"; }

echo "## $backend ($(date -u +%Y-%m-%d))"
echo
echo "$(nproc) processors, $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $("$engine" --version)."
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
echo
echo '```'
scorn --weights "${networks[0]}" runtime
echo '```'

echo
echo "### Loading"
echo
echo "| network | seconds | memory | what it says |"
echo "|---|---|---|---|"
for network in "${networks[@]}"; do
    begun=$(date +%s.%N)
    said=$(search "$network" 1)
    seconds=$(echo "$begun $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }')
    text=$(echo "$said" | error_or "$(echo "$said" | awk '/^info string/ { sub(/^info string /, ""); print; exit }')")
    echo "| $(name "$network") | $seconds | $(memory) | ${text//|/\\|} |"
    echo "$said" | grep -q '^bestmove [a-h]' || fail "$(name "$network") does not load"
done

echo
echo "### Against the processor"
echo
echo "\`Backend check\`, a search of 2000 nodes each, all values and probabilities within the tolerance."
echo
echo "| network | precision | tolerance | result |"
echo "|---|---|---|---|"
for network in "${networks[@]}"; do
    for precision in "${precisions[@]}" "${packed[@]}"; do
        case "$precision" in fp32*) tolerance=0.002 ;; *) tolerance=0.03 ;; esac
        case "$backend" in
            onnx-cpu) groups="onnx-cpu(),rten(),tolerance=$tolerance" ;;
            *) groups="$backend(precision=$precision),onnx-cpu(),tolerance=$tolerance" ;;
        esac
        said=$(printf 'position startpos\ngo nodes 2000\n' |
            scorn --weights "$network" --backend check --backend-opts "$groups" 2>&1)
        result=$(echo "$said" | error_or ok)
        echo "| $(name "$network") | $precision | $tolerance | ${result//|/\\|} |"
        [ "$result" = ok ] && echo "$said" | grep -q '^bestmove [a-h]' || fail "$(name "$network") in $precision"
    done
done

echo
echo "### Evaluations per second"
echo
echo "\`scorn backendbench\` by precision and batch size, two threads; \`mixed\` has batches of changing sizes up to the given one."
echo
echo "| network, precision | batch | evals/s | ms/batch |"
echo "|---|---|---|---|"
bench() {
    local network=$1 options=$2
    shift 2
    scorn --weights "$network" --backend "$backend" --backend-opts "$options" backendbench --json --time "$time" "$@" 2>/dev/null
}
for network in "${networks[@]}"; do
    for precision in "${precisions[@]}"; do
        label="| $(name "$network"), $precision"
        bench "$network" "precision=$precision" --sizes "$sizes" --bench-threads 2 |
            rows batch,evals_per_second,ms_per_batch "$label"
        bench "$network" "precision=$precision" --sizes "$sizes" --bench-threads 2 --mixed |
            rows batch,evals_per_second,ms_per_batch "$label, mixed"
    done
done
if [ ${#sessions[@]} -gt 0 ]; then
    echo
    echo "Sessions, batches of 256, four threads:"
    echo
    echo "| network | sessions | evals/s | ms/batch | memory |"
    echo "|---|---|---|---|---|"
    for network in "${networks[@]}"; do
        for count in "${sessions[@]}"; do
            bench "$network" "sessions=$count" --sizes 256 --bench-threads 4 |
                rows evals_per_second,ms_per_batch "| $(name "$network") | $count" | sed "s/\$/ $(memory) |/"
        done
        [ "$backend" = cuda ] || continue
        for setting in nhwc packed; do
            bench "$network" "$setting" --sizes 256 --bench-threads 2 |
                rows evals_per_second,ms_per_batch "| $(name "$network") | 2, $setting" | sed 's/$/ |/'
        done
    done
fi

echo
echo "### Searches"
echo
echo "Nodes per second, \`go nodes $nodes\` from the start position."
echo
echo "| network | threads | batch | nodes/s |"
echo "|---|---|---|---|"
for network in "${networks[@]}"; do
    for count in "${threads[@]}"; do
        for batch in "${batches[@]}"; do
            speed=$(search "$network" "$nodes" --threads "$count" --minibatch-size "$batch" | nps)
            echo "| $(name "$network") | $count | $batch | $speed |"
        done
    done
    echo "| $(name "$network") | own choice | own choice | $(search "$network" "$nodes" | nps) |"
done

echo
echo "### What it says when something is wrong"
echo
case "$backend" in
    onnx-cpu) wrong=("threads=0" "batch=1/100000" "precision=int4") ;;
    *) wrong=("gpu=99" "batch=4096" "precision=int4" "sessions=9") ;;
esac
for options in "${wrong[@]}"; do
    said=$(search "${networks[-1]}" 5000 --backend-opts "$options" --minibatch-size 1024 | error_or "no error")
    echo "* \`BackendOptions $options\`: $said"
done

echo
echo "### Self-play"
echo
if "$engine" selfplay --help >/dev/null 2>&1; then
    folder=$(mktemp -d)
    echo '```'
    begun=$SECONDS
    timeout 90 "$engine" --onnxruntime-path "$runtime" --weights "${networks[0]}" --backend "$backend" \
        selfplay --games "$games" --nodes "$visits" --out "$folder/games" 2>&1 | tail -12
    echo "$games games of $visits nodes a move: $((SECONDS - begun)) seconds (at most 90)"
    echo '```'
    rm -rf "$folder"
else
    echo "This program plays no games against itself."
fi

if [ -n "$train" ]; then
    echo
    echo "### Training"
    echo
    echo "\`$train\`: $(bash -c "$train" 2>&1 | tail -1)"
fi

echo
echo "$SECONDS seconds, $failures failures."
[ "$failures" -eq 0 ]
