#!/usr/bin/env bash
# Verifies and measures a GPU backend: does it load, is it accurate, how fast is it, which errors does it
# report. Writes Markdown to standard output, ready for benches/RESULTS.md, in less than ten minutes. Needs
# bash, awk, timeout and the files it is given; nothing is built or downloaded.
#
#   benches/gpu.sh --engine target/release/scorn --runtime runtime --backend cuda NETWORK...
#
#   --engine FILE     the program
#   --runtime FOLDER  ONNX Runtime with its GPU libraries, as installed by the command in docs/backends.md
#   --backend NAME    cuda (the default), tensorrt, or onnx-cpu for a dry run
#   --time MS         of each measurement (300)
#   --nodes N         of each search (20000)
#   --limit SECONDS   after which no measurement starts (540); omissions are reported
#   --train COMMAND   a training command; its last line goes into the report
#
# The exit code is 1 if a network does not load, a backend differs from the CPU by more than its tolerance, or a
# measurement fails. Failures are listed at the end of their section.
set -uo pipefail

engine= runtime= backend=cuda time=300 nodes=20000 limit=540 train=
networks=()
while [ $# -gt 0 ]; do
    case "$1" in
        --engine) engine=$2; shift 2 ;;
        --runtime) runtime=$2; shift 2 ;;
        --backend) backend=$2; shift 2 ;;
        --time) time=$2; shift 2 ;;
        --nodes) nodes=$2; shift 2 ;;
        --limit) limit=$2; shift 2 ;;
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
    cuda) precisions=(fp16 tf32 fp32) packed=("fp32,packed=false") sessions=(1 2 4) sizes=1,8,64,256,512,1024 threads=(1 2 4) batches=(64 256 1024) games=512 visits=100 ;;
    tensorrt) precisions=(fp16 tf32) packed=() sessions=(1 2 4) sizes=1,8,64,256 threads=(1 2 4) batches=(64 256) games=512 visits=100 ;;
    # A processor: fewer and smaller measurements of the same kind.
    *) precisions=(fp32) packed=() sessions=() sizes=1,16 threads=(1 2) batches=(1 16) games=2 visits=5 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The timeout of each command: a little after the limit, so that ten minutes are enough.
left() { echo $((SECONDS < limit + 40 ? limit + 40 - SECONDS : 1)); }

scorn() { timeout --kill-after 5 "$(left)" "$engine" --onnxruntime-path "$runtime" "$@"; }

