#!/usr/bin/env bash
# Verifies and measures a GPU backend: does it load, is it accurate, how fast is it, how far is it behind lc0, which
# errors does it report. Writes Markdown to standard output. Needs bash, awk, timeout and the files it is given; nothing
# is built or downloaded. What to do on a new card: docs/lab/gpu.md.
#
#   benches/gpu.sh --engine target/release/scorn --runtime runtime --lc0 lc0 --write docs/lab/gpu.md NETWORK...
#
#   --engine FILE     the program
#   --runtime FOLDER  ONNX Runtime with its GPU libraries, as installed by the command in docs/backends.md
#   --backend NAME    cuda (the default), tensorrt, or onnx-cpu for a dry run
#   --part NAME       decide: the five minutes that decide (loading, parity, speed by form of the graph, batch and
#                     threads, nodes reached in short times, self-play, lc0); rest: precisions, sessions, searches,
#                     error messages, memory, training; all (the default): both
#   --lc0 FILE        lc0's program: measured beside Scorn in part decide, for the networks that are lc0's (.pb.gz)
#   --lc0-backend NAME  its backend (cuda-fp16)
#   --write FILE      puts the report between the lines "<!-- measured" and "<!-- end of measured" of this page
#   --time MS         of each measurement (300)
#   --nodes N         of each search (20000)
#   --limit SECONDS   after which no measurement starts (300 for decide, 540 for rest, 840 for all); omissions are
#                     reported
#   --train COMMAND   a training command; its last line goes into the report
#
# The exit code is 1 if a network does not load, a backend differs from the CPU by more than its tolerance, or a
# measurement fails. Failures are listed at the end of their section.
set -uo pipefail

engine= runtime= backend=cuda part=all lc0= lc0_backend=cuda-fp16 page= time=300 nodes=20000 limit= train=
networks=()
while [ $# -gt 0 ]; do
    case "$1" in
        --*) [ $# -ge 2 ] || { echo "$1 needs a value, or is unknown (see the head of this file)" >&2; exit 2; } ;;
    esac
    case "$1" in
        --engine) engine=$2; shift 2 ;;
        --runtime) runtime=$2; shift 2 ;;
        --backend) backend=$2; shift 2 ;;
        --part) part=$2; shift 2 ;;
        --lc0) lc0=$2; shift 2 ;;
        --lc0-backend) lc0_backend=$2; shift 2 ;;
        --write) page=$2; shift 2 ;;
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
if [ -n "$lc0" ] && [ ! -x "$lc0" ]; then
    echo "--lc0 $lc0: there is no such program" >&2
    exit 2
fi
if [ -n "$page" ] && ! grep -q '^<!-- measured' "$page" 2>/dev/null; then
    echo "--write $page: the page has no line that begins with <!-- measured" >&2
    exit 2
fi
case "$part" in
    decide) limit=${limit:-300} ;;
    rest) limit=${limit:-540} ;;
    all) limit=${limit:-840} ;;
    *) echo "--part $part: decide, rest or all" >&2; exit 2 ;;
esac

case "$backend" in
    cuda) precisions=(fp16 tf32 fp32) packed=("fp32,packed=false") sessions=(1 2 4) sizes=1,8,64,256,512,1024 threads=(1 2 4) batches=(64 256 1024) games=512 visits=100
        forms=(captured fused plain) checked_forms=(graph=captured graph=fused graph=plain) raw_sizes=1,8,16,32,64,256,1024 raw_threads=1,2 movetimes=(100 300 1000) ;;
    tensorrt) precisions=(fp16 tf32) packed=() sessions=(1 2 4) sizes=1,8,64,256 threads=(1 2 4) batches=(64 256) games=512 visits=100
        forms=("") checked_forms=("") raw_sizes=1,16,64,256 raw_threads=1,2 movetimes=(100 300 1000) ;;
    # A processor: fewer and smaller measurements of the same kind.
    *) precisions=(fp32) packed=() sessions=() sizes=1,16 threads=(1 2) batches=(1 16) games=2 visits=5
        forms=(plain fused) checked_forms=(graph=plain graph=fused) raw_sizes=1,16 raw_threads=1 movetimes=(100) ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: > "$work/raw"

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


