"""A conversion needs memory for one target slice, whatever the state has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance import patience
from tests.unit.checkpoint.transform.stored_slices import write_layouts

SHAPE = (8192, 8192)
MIB = 1 << 20
MEASURED = """
import sys
from pathlib import Path
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank
source, source_strategy, target, target_strategy = sys.argv[1:]
files = {int(path.parent.name[5:]): path for path in Path(source).glob("rank_*/*")}
transform_checkpoint_by_rank(1, files, target, source_strategy or None, target_strategy)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def write_sparse(path: Path, names: list[str], shape: tuple[int, ...]) -> None:
    """Write a safetensors file of zeros that takes no room on the disk."""
    path.parent.mkdir(parents=True)
    length = shape[0] * shape[1] * 4
    entries = {
        name: {"dtype": "F32", "shape": list(shape), "data_offsets": [i * length, (i + 1) * length]}
        for i, name in enumerate(names)
    }
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with path.open("r+b") as file:
        file.truncate(8 + len(header) + length * len(names))


@pytest.mark.parametrize(("sources", "suffix"), [(1, "h5"), (4, "ckpt")])
def test_columns_of_rows_take_the_memory_of_one_slice(tmp_path: Path, sources: int, suffix: str) -> None:
    """512 MiB of state in two parameters, cut by rows over ranks, of which one rank of eight gets the columns."""
    names = ["w", "moments.w"]
    for rank in range(sources):
        write_sparse(tmp_path / f"rank_{rank}" / "net-1_7.safetensors", names, (SHAPE[0] // sources, SHAPE[1]))
    rows = {name: Layout(SHAPE, DeviceMatrix((sources,)), ((0,), ())) for name in names}
    columns = {name: Layout(SHAPE, DeviceMatrix((8,)), ((), (0,))) for name in names}
    strategies = write_layouts(tmp_path / "s.ckpt", rows), write_layouts(tmp_path / "t.ckpt", columns)
    target = tmp_path / f"one.{suffix}"
    source_strategy = str(strategies[0]) if sources > 1 else ""
    command = [sys.executable, "-c", MEASURED, str(tmp_path), source_strategy, str(target), str(strategies[1])]
    done = patience.run(command, capture_output=True, text=True, check=True)
    slice_bytes = SHAPE[0] * SHAPE[1] * 4 // 8
    assert target.stat().st_size > 2 * slice_bytes
    assert int(done.stdout) * 1024 <= 1.2 * slice_bytes + 64 * MIB
