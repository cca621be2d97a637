"""Training of Scorn's networks: labels and records, dense and sparse networks, and a loop that learns from itself.

Each module says in its first lines how it is called.
"""

import sys
from pathlib import Path
from types import TracebackType

# The extras of pyproject.toml with the packages that they bring; all others come without one.
EXTRAS = {
    "torch": "dense",
    "onnx": "dense",
    "onnxruntime": "dense",
    "scipy": "loop",
    "tensorboardX": "loop",
    "ray": "ray",
}


def report_missing_package(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An exception hook: says in a line which package is missing and how to install it, all else as usual."""
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith(__name__):
        package = error.name.partition(".")[0]
        extra = f"[{EXTRAS[package]}]" if package in EXTRAS else ""
        source = Path(__file__).resolve().parents[1]
        print(
            f"error: this Python ({sys.executable}) has no package {package}; install what is needed with: "
            f"{sys.executable} -m pip install '{source}{extra}'",
            file=sys.stderr,
        )
        return
    sys.__excepthook__(kind, error, trace)


# `python -m scorn_training.X` is starting: Python calls the program "-m" until it has found X.
if sys.argv[:1] == ["-m"]:
    sys.excepthook = report_missing_package
