"""Parameters of bfloat16 in files of every format: to the bit, or rounded to the type of the network that loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint

FORMATS = ["h5", "ckpt", "safetensors", "npz"]
MOVES = [(ms.bfloat16, ms.bfloat16), (ms.float32, ms.bfloat16), (ms.bfloat16, ms.float32), (ms.float16, ms.bfloat16)]


def layer(dtype: Any, seed: int) -> nn.Dense:
    ms.set_seed(seed)
    return nn.Dense(300, 7, weight_init="normal", dtype=dtype)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(("saved", "loaded"), MOVES, ids=str)
def test_a_parameter_is_rounded_once_to_the_type_of_the_network_that_loads_it(
    suffix: str, saved: Any, loaded: Any, tmp_path: Path
) -> None:
    source, target = layer(saved, 1), layer(loaded, 2)
    save_checkpoint(source, tmp_path / f"net.{suffix}")
    found = load_checkpoint(tmp_path / f"net.{suffix}")
    assert np.dtype(found["weight"].dtype) == np.dtype(saved)
    assert load_param_into_net(target, found) == ([], [])
    exact = source.weight.asnumpy()
    assert len(np.unique(exact.astype(np.float64))) > 500
    weight = target.weight.asnumpy()
    assert weight.dtype == np.dtype(loaded)
    assert weight.tobytes() == exact.astype(np.float32).astype(np.dtype(loaded)).tobytes()
