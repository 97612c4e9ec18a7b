"""Files damaged at random: read or refused, in bounded memory; ``.h5`` has tests of its own."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats.registry import open_file, write_file
from mpiparallel.errors import CheckpointError
from tests.conformance.mutated_bytes import mutations
from tests.reliability.counts import count, record

GENUINE = Path(__file__).parents[3] / "fixtures" / "mindspore" / "e2e_8to4"
STATE = {
    "net.w1": np.random.default_rng(0).normal(size=(4, 8)),
    "zeros": np.zeros(20, np.float32),
    "flags": np.array([True, False]),
    "step": np.array(7),
}


def sound_files(suffix, folder):
    """Return the contents that are damaged."""
    path = folder / f"sound{suffix}"
    write_file(path, infos_of(STATE), STATE.items(), {"step of": 7, "note": "né"})
    contents = [path.read_bytes()]
    if suffix == ".ckpt":
        contents.append(contents[0][:-17])
        contents.extend(
            (GENUINE / f"src_checkpoints/rank_{rank}/src_checkpoint{rank}.ckpt").read_bytes() for rank in (0, 7)
        )
    if suffix == ".npz":
        np.savez_compressed(path, **STATE)
        contents.append(path.read_bytes())
    return contents


@pytest.mark.parametrize(
    ("suffix", "full", "few"), [(".ckpt", 60_000, 2000), (".safetensors", 20_000, 1000), (".npz", 20_000, 1000)]
)
def test_a_damaged_file_is_read_or_refused_in_bounded_memory(suffix, full, few, tmp_path):
    path, read, refused = tmp_path / f"one{suffix}", 0, 0
    tries = count(full, few)
    contents = sound_files(suffix, tmp_path)
    tracemalloc.start()
    try:
        for content in mutations(contents, tries):
            # A file that is overwritten waits for the disk.
            path.unlink(missing_ok=True)
            path.write_bytes(content)
            try:
                with open_file(path) as file:
                    for name in file.arrays:
                        read_array(file, name)
                read += 1
            except CheckpointError:
                refused += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    # Both happen, or this shows nothing.
    assert min(read, refused) > tries // 100
    record(f"damaged {suffix} files read or refused", tried=tries, read=read, refused=refused)


@pytest.mark.parametrize(
    ("suffix", "reason"),
    [
        (".h5", r'array "net\.w1": the file ends at byte \d+, before it; restore [^;]*$'),
        (".ckpt", r"cannot be read \(the file ends at \d+\)"),
        (".safetensors", r'array "net\.w1": the 256 bytes at \d+ cannot be read \(the file ends at \d+\); restore the'),
        (".npz", r'array "net\.w1" cannot be read \(the file ends at \d+\); restore the file'),
    ],
)
def test_a_file_that_is_cut_short_while_it_is_open_is_refused(suffix, reason, tmp_path):
    path = tmp_path / f"one{suffix}"
    write_file(path, infos_of(STATE), STATE.items(), {})
    with open_file(path) as file:
        np.testing.assert_array_equal(read_array(file, "step"), 7)
        os.truncate(path, 8)
        with pytest.raises(CheckpointError, match=f"{path}: .*{reason}"):
            read_array(file, "net.w1")
