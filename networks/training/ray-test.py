"""The loop on a Ray cluster of two nodes on this machine, one of which is killed in the middle of self-play.

    python networks/training/ray-test.py --scorn target/release/scorn [--games 60] [--nodes 200]

The records and the network must be those of the same loop without Ray, byte by byte, also when the loop itself is
killed and started again; it prints the times of self-play for a loop on two plain processes, on two nodes, and on two
nodes of which one is lost. Not part of .ci/run: it takes minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ray.cluster_utils import Cluster

HERE = Path(__file__).resolve().parent


def sums(folder: Path) -> dict[str, str]:
    """Checksums of the files that must be the same."""
    names = [path for path in folder.rglob("*") if path.suffix in (".vis", ".onnx") or path.name == "manifest.json"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in names}


def selfplay_seconds(folder: Path) -> float:
    lines = [json.loads(line) for line in (folder / "times.jsonl").read_text().splitlines()]
    return sum(line["seconds"] for line in lines if line["phase"] == "games")


def wait_for_games(folder: Path, process: subprocess.Popen, count: int) -> int:
    """Waits until `count` games have come back from the workers."""
    while True:
        there = len(list(folder.glob("gen-0001/games-*/unfinished/*.game")))
        if there >= count:
            return there
        assert process.poll() is None, "the loop ended too early"
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scorn", required=True)
    parser.add_argument("--games", default="60")
    parser.add_argument("--nodes", default="200")
    args = parser.parse_args()
    settings = ["--games", args.games, "--nodes", args.nodes, "--max-plies", "120", "--shards", "4"]
    settings += ["--shape", "64,64,8", "--gate-pairs", "2", "--gate-nodes", "20", "--generations", "1"]
    settings += ["--engine", "--temperature 1"]
    environment = os.environ | {"PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}

    def loop(folder: Path, *more: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "scorn_training.loop", str(folder), "--scorn", args.scorn, *settings, *more]
        return subprocess.Popen(command, env=environment)

    with tempfile.TemporaryDirectory() as work:
        plain, two, killed, lost = (Path(work) / name for name in ("plain", "two", "killed", "lost"))
        assert loop(plain).wait() == 0
        print(f"two plain processes: {selfplay_seconds(plain):.1f} s of self-play", flush=True)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        cluster.wait_for_nodes()
        assert loop(two, "--ray", cluster.address).wait() == 0
        print(f"two nodes of a Ray cluster: {selfplay_seconds(two):.1f} s of self-play", flush=True)
        assert sums(two) == sums(plain), "on two nodes the loop came out otherwise"
        process = loop(killed, "--ray", cluster.address)
        there = wait_for_games(killed, process, int(args.games) // 6)
        process.kill()
        process.wait()
        print(f"killed the loop itself after {there} games", flush=True)
        assert loop(killed, "--ray", cluster.address).wait() == 0
        assert sums(killed) == sums(plain), "after it was killed the loop came out otherwise"
        process = loop(lost, "--ray", cluster.address)
        there = wait_for_games(lost, process, int(args.games) // 6)
        cluster.remove_node(nodes[1], allow_graceful=False)
        print(f"killed a node after {there} games", flush=True)
        assert process.wait() == 0
        print(f"one of the two killed: {selfplay_seconds(lost):.1f} s of self-play", flush=True)
        assert sums(lost) == sums(plain), "after the loss the loop came out otherwise"
        print(f"the same {len(sums(plain))} files, byte by byte")
        cluster.shutdown()


if __name__ == "__main__":
    main()