# The failures of this section, and their total number.
problems=()
failures=0
fail() { problems+=("$*"); failures=$((failures + 1)); }
tell_problems() {
    [ ${#problems[@]} -gt 0 ] || return 0
    echo
    printf '* **FAILED**: %s\n' "${problems[@]}"
    problems=()
}

# Starts a section, unless the time limit has passed.
begin() {
    tell_problems
    printf '\n### %s\n\n' "$1"
    has_ended=
    is_time
}

# Whether there is time for another measurement; reports once a section that there is not.
is_time() {
    [ "$SECONDS" -lt "$limit" ] && return 0
    [ -n "$has_ended" ] || cut=$((cut + 1))
    has_ended=1
    return 1
}
cut=0 has_ended=
tell_end() { [ -z "$has_ended" ] || printf '\n**LEFT OUT**: the rest, after %s of %s seconds.\n' "$SECONDS" "$limit"; }

# The peak of the GPU's memory from watch_memory to end_watch, which sets `memory`.
watch_memory() {
    memory=-
    : > "$work/memory"
    command -v nvidia-smi >/dev/null || return 0
    touch "$work/watching"
    while [ -e "$work/watching" ]; do
        nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | sed -n 1p >> "$work/memory"
        sleep 0.1
    done &
    watcher=$!
}
end_watch() {
    [ -e "$work/watching" ] || return 0
    rm -f "$work/watching"
    wait "$watcher"
    memory=$(awk '$1 + 0 > most { most = $1 + 0 } END { print most ? most " MiB" : "-" }' "$work/memory")
}

# A search: search_with BACKEND NETWORK NODES FLAGS... sets `said` to the engine's output.
search_with() {
    local with=$1 network=$2 count=$3
    shift 3
    said=$(printf 'isready\nucinewgame\nposition startpos\ngo nodes %s\n' "$count" |
        scorn --weights "$network" --backend "$with" "$@" 2>&1)
}
search() { search_with "$backend" "$@"; }

# Whether it searched with the given network: after an error, the built-in one answers.
has_worked() { ! grep -q '^info string error' <<< "$said" && grep -q '^bestmove [a-h]' <<< "$said"; }

# The engine's error message, or the given text if there was none.
error_or() {
    awk -v text="$1" '
        /^info string error/ && !e { sub(/^info string error:? */, ""); e = $0 }
        /^bestmove [a-h]/ { found = 1 }
        /./ { last = $0 }
        END { print e != "" ? e : found ? text : "no move, at last: " last }' <<< "$said"
}

# Nodes per second in the search's last line.
nps() { awk '/^info / { for (i = 1; i < NF; i++) if ($i == "nps") n = $(i + 1) } END { print n == "" ? "-" : n }' <<< "$said"; }

# A row with the speed of a search: speed LABEL NETWORK FLAGS...
speed() {
    local label=$1 network=$2
    shift 2
    is_time || return 0
    search "$network" "$nodes" "$@"
    if has_worked; then
        echo "$label | $(nps) |"
    else
        echo "$label | - |"
        fail "search of ${label#| }: $(error_or nothing)"
    fi
}

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

# Rows with the speed without a search: bench KEYS LABEL NETWORK OPTIONS FLAGS... The columns are those of the keys and,
# where it is measured, the memory.
bench() {
    local keys=$1 label=$2 network=$3 options=$4 measured code
    shift 4
    is_time || return 0
    scorn --weights "$network" --backend "$backend" --backend-opts "$options" backendbench --json --time "$time" "$@" \
        > "$work/bench" 2> "$work/errors"
    code=$?
    end_watch
    measured=$(rows "$keys" "$label" < "$work/bench")
    if [ "$code" -ne 0 ] || [ -z "$measured" ]; then
        fail "backendbench of ${label#| }: $(sed '/./!d' "$work/errors" | tail -1) (exit code $code)"
    fi
    [ -z "$measured" ] || sed "s/\$/${memory:+ $memory |}/" <<< "$measured"
    memory=
}

name() { basename "$1"; }

memory=
echo "## $backend ($(date -u +%Y-%m-%d))"
echo
echo "$(nproc) processors, $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $("$engine" --version)."
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
echo
echo '```'
scorn --weights "${networks[0]}" runtime
echo '```'

if begin "Loading"; then
    echo "| network | seconds | memory | what it says |"
    echo "|---|---|---|---|"
    for network in "${networks[@]}"; do
        is_time || break
        begun=$(date +%s.%N)
        watch_memory
        search "$network" 1
        end_watch
        seconds=$(echo "$begun $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }')
        text=$(error_or "$(awk '/^info string/ { sub(/^info string /, ""); print; exit }' <<< "$said")")
        echo "| $(name "$network") | $seconds | $memory | ${text//|/\\|} |"
        has_worked || fail "$(name "$network") does not load"
    done
    memory=
fi
tell_end

if begin "Against the processor"; then
    echo "\`Backend check\`, a search of 2000 nodes each, all values and probabilities within the tolerance."
    echo
    echo "| network | precision | tolerance | result |"
    echo "|---|---|---|---|"
    for network in "${networks[@]}"; do
        for precision in "${precisions[@]}" "${packed[@]}"; do
            is_time || break
            case "$precision" in fp32*) tolerance=0.002 ;; *) tolerance=0.03 ;; esac
            case "$backend" in
                onnx-cpu) groups="onnx-cpu(),rten(),tolerance=$tolerance" ;;
                *) groups="$backend(precision=$precision),onnx-cpu(),tolerance=$tolerance" ;;
            esac
            search_with check "$network" 2000 --backend-opts "$groups"
            result=$(error_or ok)
            echo "| $(name "$network") | $precision | $tolerance | ${result//|/\\|} |"
            has_worked || fail "$(name "$network") in $precision"
        done
    done
fi
tell_end

if begin "Evaluations per second"; then
    echo "\`scorn backendbench\` by precision and batch size, two threads; \`mixed\` has batches of changing sizes up to the given one."
    echo
    echo "| network, precision | batch | evals/s | ms/batch |"
    echo "|---|---|---|---|"
    keys=batch,evals_per_second,ms_per_batch
    for network in "${networks[@]}"; do
        for precision in "${precisions[@]}"; do
            label="| $(name "$network"), $precision"
            bench $keys "$label" "$network" "precision=$precision" --sizes "$sizes" --bench-threads 2
            bench $keys "$label, mixed" "$network" "precision=$precision" --sizes "$sizes" --bench-threads 2 --mixed
        done
    done
fi
tell_end