# BackendOptions with this form of the graph, if any.
with_form() { echo "${1:+graph=$1}"; }

# The rows of a network's raw speed in one form of the graph, which are also kept for the comparison with lc0:
# raw NETWORK FORM.
raw() {
    local network=$1 form=$2 label
    label="| $(name "$network") | ${form:--}"
    bench threads,batch,evals_per_second,ms_per_batch "$label" "$network" "$(with_form "$form")" --sizes "$raw_sizes" \
        --bench-threads "$raw_threads" > "$work/rows"
    tee -a "$work/raw" < "$work/rows"
}

# Positions of games, from which trees grow more slowly than from the start position.
middlegames=(
    "r2q1rk1/1bpn1pb1/pp1p2pp/3Pp3/2P1P1n1/2N2N2/PPQ1BPPP/2BR1RK1 b - - 0 13"
    "4r2k/1p3pp1/p1pPbq1p/8/1P2Bn2/P6P/2Q2PP1/2B1R1K1 b - - 0 25"
    "2r3k1/1p1P1pp1/1P5p/P7/1qn1Q3/6P1/1b3NKP/1R6 b - - 0 45"
    "r2q1rk1/1bpnbppp/pp3n2/3p4/3P4/1PNBPN2/PB3PPP/R2Q1RK1 w - - 0 11"
    "3k4/3n4/1p4p1/3q1pP1/1n1N1P2/1P4Pp/4Q2K/6B1 w - - 5 45"
    "r1q2rk1/1p2bpp1/pBbppn1p/P7/2B1P3/2N5/1PP1QPPP/3R1RK1 w - - 0 15"
    "r1b1k2r/1pp1nppp/p1n5/b2Np3/2P5/BP2PNP1/P4PBP/2KR3R b - - 6 13"
    "r1bqk2r/ppp1bppp/3p1nn1/8/3NPP2/2N5/PPP1B1PP/R1BQK2R w KQkq - 3 9"
)
# Milliseconds of a search from each of them: a move of a game with 6 s and 0.06 s a move.
middlegame_time=140

# A conversation with a UCI engine: nodes_reached COMMAND... prints the nodes of each search in the array `searches`
# ("MS POSITION"), from a fresh tree, after the network has been loaded and has run once; "-" from where the engine
# reports an error or does not answer.
nodes_reached() {
    local line search nodes works=
    coproc ENGINE { timeout --kill-after 5 "$(left)" "$@" 2>/dev/null; }
    local reads=${ENGINE[0]} writes=${ENGINE[1]} process=$ENGINE_PID
    printf 'uci\nsetoption name MoveOverheadMs value 0\nisready\nposition startpos\ngo nodes 100\n' >&"$writes"
    while IFS= read -r -t "$(left)" line <&"$reads"; do
        [[ $line != "info string error"* ]] || break
        [[ $line != bestmove* ]] || { works=1; break; }
    done
    for search in "${searches[@]}"; do
        [ -n "$works" ] || { echo -; continue; }
        printf 'ucinewgame\nposition %s\nisready\n' "${search#* }" >&"$writes"
        while IFS= read -r -t "$(left)" line <&"$reads"; do [[ $line != readyok* ]] || break; done
        printf 'go movetime %s\n' "${search%% *}" >&"$writes"
        nodes= works=
        while IFS= read -r -t "$(left)" line <&"$reads"; do
            [[ ! $line =~ ^info\ .*\ nodes\ ([0-9]+) ]] || nodes=${BASH_REMATCH[1]}
            [[ $line != bestmove* ]] || { works=$nodes; break; }
        done
        echo "${works:--}"
    done
    printf 'quit\n' >&"$writes"
    exec {writes}>&-
    wait "$process"
} 2>/dev/null

# One number divided by another, for a table.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a + 0 > 0 && b + 0 > 0) printf "%.2f", a / b; else print "-" }'; }

# Scorn's and lc0's commands for a network, in the array `command`.
scorn_command() { command=("$engine" --onnxruntime-path "$runtime" --weights "$1" --backend "$backend"); }
lc0_command() { command=("$lc0" --weights="$1" --backend="$lc0_backend"); }

