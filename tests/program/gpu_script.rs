//! `benches/gpu.sh` with shell scripts as the engine and `nvidia-smi`: its results for their output. It rarely runs
//! on a GPU, and then its failure counts must be right.
#![cfg(target_os = "linux")]

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::common::script::write_script;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/gpu.sh");

/// An engine whose searches of one node take 900 MiB of the GPU's memory until that was measured. `FAULT` selects an
/// error.
const ENGINE: &str = r#"#!/bin/sh
here=$(dirname "$0")
case "$*" in
    --version) echo "engine 1"; exit ;;
    *backendbench*)
        if [ "$FAULT" = bench ]; then echo "the kernel is missing" >&2; exit 1; fi
        echo '{"batch":8,"evals_per_second":1234.5,"ms_per_batch":6.5,"threads":2}'
        case "$*" in
            *graph=captured*) echo '{"batch":16,"evals_per_second":2469,"ms_per_batch":6.5,"threads":2}' ;;
            *graph=*) echo '{"batch":16,"evals_per_second":1000,"ms_per_batch":16,"threads":2}' ;;
        esac
        exit ;;
    *selfplay*--help*) exit ;;
    *selfplay*) echo "2 games"; if [ "$FAULT" = selfplay ]; then exit 3; fi; exit ;;
    *runtime) echo "cuda works"; exit ;;
    *benchmark*) echo "Nodes/second    : 2000"; exit ;;
    *gpu=99*) error="there is no such GPU" ;;
    *int4*) error="no such precision" ;;
    *sessions=9*) error="too many sessions" ;;
    *multiplexing*) if [ "$FAULT" = memory ]; then error="out of memory"; fi ;;
esac
if [ "$FAULT" = search ]; then error="cuda does not work"; fi
# A conversation, as the searches of short times have it.
case "$*" in
    *--backend-opts* | *" --minibatch-size"*) ;;
    *)
        IFS= read -r first
        if [ "$first" = uci ]; then
            while IFS= read -r line; do
                case "$line" in
                    isready) echo readyok ;;
                    "go movetime"*) echo "info depth 3 nodes 700 nps 7000"; echo "bestmove e2e4" ;;
                    go*) [ -z "$error" ] || echo "info string error: $error"; echo "bestmove e2e4" ;;
                    quit) exit ;;
                esac
            done
        fi ;;
esac
if [ -n "$error" ]; then
    echo "info string error: $error"
else
    if grep -q '^go nodes 1$'; then
        rm -f "$here/seen"
        echo 900 > "$here/used"
        for _ in 1 2 3 4 5 6 7 8 9; do [ -e "$here/seen" ] || sleep 0.2; done
        echo 100 > "$here/used"
    fi
    echo "info string cuda (GPU 0)"
    echo "info depth 1 nodes 9 nps 4321"
fi
echo "bestmove e2e4"
"#;

/// lc0, with the output of version 0.32: a header before the rows of `backendbench`, the sum at the end of `benchmark`.
const LC0: &str = r#"#!/bin/sh
case "$*" in
    --version) echo "Lc0 v0.32.1 built Nov 20 2026"; exit ;;
    backendbench*--threads=2*--start-batch-size=64*) exit 1 ;;
    backendbench*)
        echo "size, mean nps, mean ms,   sdev,     cv, max nps,  median, min nps, first max, first mean"
        echo "  64,     4938,    1.25, 0.0100, 0.0080,   52000,   51200,   50000,    1.3000,     1.2800"
        exit ;;
    benchmark*)
        echo "Position: 1/10 rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
        echo "Benchmark time 500 ms, 4000 nodes, 8000 nps, move e2e4"
        echo "bestmove e2e4"
        echo
        echo "==========================="
        echo "Total time (ms) : 5000"
        echo "Nodes searched  : 40000"
        echo "Nodes/second    : 8000"
        exit ;;
esac
while IFS= read -r line; do
    case "$line" in
        isready) echo readyok ;;
        "go movetime"*)
            echo "info depth 2 seldepth 4 time 12 nodes 90 score cp 20 nps 7500 tbhits 0 pv e2e4 e7e5"
            echo "info depth 5 seldepth 12 time 99 nodes 1400 score cp 21 nps 14000 tbhits 0 pv e2e4 e7e5"
            echo "bestmove e2e4 ponder e7e5" ;;
        go*) echo "bestmove e2e4 ponder e7e5" ;;
        quit) exit ;;
    esac
done
"#;

const NVIDIA_SMI: &str = r#"#!/bin/sh
case "$*" in
    *memory.used*)
        here=$(dirname "$0")
        used=$(cat "$here/used" 2>/dev/null)
        echo "${used:-100}"
        if [ "$used" = 900 ]; then touch "$here/seen"; fi ;;
    *) echo "a GPU, 1.0, 1000 MiB" ;;
esac
"#;