if [ ${#sessions[@]} -gt 0 ] && begin "Sessions"; then
    echo "Batches of 256, four threads:"
    echo
    echo "| network | sessions | evals/s | ms/batch | memory |"
    echo "|---|---|---|---|---|"
    keys=evals_per_second,ms_per_batch
    for network in "${networks[@]}"; do
        for count in "${sessions[@]}"; do
            is_time || break
            watch_memory
            bench $keys "| $(name "$network") | $count" "$network" "sessions=$count" --sizes 256 --bench-threads 4
        done
        [ "$backend" = cuda ] || continue
        for setting in nhwc packed=false; do
            is_time || break
            watch_memory
            bench $keys "| $(name "$network") | 2, $setting" "$network" "$setting" --sizes 256 --bench-threads 2
        done
    done
fi
[ ${#sessions[@]} -eq 0 ] || tell_end

if begin "Searches"; then
    echo "Nodes per second, \`go nodes $nodes\` from the start position."
    echo
    echo "| network | threads | batch | nodes/s |"
    echo "|---|---|---|---|"
    for network in "${networks[@]}"; do
        for count in "${threads[@]}"; do
            for batch in "${batches[@]}"; do
                speed "| $(name "$network") | $count | $batch" "$network" --threads "$count" --minibatch-size "$batch"
            done
        done
        speed "| $(name "$network") | own choice | own choice" "$network"
    done
fi
tell_end

if begin "What it says when something is wrong"; then
    case "$backend" in
        onnx-cpu) wrong=("threads=0" "batch=1/100000" "precision=int4") ;;
        *) wrong=("gpu=99" "precision=int4" "sessions=9") ;;
    esac
    for options in "${wrong[@]}"; do
        is_time || break
        search "${networks[0]}" 100 --backend-opts "$options"
        echo "* \`BackendOptions $options\`: $(error_or "no error")"
        [ "$(error_or none)" != none ] || fail "nothing is said about $options"
    done
    # Out of memory: the largest network in large batches, many times at once. A card may be too large for that.
    largest=$(ls -S "${networks[@]}" | sed -n 1p)
    case "$backend" in
        cuda) hungry=(multiplexing "backend=cuda,precision=fp32,batch=4096,sessions=4$(printf ',(gpu=0)%.0s' 1 2 3 4 5 6 7 8)") ;;
        onnx-cpu) hungry=(onnx-cpu batch=64) ;;
        # It would build an engine of that size first.
        *) hungry=() ;;
    esac
    if [ ${#hungry[@]} -gt 0 ] && is_time; then
        watch_memory
        search_with "${hungry[0]}" "$largest" 20000 --backend-opts "${hungry[1]}" --threads 32 --minibatch-size 1024
        end_watch
        text=$(error_or "not provoked")
        case "$text" in
            "not provoked" | *[Mm]emory* | *alloc* | *ALLOC*) ;;
            *) fail "lack of memory is not reported as such" ;;
        esac
        echo "* Out of memory ($(name "$largest"), \`${hungry[1]}\`, up to $memory): $text"
        memory=
    fi
fi
tell_end

if begin "Self-play"; then
    if "$engine" selfplay --help >/dev/null 2>&1; then
        begun=$SECONDS
        most=$(left)
        [ "$most" -lt 90 ] || most=90
        timeout --kill-after 5 "$most" "$engine" --onnxruntime-path "$runtime" --weights "${networks[0]}" --backend "$backend" \
            selfplay --games "$games" --nodes "$visits" --out "$work/games" > "$work/selfplay" 2>&1
        code=$?
        echo '```'
        tail -12 "$work/selfplay"
        echo "$games games of $visits nodes a move: $((SECONDS - begun)) seconds (at most $most)"
        echo '```'
        case "$code" in
            0) ;;
            # The rate is printed during the training.
            124) echo "Not all of them were played in that time." ;;
            *) fail "self-play ends with exit code $code" ;;
        esac
    else
        echo "This program plays no games against itself."
    fi
fi
tell_end

if [ -n "$train" ]; then
    if begin "Training"; then
        said=$(timeout --kill-after 5 "$(left)" bash -c "$train" 2>&1)
        code=$?
        echo "\`$train\`: $(tail -1 <<< "$said")"
        [ "$code" -eq 0 ] || fail "training ends with exit code $code"
    fi
    tell_end
fi

tell_problems
echo
echo "$SECONDS seconds, $failures failures$([ "$cut" -eq 0 ] || echo ", $cut sections cut short")."
[ "$failures" -eq 0 ]
