from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.files.array_file import read_array
from mpiparallel.checkpoint.maintenance.conversion import transform_checkpoint
from mpiparallel.checkpoint.maintenance.target_layouts import as_strategy_says, rows_over, whole_on
from mpiparallel.checkpoint.maintenance.verification import verify
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.checkpoint.stored_state import StoredState
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.errors import CheckpointError, StrategyFileError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, contents, held, save, whole
from tests.reliability.child import exit_status
from tests.reliability.files.system_calls import CHANGES, EXIT_OF_CRASH, Fault, observed

SHAPES = {name: layout.global_shape for name, layout in LAYOUTS.items()}
DEVICES = DeviceMatrix((2, 3))
SIX = {
    name: Layout(shape, DEVICES, ((1,), *(() for _ in shape[1:])), optimizer_axes=(0,))
    for name, shape in SHAPES.items()
}


def check(folder: Path, layouts: dict[str, Layout]) -> Manifest:
    """See that a folder has the state of step 77, sound, cut by ``layouts``."""
    manifest = newest(folder)
    assert manifest.layouts == {name: layout.canonical for name, layout in layouts.items()}
    assert verify(folder, manifest).is_sound
    for rank, shard in enumerate(manifest.shards):
        for name in shard.arrays if shard is not None else ():
            assert shard is not None
            with open_shard(folder / shard.file, shard.digest) as file:
                np.testing.assert_array_equal(read_array(file, name), held(name, 77, rank, layouts), strict=True)
    return manifest


@pytest.mark.parametrize("layouts", [SIX, rows_over(SHAPES, 3), whole_on(SHAPES, 2), rows_over(SHAPES, 64), LAYOUTS])
def test_each_target_rank_has_what_numpy_slices_from_the_whole(tmp_path: Path, layouts: dict[str, Layout]) -> None:
    source = save(tmp_path / "source")
    path = transform_checkpoint(tmp_path / "source", tmp_path / "target", layouts)
    manifest = check(tmp_path / "target", layouts)
    assert path == tmp_path / "target" / "net-1_77.manifest.json"
    assert (manifest.name, manifest.training) == (source.name, source.training)
    assert all(shard is not None for shard in manifest.shards)


def test_without_redundancy_each_slice_is_written_once(tmp_path: Path) -> None:
    save(tmp_path / "source")
    transform_checkpoint(tmp_path / "source", tmp_path / "target", whole_on(SHAPES, 3), remove_redundancy=True)
    manifest = check(tmp_path / "target", whole_on(SHAPES, 3))
    written = [name for shard in manifest.shards if shard is not None for name in shard.arrays]
    assert sorted(written) == sorted(LAYOUTS)


def test_lost_slices_come_from_replicas(tmp_path: Path) -> None:
    save(tmp_path / "source")
    for rank in (0, 1, 6, 7):
        (tmp_path / "source" / f"rank_{rank}" / "net-1_77.h5").unlink()
    transform_checkpoint(tmp_path / "source", tmp_path / "target", SIX)
    check(tmp_path / "target", SIX)


def test_a_folder_that_has_it_already_is_refused(tmp_path: Path) -> None:
    save(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match="has a checkpoint net-1_77 already"):
        transform_checkpoint(tmp_path, tmp_path, SIX)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("layouts", "reason"),
    [
        ({name: SIX[name] for name in SIX if name != "net.w"}, "'net.w'"),
        ({**SIX, "other": SIX["net.w"]}, "'other'"),
        ({**SIX, "net.b": Layout((8,), DEVICES, ((1,),))}, r"\(9,\), its target layout is for \(8,\)"),
    ],
)
def test_layouts_of_another_network_are_refused_before_anything_is_written(
    tmp_path: Path, layouts: dict[str, Layout], reason: str
) -> None:
    save(tmp_path / "source")
    with pytest.raises(CheckpointError, match=reason):
        transform_checkpoint(tmp_path / "source", tmp_path / "target", layouts)
    assert not (tmp_path / "target").exists()


def test_killed_at_any_call_there_is_all_of_it_or_no_checkpoint(tmp_path: Path) -> None:
    save(tmp_path / "source")
    layouts = rows_over(SHAPES, 2)
    for number in range(1, 100, 3):
        target = tmp_path / f"target_{number}"

        def transforming(number: int = number, target: Path = target) -> None:
            with observed(CHANGES, Fault(number, "crash")):
                transform_checkpoint(tmp_path / "source", target, layouts)

        status = exit_status(transforming)
        assert status in (0, EXIT_OF_CRASH)
        if not (target / "net-1_77.manifest.json").exists():
            assert status == EXIT_OF_CRASH
            transform_checkpoint(tmp_path / "source", target, layouts)
        check(target, layouts)
        if not status:
            break
    assert number > 20