fn text_of(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Runs the script with an engine that has this fault; its output and the page that it may write.
fn report(fault: &str, arguments: &[&str]) -> (Output, String) {
    let (output, said, _) = report_and_page(fault, arguments);
    (output, said)
}

fn report_and_page(fault: &str, arguments: &[&str]) -> (Output, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_script(&at("engine"), ENGINE);
    write_script(&at("nvidia-smi"), NVIDIA_SMI);
    write_script(&at("lc0"), LC0);
    for (name, bytes) in [("small.onnx", 10), ("large.onnx", 1000), ("maia.pb.gz", 10)] {
        std::fs::write(at(name), vec![b'x'; bytes]).unwrap();
    }
    let page = concat!(
        "before\n<!-- measured: by a script -->\nold\n",
        "<!-- end of measured -->\nafter\n"
    );
    std::fs::write(at("page.md"), page).unwrap();
    let arguments = arguments.iter().map(|argument| match *argument {
        "LC0" => text_of(&at("lc0")),
        "PAGE" => text_of(&at("page.md")),
        "MAIA" => text_of(&at("maia.pb.gz")),
        other => other.to_owned(),
    });
    let path = std::env::var("PATH").unwrap();
    let text = text_of;
    let output = Command::new("bash")
        .arg(SCRIPT)
        .args(["--engine", &text(&at("engine"))])
        .args(["--runtime", &text(folder.path())])
        .args(arguments)
        .args([text(&at("large.onnx")), text(&at("small.onnx"))])
        .env("FAULT", fault)
        .env("PATH", format!("{}:{path}", text(folder.path())))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let page = std::fs::read_to_string(at("page.md")).unwrap();
    (output, said, page)
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn working_configurations_are_measured_with_their_memory() {
    let (output, said) = report("none", &["--train", "echo learning; echo step 20"]);
    assert!(output.status.success(), "{said}");
    assert_says(
        &said,
        &[
            // The engine has exited and freed its memory when the row is written.
            "| 900 MiB | cuda (GPU 0) |",
            "| small.onnx, fp16 | 8 | 1234 | 6.50 |",
            "| small.onnx | 2 | 1234 | 6.50 | 100 MiB |",
            "| small.onnx | 4 | 1024 | 4321 |",
            "* `BackendOptions gpu=99`: there is no such GPU",
            "* Out of memory (large.onnx, `backend=cuda,",
            "not provoked",
            ": step 20",
            "0 failures.",
        ],
    );
    assert!(
        !said.contains("FAILED") && !said.contains("LEFT OUT"),
        "{said}"
    );
}

#[test]
fn a_search_with_the_network_that_stands_in_is_a_failure() {
    let (output, said) = report("search", &[]);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_says(
        &said,
        &[
            "* **FAILED**: small.onnx does not load",
            "* **FAILED**: small.onnx with precision=tf32",
            "* **FAILED**: Scorn reaches no nodes in 300 ms with small.onnx",
            "* **FAILED**: Scorn reaches no nodes in 140 ms of middlegames with small.onnx",
            "| small.onnx | 4 | 1024 | - |",
            "* **FAILED**: search of small.onnx | 4 | 1024: cuda does not work",
        ],
    );
}

#[test]
fn commands_that_fail_are_counted_and_reported() {
    for (fault, reported) in [
        (
            "bench",
            "* **FAILED**: backendbench of small.onnx, fp16: the kernel is missing (exit code 1)",
        ),
        ("selfplay", "* **FAILED**: self-play ends with exit code 3"),
        ("none", "* **FAILED**: training ends with exit code 7"),
    ] {
        let (output, said) = report(fault, &["--train", "exit 7"]);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_says(&said, &[reported]);
    }
}

#[test]
fn want_of_memory_is_shown_when_it_comes() {
    let (output, said) = report("memory", &[]);
    assert!(output.status.success(), "{said}");
    assert_says(&said, &["100 MiB): out of memory"]);
}

#[test]
fn steps_without_time_are_skipped_and_reported() {
    let (output, said) = report("search", &["--limit", "0", "--train", "exit 7"]);
    assert!(output.status.success(), "{said}");
    assert_says(
        &said,
        &["### Training", "0 failures, 11 sections cut short."],
    );
    assert_eq!(said.matches("**LEFT OUT**").count(), 11, "{said}");
}

#[test]
fn lc0_is_measured_in_the_same_run_and_the_report_goes_into_the_page() {
    let arguments = [
        "--part", "decide", "--lc0", "LC0", "--write", "PAGE", "MAIA",
    ];
    let (output, said, page) = report_and_page("none", &arguments);
    // One measurement of lc0 fails, and only that.
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_says(
        &said,
        &[
            "| maia.pb.gz | captured | 2 | 8 | 1234 | 6.50 |",
            "| maia.pb.gz | graph=fused | 0.03 | ok |",
            "| maia.pb.gz | Scorn | 700 | 700 | 700 | 700 |",
            "| maia.pb.gz | lc0 | 1400 | 1400 | 1400 | 1400 |",
            "Lc0 v0.32.1 built Nov 20 2026, backend `cuda-fp16`",
            // Scorn has no row of that batch, as its fake knows one only.
            "| maia.pb.gz | evals/s, batch 64, 1 thread(s) | 4938 | - | - |",
            // The fastest form.
            "| maia.pb.gz | evals/s, batch 16, 2 thread(s) | 4938 | 2469 | 0.50 |",
            "| maia.pb.gz | nodes/s, benchmark | 8000 | 2000 | 0.25 |",
            "* **FAILED**: lc0 measures nothing: evals/s, batch 64, 2 thread(s) of maia.pb.gz",
            "1 failures.",
        ],
    );
    // lc0 reads only networks of its own, and the rest is another part.
    for absent in ["small.onnx | lc0", "small.onnx | evals/s", "### Sessions"] {
        assert!(!said.contains(absent), "{absent}: {said}");
    }
    let (before, rest) = page.split_once("<!-- measured: by a script -->\n").unwrap();
    let (report, after) = rest.split_once("<!-- end of measured -->\n").unwrap();
    assert_eq!((before, after), ("before\n", "after\n"));
    assert_eq!(report, said);
}

#[test]
fn parts_that_do_not_exist_are_refused() {
    let (output, said) = report("none", &["--part", "nothing"]);
    assert_eq!(output.status.code(), Some(2), "{said}");
}
