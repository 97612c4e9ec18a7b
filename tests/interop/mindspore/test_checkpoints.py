"""``.ckpt`` and safetensors: MindSpore and safetensors read what is written here, and the other way round."""

from __future__ import annotations

import numpy as np
import pytest

mindspore = pytest.importorskip("mindspore", reason="make test-interop-mindspore installs MindSpore")
safetensors = pytest.importorskip("safetensors.numpy", reason="make test-interop-mindspore installs safetensors")

from mpiparallel.backend.tensor_spec import TensorSpec  # noqa: E402
from mpiparallel.checkpoint.files.array_file import infos_of, read_array  # noqa: E402
from mpiparallel.checkpoint.formats import mindspore_checkpoint  # noqa: E402
from mpiparallel.checkpoint.formats.mindspore_checkpoint import (  # noqa: E402
    open_mindspore_checkpoint,
    write_mindspore_checkpoint,
)
from mpiparallel.checkpoint.formats.registry import open_file, write_file  # noqa: E402
from mpiparallel.dtype import bfloat16  # noqa: E402
from tests.reliability.counts import share  # noqa: E402

pytestmark = pytest.mark.mindspore

REAL = ["?", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8"]
STATE = {f"net.{dtype}": np.arange(24).reshape(2, 3, 4).astype(dtype) for dtype in REAL}
STATE |= {"scalar": np.array(0.5, np.float32), "one": np.arange(1), "none": np.empty((0, 3), np.float32)}


def theirs(path, **options):
    """Return what MindSpore reads, tensors as arrays."""
    loaded = mindspore.load_checkpoint(str(path), **options)
    return {name: value if isinstance(value, str) else value.asnumpy() for name, value in loaded.items()}


def ours(file):
    with file:
        return {name: read_array(file, name) for name in file.arrays} | dict(file.attributes)


def tensors(state):
    return [{"name": name, "data": mindspore.Tensor(array)} for name, array in state.items()]


def assert_equal(found, expected):
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("crc_check", [False, True])
def test_mindspore_reads_what_is_written_here(crc, crc_check, tmp_path):
    path = tmp_path / "one.ckpt"
    attributes = {"epoch_num": 3, "rate": 0.1, "done": True, "note": "né"}
    owner = {"rank": 1, "ranks": 4}
    write_mindspore_checkpoint(path, infos_of(STATE), STATE.items(), attributes | owner, crc=crc)
    assert_equal(theirs(path, crc_check=crc_check), STATE | attributes)


def test_mindspore_finds_damage_by_the_crc32_written_here(tmp_path):
    path = tmp_path / "one.ckpt"
    write_mindspore_checkpoint(path, infos_of(STATE), STATE.items(), {})
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="Failed to read") as error:
        mindspore.load_checkpoint(str(path), crc_check=True)
    assert "crc check is failed" in str(error.value.__cause__)


def test_mindspore_puts_parts_written_here_together(tmp_path, monkeypatch):
    monkeypatch.setattr(mindspore_checkpoint, "_PART", 40)
    path = tmp_path / "one.ckpt"
    write_mindspore_checkpoint(path, infos_of(STATE), STATE.items(), {})
    assert_equal(theirs(path, crc_check=True), STATE)


@pytest.mark.parametrize("crc_check", [False, True])
def test_what_mindspore_saves_is_read_here(crc_check, tmp_path):
    path = tmp_path / "one.ckpt"
    state = {name: array for name, array in STATE.items() if array.size}
    appended = {"epoch_num": 3, "rate": 0.25, "done": True, "note": "né"}
    mindspore.save_checkpoint(tensors(state), str(path), append_dict=dict(appended), crc_check=crc_check)
    expected = {"epoch_num": np.array(3), "rate": np.array(0.25, np.float32), "done": np.array(True), "note": "né"}
    assert_equal(ours(open_mindspore_checkpoint(path)), state | expected)


def test_bfloat16_of_mindspore_has_the_same_values(tmp_path):
    path = tmp_path / "one.ckpt"
    tensor = mindspore.Tensor(np.linspace(-3, 3, 50, dtype=np.float32)).astype(mindspore.bfloat16)
    mindspore.save_checkpoint([{"name": "w", "data": tensor}], str(path))
    found = ours(open_mindspore_checkpoint(path))["w"]
    assert found.dtype.name == "bfloat16"
    assert_equal({"w": found.astype(np.float32)}, {"w": tensor.astype(mindspore.float32).asnumpy()})


def test_bfloat16_goes_to_mindspore_and_comes_back_to_the_bit(tmp_path):
    path, back = tmp_path / "ours.ckpt", tmp_path / "theirs.ckpt"
    every = np.arange(1 << 16, dtype=np.uint16)
    write_file(path, {"w": TensorSpec((256, 256), bfloat16)}, [("w", every.view(bfloat16).reshape(256, 256))], {})
    read = mindspore.load_checkpoint(str(path), crc_check=True)["w"]
    assert (read.dtype, read.shape) == (mindspore.bfloat16, (256, 256))
    # A bfloat16 is the first half of a float32.
    expected = (every.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(read.astype(mindspore.float32).asnumpy().ravel(), expected)
    mindspore.save_checkpoint([{"name": "w", "data": read}], str(back), crc_check=True)
    found = ours(open_file(back))["w"]
    assert (found.dtype, found.shape) == (np.dtype(bfloat16), (256, 256))
    np.testing.assert_array_equal(found.ravel().view(np.uint16), every)


@pytest.mark.skipif(not share(), reason="writes 2.4 GB; MPIPARALLEL_SOAK=1 asks for it")
def test_tensors_above_512_mib_go_both_ways(tmp_path):
    state = {"w": np.random.default_rng(0).integers(0, 255, (1_200_000, 1000), np.uint8), "v": np.arange(3)}
    mindspore.save_checkpoint(tensors(state), str(tmp_path / "theirs.ckpt"), crc_check=True)
    write_mindspore_checkpoint(tmp_path / "ours.ckpt", infos_of(state), state.items(), {})
    assert (tmp_path / "ours.ckpt").stat().st_size == (tmp_path / "theirs.ckpt").stat().st_size
    assert_equal(ours(open_mindspore_checkpoint(tmp_path / "theirs.ckpt")), state)
    assert_equal(theirs(tmp_path / "ours.ckpt", crc_check=True), state)


def test_safetensors_reads_what_is_written_here(tmp_path):
    path = tmp_path / "one.safetensors"
    state = STATE | {"complex": np.array([1 + 2j], np.complex64), "ö/ü": np.arange(3.0)}
    write_file(path, infos_of(state), state.items(), {"step": 7})
    assert_equal(safetensors.load_file(path), state)
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == {"step": "7"}


def test_what_safetensors_saves_is_read_here(tmp_path):
    path = tmp_path / "one.safetensors"
    safetensors.save_file(STATE, path, metadata={"format": "np"})
    assert_equal(ours(open_file(path)), STATE | {"format": "np"})


def test_mindspore_reads_safetensors_written_here(tmp_path):
    path = tmp_path / "one.safetensors"
    state = {name: array for name, array in STATE.items() if array.size}
    write_file(path, infos_of(state), state.items(), {"step": 7})
    assert_equal(theirs(path, format="safetensors"), state)


def test_safetensors_that_mindspore_saves_are_read_here(tmp_path):
    path = tmp_path / "one.safetensors"
    state = {name: array for name, array in STATE.items() if array.size}
    mindspore.save_checkpoint(tensors(state), str(path), format="safetensors")
    found = ours(open_file(path))
    assert_equal({name: found[name] for name in state}, state)
