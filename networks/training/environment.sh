# shellcheck shell=bash
# What smoke.sh and loop-smoke.sh run with; they source it. Sets `here`, `root`, `scorn` and PYTHONPATH, and `python` by
# `find_python`, from the variables SCORN and PYTHON that their usage describes.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
export PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH}

scorn=${SCORN:-}
for candidate in "$target/release/scorn" "$target/debug/scorn"; do
    if [ -z "$scorn" ] && [ -x "$candidate" ]; then scorn=$candidate; fi
done
if [ -z "$scorn" ]; then scorn=$(command -v scorn || true); fi
if [ -z "$scorn" ]; then
    cargo build --manifest-path "$root/Cargo.toml"
    scorn=$target/debug/scorn
fi

# find_python MODULES PACKAGE...: a Python with these modules, or a virtual environment with these packages.
find_python() {
    python=${PYTHON:-python3}
    if "$python" -c "import $1" 2>/dev/null; then return; fi
    local venv=$target/training-venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet "${@:2}"
    python=$venv/bin/python
}