@pytest.mark.parametrize("suffix", ["json", "ckpt"])
def test_a_strategy_file_says_how_it_is_cut(tmp_path: Path, suffix: str) -> None:
    wanted = {name: SIX[name] for name in ("net.w", "net.b", "table")}
    write_strategy(tmp_path / f"s.{suffix}", StrategyRecord.of(wanted, {}))
    source = {name: LAYOUTS[name] for name in wanted} | {
        "moment1.net.w": Layout((12, 10), DeviceMatrix((2,)), ((), ()))
    }
    found = as_strategy_says(tmp_path / f"s.{suffix}", source)
    assert {name: found[name].canonical for name in wanted} == {name: wanted[name].canonical for name in wanted}
    assert [found["moment1.net.w"].box(rank).shape for rank in range(6)] == [(12, 10)] * 6


def test_a_parameter_that_the_strategy_lacks_is_refused_or_replicated_when_asked(tmp_path: Path) -> None:
    write_strategy(tmp_path / "s.json", StrategyRecord.of({"net.w": SIX["net.w"]}, {}))
    with pytest.raises(StrategyFileError, match=r's.json: parameter "net.b" is not in it'):
        as_strategy_says(tmp_path / "s.json", LAYOUTS)
    found = as_strategy_says(tmp_path / "s.json", LAYOUTS, replicate_missing=True)
    assert found["net.b"] == Layout.replicated((9,), DeviceMatrix((6,)))


def test_pipeline_stages_go_to_their_ranks(tmp_path: Path) -> None:
    devices = DeviceMatrix((2,))
    record = StrategyRecord.of(
        {"0-net.w": Layout((12, 10), devices, ((0,), ())), "1-net.b": Layout((9,), devices, ((0,),))}, {}
    )
    write_strategy(tmp_path / "s.json", StrategyRecord(record.layouts, record.strategies, 1))
    stored = {name: LAYOUTS[name] for name in ("net.w", "net.b")}
    found = as_strategy_says(tmp_path / "s.json", stored)
    assert list(found["net.w"].devices.members) == [0, 1]
    assert list(found["net.b"].devices.members) == [2, 3]
    save(tmp_path / "source", layouts=stored)
    transform_checkpoint(tmp_path / "source", tmp_path / "target", found)
    check(tmp_path / "target", found)


def test_the_whole_is_what_numpy_says(tmp_path: Path) -> None:
    save(tmp_path / "source")
    transform_checkpoint(tmp_path / "source", tmp_path / "target", whole_on(SHAPES, 1))
    with open_shard(tmp_path / "target" / "rank_0" / "net-1_77.h5") as file:
        for name in LAYOUTS:
            np.testing.assert_array_equal(read_array(file, name), whole(name, 77), strict=True)


def test_a_checkpoint_without_tensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    Manifest("net", 1, 77, {}, (None,)).write(tmp_path / "source")
    with pytest.raises(CheckpointError, match="source: checkpoint net-1_77 has no tensors; name another"):
        transform_checkpoint(tmp_path / "source", tmp_path / "target", {})
    assert not (tmp_path / "target").exists()


def test_a_slice_for_which_there_is_no_memory_is_named_and_nothing_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "source")
    read = StoredState.read_box

    def refusing(state: StoredState, name: str, box: Box) -> NDArray[Any]:
        if name == "net.w":
            raise MemoryError
        return read(state, name, box)

    monkeypatch.setattr(StoredState, "read_box", refusing)
    # Two of its twelve rows, of ten numbers of four bytes.
    with pytest.raises(CheckpointError, match=r'tensor "net.w": the slice of rank 0 needs 80 bytes of memory; cut it'):
        transform_checkpoint(tmp_path / "source", tmp_path / "target", SIX)
    assert contents(tmp_path / "target") == {}


def test_what_a_strategy_says_of_other_parameters_is_passed_over(tmp_path: Path) -> None:
    write_strategy(tmp_path / "s.json", StrategyRecord.of({"net.w": SIX["net.w"], "head": SIX["table"]}, {}))
    found = as_strategy_says(tmp_path / "s.json", {"net.w": LAYOUTS["net.w"]})
    assert {name: layout.canonical for name, layout in found.items()} == {"net.w": SIX["net.w"].canonical}


def test_a_parameter_of_several_pipeline_stages_is_refused_as_a_checkpoint_has_it_once(tmp_path: Path) -> None:
    rows = Layout((12, 10), DeviceMatrix((2,)), ((0,), ()))
    record = StrategyRecord.of({"0-net.w": rows, "1-net.w": rows}, {})
    write_strategy(tmp_path / "s.json", StrategyRecord(record.layouts, record.strategies, 1))
    with pytest.raises(StrategyFileError, match=r'parameter "net.w" is in several stages; .* transform_checkpoints'):
        as_strategy_says(tmp_path / "s.json", {"net.w": LAYOUTS["net.w"]})