# The networks that lc0 can read.
lc0_networks() { printf '%s\n' "${networks[@]}" | grep '\.pb\(\.gz\)\?$'; }

# lc0's evaluations per second: lc0_raw NETWORK THREADS BATCH. Small batches are many, because the first ones are slow.
lc0_raw() {
    local batches=$((20000 / $3))
    batches=$((batches < 50 ? 50 : batches > 1000 ? 1000 : batches))
    timeout --kill-after 5 "$(left)" "$lc0" backendbench --weights="$1" --backend="$lc0_backend" --threads="$2" \
        --start-batch-size="$3" --max-batch-size="$3" --batches="$batches" 2>/dev/null </dev/null |
        awk -F, '$1 + 0 > 0 { found = $2 + 0 } END { print found ? found : "-" }'
}

# The fastest of Scorn's forms in the rows of `raw`: best_raw NAME THREADS BATCH.
best_raw() {
    awk -F' *[|] *' -v name="$1" -v threads="$2" -v batch="$3" '
        $2 == name && $4 == threads && $5 == batch && $6 + 0 > best { best = $6 + 0 }
        END { print best ? best : "-" }' "$work/raw"
}

# Nodes per second of the command `benchmark` that both programs have: benchmark_nps COMMAND...
benchmark_nps() {
    timeout --kill-after 5 "$(left)" "$@" 2>/dev/null </dev/null | awk -F: '/^Nodes\/second/ { n = $2 + 0 } END { print n ? n : "-" }'
}

loading() {
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
}

# parity TITLE NODES SETTINGS...: each network with each of these BackendOptions, in a search of NODES nodes.
parity() {
    local title=$1 count=$2 checked
    shift 2
    checked=("$@")
    if begin "$title"; then
        echo "\`Backend check\`, a search of $count nodes each, all values and probabilities within the tolerance."
        echo
        echo "| network | settings | tolerance | result |"
        echo "|---|---|---|---|"
        for network in "${networks[@]}"; do
            for precision in "${checked[@]}"; do
                is_time || break
                case "$backend $precision" in onnx-cpu* | *fp32*) tolerance=0.002 ;; *) tolerance=0.03 ;; esac
                case "$backend" in
                    onnx-cpu) groups="onnx-cpu($precision),rten(),tolerance=$tolerance" ;;
                    *) groups="$backend($precision),onnx-cpu(),tolerance=$tolerance" ;;
                esac
                search_with check "$network" "$count" --backend-opts "$groups"
                result=$(error_or ok)
                echo "| $(name "$network") | ${precision:-defaults} | $tolerance | ${result//|/\\|} |"
                has_worked || fail "$(name "$network") with $precision"
            done
        done
    fi
    tell_end
}

raw_speed() {
    if begin "Raw speed"; then
        echo "\`scorn backendbench\` by form of the graph (BackendOptions \`graph\`), threads and batch."
        echo
        echo "| network | graph | threads | batch | evals/s | ms/batch |"
        echo "|---|---|---|---|---|---|"
        for network in "${networks[@]}"; do
            for form in "${forms[@]}"; do
                raw "$network" "$form"
            done
        done
    fi
    tell_end
}

short_searches() {
    if begin "Nodes reached"; then
        echo "\`go movetime\` from the start position and, the mean, from ${#middlegames[@]} middlegames; fresh trees, move"
        echo "overhead 0, the engine's own choice of batches and threads."
        echo
        echo "| network | engine |$(printf ' %s ms |' "${movetimes[@]}") middlegames, $middlegame_time ms |"
        echo "|---|---|$(printf -- '---|%.0s' "${movetimes[@]}")---|"
        for network in "${networks[@]}"; do
            is_time || break
            scorn_command "$network"
            nodes_row "$network" Scorn
            case "$lc0:$network" in
                :*) ;;
                *.pb | *.pb.gz) lc0_command "$network"; nodes_row "$network" lc0 ;;
            esac
        done
    fi
    tell_end
}

