"""Probes of what saves and loads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import train
from mpiparallel.errors import CheckpointError
from tests.conformance.probes.argument_probe import Beside, Noted, Probe, Refused, seen
from tests.conformance.probes.training_probes import data, model, network

SAVED = {"a.w": np.arange(4, dtype=np.float32), "b.w": np.ones(2, np.float32)}
UNPROTECTED: Mapping[str, Any] = {"enc_key": Refused(b"key", "not encrypted"), "enc_mode": Noted("AES-CBC")}


def loaded_into(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a layer holds after a load of halves, or why it is refused."""

    def call(**options: Any) -> Any:
        layer = network()
        with tempfile.TemporaryDirectory() as folder:
            ms.save_checkpoint({"weight": np.ones((1, 4), np.float16)}, f"{folder}/a.ckpt")
            try:
                load(f"{folder}/a.ckpt", layer, **options)
            except CheckpointError as error:
                return str(error)
        return seen(layer)

    return call


def saved(**options: Any) -> Any:
    """Return what lies in a folder after a save, and what is loaded from it."""
    with tempfile.TemporaryDirectory() as folder:
        writing = ms.save_checkpoint(SAVED, f"{folder}/a", **options)
        if writing is not None:
            writing.wait()
        return [(path.name, seen(ms.load_checkpoint(path))) for path in sorted(Path(folder).iterdir())], writing is None


def loaded(**options: Any) -> Any:
    """Return what is loaded from a file."""
    if options.pop("net", None) == "halves":
        return loaded_into(ms.load_checkpoint)(**options)
    with tempfile.TemporaryDirectory() as folder:
        ms.save_checkpoint(SAVED, f"{folder}/a.ckpt")
        return seen(ms.load_checkpoint(f"{folder}/a.ckpt", **options))


def distributed(**options: Any) -> Any:
    """Return what a network takes from the file of one rank."""
    with tempfile.TemporaryDirectory() as folder:
        layer = network()
        ms.save_checkpoint({"weight": np.ones((1, 4), np.float16)}, f"{folder}/a.ckpt")
        try:
            ms.load_distributed_checkpoint(layer, [f"{folder}/a.ckpt"], **options)
        except CheckpointError as error:
            return str(error)
        return seen(layer)


def configured(**options: Any) -> Any:
    """Return what a configuration of checkpoints says."""
    return vars(train.CheckpointConfig(**options))


def saving(**options: Any) -> Any:
    """Return what a training of three steps leaves in folders of checkpoints."""
    with tempfile.TemporaryDirectory() as folder:
        given = {"prefix": "CKP", "directory": "here"} | options
        given["directory"] = f"{folder}/{given['directory']}"
        model().train(1, data(), train.ModelCheckpoint(**given), dataset_sink_mode=False)
        return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


CHECKPOINTS: dict[str, Probe] = {
    "save_checkpoint": Probe(
        saved,
        {
            "async_save": True,
            "append_dict": {"epoch": 3},
            "choice_func": lambda name: name == "a.w",
            "crc_check": Noted(True),
            "format": "safetensors",
            **UNPROTECTED,
        },
    ),
    "load_checkpoint": Probe(
        loaded,
        {
            "strict_load": Beside(True, {"net": "halves"}),
            "filter_prefix": "a",
            "specify_prefix": "a",
            "choice_func": lambda name: name == "a.w",
            "crc_check": Noted(True),
            "format": Refused("h5", "HDF5|h5|shard"),
            "dec_key": Refused(b"key", "not encrypted"),
            "dec_mode": Noted("AES-CBC"),
        },
    ),
    "load_distributed_checkpoint": Probe(
        distributed, {"strict_load": True, "dec_key": Refused(b"key", "not encrypted"), "dec_mode": Noted("AES-CBC")}
    ),
    "load_param_into_net": Probe(
        loaded_into(lambda path, layer, **options: ms.load_param_into_net(layer, ms.load_checkpoint(path), **options)),
        {"strict_load": True},
    ),
    "train.CheckpointConfig": Probe(
        configured,
        {
            "save_checkpoint_steps": Refused(-1),
            "save_checkpoint_seconds": Refused(-1),
            "keep_checkpoint_max": Refused(-1),
            "keep_checkpoint_per_n_minutes": Refused(-1),
            "async_save": Refused("process"),
            "append_info": Refused(["step"]),
            "exception_save": Refused(True),
            "crc_check": Noted(True),
            "format": Refused("npz"),
            **UNPROTECTED,
        },
    ),
    "train.ModelCheckpoint": Probe(
        saving, {"prefix": "net", "directory": "there", "config": train.CheckpointConfig(keep_checkpoint_max=1)}
    ),
}
