#!/bin/sh
# Runs the tests in which threads meet under ThreadSanitizer, which reports data races.
#
#     rustup toolchain install nightly --component rust-src
#     tests/thread_sanitizer.sh
#
# The standard library is built with the sanitizer as well (-Z build-std), or its own synchronisation would look like
# races. Code of other languages (zstd, lz4) is not seen. Exit code 66: a race was found. Some twenty minutes of one
# core, and 4 GB in target/thread-sanitizer.
set -eu
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Z sanitizer=thread" CARGO_TARGET_DIR=target/thread-sanitizer
export TSAN_OPTIONS="history_size=7 ${TSAN_OPTIONS:-}"
run() {
    cargo +nightly test -Z build-std --target "$host" "$@"
}
run --lib -- --test-threads 1 search::driver search::faults engine:: uci::output uci::write_queue network::load \
    network::backend::simulated network::compose selfplay::driver
run --test library -- --test-threads 1 tree_search search_contempt:: sessions