# A row with the nodes that `command` reaches in short times: nodes_row NETWORK NAME.
nodes_row() {
    local row searches counts place what columns=("${movetimes[@]/%/ ms}" "$middlegame_time ms of middlegames")
    searches=("${movetimes[@]/%/ startpos}" "${middlegames[@]/#/$middlegame_time fen }")
    mapfile -t counts < <(nodes_reached "${command[@]}" | awk -v alone="${#movetimes[@]}" '
        NR <= alone { print; next }
        $1 == "-" { fails = 1 }
        { sum += $1 }
        END { if (NR > alone && !fails) printf "%d\n", sum / (NR - alone); else print "-" }')
    row="| $(name "$1") | $2 |"
    for place in "${!columns[@]}"; do
        what=${columns[place]}
        row+=" ${counts[place]:=-} |"
        [ "${counts[place]}" != - ] || fail "$2 reaches no nodes in $what with $(name "$1")"
    done
    echo "$row"
}

beside_lc0() {
    local network count batch theirs ours
    if begin "Beside lc0"; then
        echo "$("$lc0" --version 2>/dev/null | grep -i lc0 | tail -1), backend \`$lc0_backend\`; Scorn: the fastest form of the graph."
        echo
        echo "| network | measurement | lc0 | Scorn | Scorn / lc0 |"
        echo "|---|---|---|---|---|"
        while IFS= read -r network; do
            for count in ${raw_threads//,/ }; do
                for batch in ${raw_sizes//,/ }; do
                    is_time || break 3
                    theirs=$(lc0_raw "$network" "$count" "$batch")
                    ours=$(best_raw "$(name "$network")" "$count" "$batch")
                    lc0_row "$network" "evals/s, batch $batch, $count thread(s)" "$theirs" "$ours"
                done
            done
            is_time || break
            lc0_command "$network"
            theirs=$(benchmark_nps "$lc0" benchmark "${command[@]:1}" --movetime="$time" --num-positions=10)
            scorn_command "$network"
            ours=$(benchmark_nps "${command[@]}" benchmark --movetime "$time" --num-positions 10)
            lc0_row "$network" "nodes/s, benchmark" "$theirs" "$ours"
        done < <(lc0_networks)
    fi
    tell_end
}

# lc0_row NETWORK MEASUREMENT LC0 SCORN
lc0_row() {
    echo "| $(name "$1") | $2 | $3 | $4 | $(ratio "$4" "$3") |"
    [ "$3" != - ] || fail "lc0 measures nothing: $2 of $(name "$1")"
}

by_precision() {
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
}

by_sessions() {
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
}

searches() {
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
}

wrong_settings() {
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
}

selfplay() {
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
}

training() {
    if [ -n "$train" ]; then
        if begin "Training"; then
            said=$(timeout --kill-after 5 "$(left)" bash -c "$train" 2>&1)
            code=$?
            echo "\`$train\`: $(tail -1 <<< "$said")"
            [ "$code" -eq 0 ] || fail "training ends with exit code $code"
        fi
        tell_end
    fi
}

introduction() {
    memory=
    echo "## $backend ($(date -u +%Y-%m-%d))"
    echo
    echo "$(nproc) processors, $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $("$engine" --version)."
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
    echo
    echo '```'
    scorn --weights "${networks[0]}" runtime
    echo '```'
}

report() {
    introduction
    if [ "$part" != rest ]; then
        loading
        parity "Against the processor" 300 "${checked_forms[@]}"
        raw_speed
        short_searches
        [ -z "$lc0" ] || beside_lc0
        selfplay
    fi
    if [ "$part" != decide ]; then
        [ "$backend" = onnx-cpu ] || parity "Precisions against the processor" 2000 "${precisions[@]/#/precision=}" "${packed[@]/#/precision=}"
        by_precision
        by_sessions
        searches
        wrong_settings
        training
    fi
    tell_problems
    echo
    echo "$SECONDS seconds, $failures failures$([ "$cut" -eq 0 ] || echo ", $cut sections cut short")."
    echo "$failures" > "$work/failures"
}

report | tee "$work/report"
if [ -n "$page" ]; then
    awk -v report="$work/report" '
        /^<!-- measured/ { print; while ((getline line < report) > 0) print line; skips = 1; next }
        /^<!-- end of measured/ { skips = 0 }
        !skips { print }' "$page" > "$work/page" && cat "$work/page" > "$page"
fi
[ "$(cat "$work/failures" 2>/dev/null)" = 0 ]
