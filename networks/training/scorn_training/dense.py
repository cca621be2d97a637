"""Checkpoints of dense networks: files of PyTorch, whose contents are verified."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import torch

from .files import write_whole
from .model import Config, Network
from .runs import NO_PROGRESS, Progress

# What a checkpoint consists of.
PARTS = {"config", "network", "average", "optimizers", *NO_PROGRESS}


def load(path: Path, device: str = "cpu") -> dict:
    """The contents of a checkpoint. Raises ValueError if it is damaged, or is none."""
    # PyTorch writes a checksum of each part and does not look at it when it reads them.
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is not a checkpoint of scorn_training.train, or is damaged: {error}") from error
    if damaged:
        raise ValueError(f"{path} is damaged: the checksum of {damaged} does not match")
    try:
        state = torch.load(path, weights_only=True, map_location=device)
    except (RuntimeError, LookupError, TypeError, AttributeError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} is not a checkpoint of scorn_training.train, or is damaged: {reason}") from error
    if not isinstance(state, dict) or not PARTS <= state.keys():
        raise ValueError(f"{path} is not a checkpoint of scorn_training.train")
    return state


def save(state: dict, path: Path) -> None:
    """Writes a checkpoint; if that fails, an existing file stays unchanged."""
    # Not into the file itself: PyTorch does not say that a disk is full.
    packed = io.BytesIO()
    torch.save(state, packed)
    write_whole(path, lambda partial: partial.write_bytes(packed.getbuffer()))


def progress_of(state: dict) -> Progress:
    """The progress of a checkpoint, by the names of sparse networks' checkpoints."""
    return {name: state[name] for name in NO_PROGRESS}


def load_network(path: Path, average: bool = True) -> tuple[Network, dict]:
    """The network of a checkpoint, with averaged or with the last weights, and the checkpoint."""
    state = load(path)
    network = Network(Config(**state["config"]))
    network.load_state_dict(state["average" if average else "network"])
    return network.eval(), state
