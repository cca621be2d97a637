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
        echo '{"batch":8,"evals_per_second":1234.5,"ms_per_batch":6.5}'
        exit ;;
    *selfplay*--help*) exit ;;
    *selfplay*) echo "2 games"; if [ "$FAULT" = selfplay ]; then exit 3; fi; exit ;;
    *runtime) echo "cuda works"; exit ;;
    *gpu=99*) error="there is no such GPU" ;;
    *int4*) error="no such precision" ;;
    *sessions=9*) error="too many sessions" ;;
    *multiplexing*) if [ "$FAULT" = memory ]; then error="out of memory"; fi ;;
esac
if [ "$FAULT" = search ]; then error="cuda does not work"; fi
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

/// Runs the script with an engine that has this fault.
fn report(fault: &str, arguments: &[&str]) -> (Output, String) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_script(&at("engine"), ENGINE);
    write_script(&at("nvidia-smi"), NVIDIA_SMI);
    for (name, bytes) in [("small.onnx", 10), ("large.onnx", 1000)] {
        std::fs::write(at(name), vec![b'x'; bytes]).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
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
    (output, said)
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
            "* **FAILED**: small.onnx in tf32",
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
        &["### Training", "0 failures, 8 sections cut short."],
    );
    assert_eq!(said.matches("**LEFT OUT**").count(), 8, "{said}");
}
