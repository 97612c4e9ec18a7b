"""safetensors of bfloat16: PyTorch reads what is written here, and what it saves comes back to the bit."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="make test-interop installs PyTorch")
safetensors = pytest.importorskip("safetensors.torch", reason="make test-interop installs safetensors")

import mpiparallel as ms  # noqa: E402
from mpiparallel import nn  # noqa: E402
from mpiparallel.backend.tensor_spec import TensorSpec  # noqa: E402
from mpiparallel.checkpoint.files.array_file import read_array  # noqa: E402
from mpiparallel.checkpoint.formats.registry import open_file, write_file  # noqa: E402
from mpiparallel.dtype import bfloat16  # noqa: E402

pytestmark = pytest.mark.interop


def bits(tensor):
    return tensor.view(torch.int16).numpy().view(np.uint16)


def test_bfloat16_goes_to_pytorch_and_comes_back_to_the_bit(tmp_path) -> None:
    path, back = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    every = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    write_file(path, {"w": TensorSpec((256, 256), bfloat16)}, [("w", every.view(bfloat16))], {})
    read = safetensors.load_file(path)
    assert (read["w"].dtype, tuple(read["w"].shape)) == (torch.bfloat16, (256, 256))
    np.testing.assert_array_equal(bits(read["w"]), every)
    safetensors.save_file(read, back)
    with open_file(back) as file:
        found = read_array(file, "w")
    assert found.dtype == np.dtype(bfloat16)
    np.testing.assert_array_equal(found.view(np.uint16), every)


def test_numbers_are_those_that_pytorch_rounds_to(tmp_path) -> None:
    path = tmp_path / "ours.safetensors"
    exact = np.random.default_rng(0).standard_normal((50, 40)).astype(np.float32)
    write_file(path, {"w": TensorSpec((50, 40), bfloat16)}, [("w", exact.astype(bfloat16))], {})
    assert torch.equal(safetensors.load_file(path)["w"], torch.from_numpy(exact).to(torch.bfloat16))


def test_pytorch_loads_a_checkpoint_of_a_network_in_bfloat16_and_computes_the_same(tmp_path) -> None:
    path = tmp_path / "network.safetensors"
    network = nn.Dense(24, 5, dtype=ms.bfloat16)
    ms.save_checkpoint(network, str(path), format="safetensors")
    peer = torch.nn.Linear(24, 5, dtype=torch.bfloat16)
    peer.load_state_dict(safetensors.load_file(path))
    x = np.random.default_rng(1).standard_normal((7, 24)).astype(np.float32)
    ours = network(ms.Tensor(x.astype(bfloat16))).asnumpy().astype(np.float32)
    theirs = peer(torch.from_numpy(x).to(torch.bfloat16)).detach().float().numpy()
    np.testing.assert_allclose(ours, theirs, rtol=2.0**-6, atol=2.0**-6)
