from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.maintenance.verification import verify
from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.saving import ShardSave, file_digest, save_shards, writers
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

DEVICES = DeviceMatrix((2, 2))
LAYOUTS = {
    "net.w1": Layout((9, 6), DEVICES, ((0,), (1,))),
    "moments.net.w1": Layout((9, 6), DEVICES, ((), (1,)), optimizer_axes=(0,)),
    "global_step": Layout((), DEVICES, ()),
    "bias": Layout((6,), DEVICES, ((1,),)),
    "stage0.w": Layout((5,), DeviceMatrix((2,)), ((0,),)),
    "stage1.w": Layout((5,), DeviceMatrix((2,), 2), ((),)),
}
SIZE = 4


def state(layouts: Mapping[str, Layout], rank: int, seed: int = 1) -> dict[str, NDArray[Any]]:
    """Return what ``rank`` holds of tensors that count their elements."""
    arrays = {}
    for name, layout in layouts.items():
        if rank in layout.devices:
            whole = np.arange(seed, seed + int(np.prod(layout.global_shape)), dtype=np.float32)
            box = layout.box(rank)
            selected = tuple(slice(*ends) for ends in zip(box.start, box.stop, strict=True))
            arrays[name] = whole.reshape(layout.global_shape)[selected]
    return arrays


def save(communicator: Communicator, folder: Path, step: int = 77, changed: Any = None, **options: Any) -> Path:
    held = {**state(LAYOUTS, communicator.rank, step), **(changed or {})}
    return save_shards(folder, "net", 1, step, held, LAYOUTS, communicator, {"seed": 5}, **options)


def refusals(function: Callable[..., Any], *args: Any) -> list[str]:
    """Return the message of each rank when all of them refuse."""

    def refused(communicator: Communicator) -> str:
        with pytest.raises(CheckpointError) as caught:
            function(communicator, *args)
        return str(caught.value)

    return run_world(SIZE, refused)


def held_in(folder: Path, manifest: Manifest, rank: int) -> dict[str, NDArray[Any]]:
    shard = manifest.shards[rank]
    assert shard is not None
    with open_shard(folder / shard.file, shard.digest) as file:
        arrays = {name: np.empty(info.shape, info.dtype) for name, info in file.arrays.items()}
        for name, array in arrays.items():
            file.fill(name, 0, array.reshape(-1))
        assert shard.arrays == file.digests
        assert shard.size == (folder / shard.file).stat().st_size
        return arrays


def test_every_shard_has_the_slices_of_its_rank(tmp_path: Path) -> None:
    path = tmp_path / "net-1_77.manifest.json"
    assert run_world(SIZE, save, tmp_path) == [path] * SIZE
    manifest = Manifest.load(path)
    assert manifest.layouts == {name: layout.canonical for name, layout in LAYOUTS.items()}
    assert manifest.tensors["net.w1"].dtype == np.dtype(np.float32).str
    assert (manifest.name, manifest.training) == ("net-1_77", {"seed": 5})
    for rank in range(SIZE):
        arrays, expected = held_in(tmp_path, manifest, rank), state(LAYOUTS, rank, 77)
        assert arrays.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, strict=True)


def test_files_lie_where_mindspore_users_look(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert found == ["net-1_77.manifest.json", *(f"rank_{rank}/net-1_77.h5" for rank in range(SIZE))]


def test_without_redundancy_each_slice_is_written_once(tmp_path: Path) -> None:
    run_world(SIZE, lambda communicator: save(communicator, tmp_path, remove_redundancy=True))
    manifest = newest(tmp_path)
    written: dict[str, list[tuple[int, ...]]] = {name: [] for name in LAYOUTS}
    for rank, shard in enumerate(manifest.shards):
        for name in () if shard is None else shard.arrays:
            written[name].append(LAYOUTS[name].parts(rank))
            np.testing.assert_array_equal(held_in(tmp_path, manifest, rank)[name], state(LAYOUTS, rank, 77)[name])
    for name, layout in LAYOUTS.items():
        assert len(written[name]) == len(set(written[name])) == layout.devices.size // layout.replica_count


def test_slices_that_a_rank_does_not_write_need_not_be_given(tmp_path: Path) -> None:
    def save_own(communicator: Communicator) -> int:
        of_own = ShardSave(tmp_path, "net", 1, 77, LAYOUTS, communicator, remove_redundancy=True)
        held = state(LAYOUTS, communicator.rank)
        own = {name: array for name, array in held.items() if of_own.writes(name)}
        of_own.write(own)
        of_own.commit()
        return len(held) - len(own)

    assert sum(run_world(SIZE, save_own)) > 0
    manifest = newest(tmp_path)
    assert {name for shard in manifest.shards if shard for name in shard.arrays} == set(LAYOUTS)


def test_ranks_without_a_slice_write_nothing(tmp_path: Path) -> None:
    def save_on_one(communicator: Communicator) -> None:
        layouts = {"w": Layout((3,), DeviceMatrix((1,), 1), ((),))}
        arrays = {"w": np.arange(3.0)} if communicator.rank == 1 else {}
        save_shards(tmp_path, "net", 1, 1, arrays, layouts, communicator)

    run_world(3, save_on_one)
    assert [shard is None for shard in newest(tmp_path).shards] == [True, False, True]
    assert not (tmp_path / "rank_0").exists()


def test_writers_of_replicas_have_about_as_much_each() -> None:
    sizes = [7, 5, 4, 3, 3, 2, 1]
    layouts = {f"w{size}{place}": Layout.replicated((size,), DEVICES) for place, size in enumerate(sizes)}
    loads = [0] * SIZE
    for name, replica in writers(layouts).items():
        loads[replica] += layouts[name].global_shape[0]
    assert sum(loads) == sum(sizes)
    assert max(loads) <= 7


def test_a_folder_holds_several_checkpoints(tmp_path: Path) -> None:
    for step in (76, 77):
        run_world(SIZE, save, tmp_path, step)
    for step in (76, 77):
        manifest = Manifest.load(tmp_path / f"net-1_{step}.manifest.json")
        np.testing.assert_array_equal(held_in(tmp_path, manifest, 3)["global_step"], step)


def test_what_killed_writers_have_left_is_deleted(tmp_path: Path) -> None:
    for rank in range(SIZE):
        (tmp_path / f"rank_{rank}").mkdir()
        (tmp_path / f"rank_{rank}" / ".partial-net-1_76.h5").write_bytes(b"torn")
    run_world(SIZE, save, tmp_path)
    assert not list(tmp_path.rglob(".partial*"))


def test_failure_of_one_rank_is_raised_on_all_and_commits_nothing(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path, 76)
    (tmp_path / "rank_2" / "net-1_77.h5").mkdir()
    messages = refusals(save, tmp_path, 77)
    assert len(set(messages)) == 1
    assert messages[0].startswith(f"rank 2: {tmp_path}/rank_2/net-1_77.h5: cannot be written")
    assert newest(tmp_path).step == 76
    (tmp_path / "rank_2" / "net-1_77.h5").rmdir()
    assert len(list(tmp_path.rglob("*.h5"))) == SIZE


def test_failure_to_commit_is_raised_on_all(tmp_path: Path) -> None:
    def save_where_the_manifest_cannot_be(communicator: Communicator) -> None:
        save_of_77 = ShardSave(tmp_path, "net", 1, 77, LAYOUTS, communicator)
        save_of_77.write(state(LAYOUTS, communicator.rank))
        communicator.barrier()
        if communicator.rank == 0:
            (tmp_path / "net-1_77.manifest.json").mkdir()
        save_of_77.commit()

    messages = refusals(save_where_the_manifest_cannot_be)
    assert all("rank 0: " in message and "manifest.json" in message for message in messages)


def test_a_committed_checkpoint_is_not_replaced(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path)
    assert all("checkpoint net-1_77 is complete already" in message for message in refusals(save, tmp_path))
    assert newest(tmp_path).step == 77


def test_ranks_must_agree_on_what_they_save(tmp_path: Path) -> None:
    def differ(communicator: Communicator) -> None:
        save(communicator, tmp_path, 78 if communicator.rank == 2 else 77)

    assert all(
        message.startswith("ranks [2] save another prefix, epoch or step than rank 0") for message in refusals(differ)
    )
    assert not list(tmp_path.iterdir())


def test_arrays_must_fit_their_layouts(tmp_path: Path) -> None:
    def wrong_shape(communicator: Communicator) -> None:
        wrong = np.zeros((5, 3) if communicator.rank else (9, 6), np.float32)
        save(communicator, tmp_path, changed={"net.w1": wrong})

    def unknown(communicator: Communicator) -> None:
        save(communicator, tmp_path, changed={"other": np.zeros(3)})

    assert all('rank 0: array "net.w1" has shape (9, 6)' in message for message in refusals(wrong_shape))
    assert all("arrays without a layout here: ['other']" in message for message in refusals(unknown))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_one_tensor_has_one_dtype(tmp_path: Path) -> None:
    def mixed(communicator: Communicator) -> None:
        step = np.array(1, np.int64 if communicator.rank else np.int32)
        save(communicator, tmp_path, changed={"global_step": step})

    assert all('tensor "global_step" has dtypes' in message for message in refusals(mixed))
    assert not list(tmp_path.glob("*.manifest.json"))


def test_replicas_that_differ_are_told_of(tmp_path: Path) -> None:
    def drifted(communicator: Communicator) -> None:
        save(communicator, tmp_path, changed={"global_step": np.float32(7 + (communicator.rank == 3)).reshape(())})

    with pytest.warns(UserWarning, match='"global_step" on ranks 0 and 3'):
        run_world(SIZE, drifted)


def test_what_a_training_tells_must_be_json(tmp_path: Path) -> None:
    def tell(communicator: Communicator) -> None:
        save_shards(tmp_path, "net", 1, 1, {}, {}, communicator, {"seed": object()})

    assert all("give numbers, texts, lists and objects" in message for message in refusals(tell))


def test_companions_are_known_by_their_digest(tmp_path: Path) -> None:
    strategy = tmp_path / "strategy.ckpt"
    strategy.write_bytes(b"strategy")
    run_world(SIZE, lambda communicator: save(communicator, tmp_path, companions=[strategy]))
    assert newest(tmp_path).files == {"strategy.ckpt": file_digest(strategy)}
    strategy.write_bytes(b"Strategy")
    assert newest(tmp_path).files != {"strategy.ckpt": file_digest(strategy)}


def test_a_folder_that_is_not_the_same_on_all_hosts_is_refused(tmp_path: Path) -> None:
    def save_apart(communicator: Communicator) -> None:
        save(communicator, tmp_path / str(communicator.hosts[communicator.rank]))

    def refused(communicator: Communicator) -> str:
        with pytest.raises(CheckpointError) as caught:
            save_apart(communicator)
        return str(caught.value)

    for message in run_world(SIZE, refused, hosts=(0, 0, 2, 2)):
        assert "rank 2 has written" in message
        assert "save to a folder that all hosts share" in message
    assert not list(tmp_path.rglob("*.manifest.json"))


def test_a_file_of_an_earlier_training_is_not_taken_for_that_of_another_host(tmp_path: Path) -> None:
    def save_apart(communicator: Communicator) -> str:
        folder = tmp_path / str(communicator.hosts[communicator.rank])
        with pytest.raises(CheckpointError) as caught:
            save(communicator, folder)
        return str(caught.value)

    run_world(SIZE, lambda communicator: save(communicator, tmp_path / "0", changed={"global_step": np.float32(9)}))
    (tmp_path / "0" / "net-1_77.manifest.json").unlink()
    for message in run_world(SIZE, save_apart, hosts=(0, 0, 2, 2)):
        assert "rank 2 has written another file there; save to a folder that all hosts share" in message
    assert not list(tmp_path.rglob("*.manifest.json"))


def test_ranks_of_a_host_that_mean_different_folders_are_refused(tmp_path: Path) -> None:
    messages = refusals(lambda communicator: save(communicator, tmp_path / str(communicator.rank)))
    assert all("rank 1 has written" in message and "name it alike on all ranks" in message for message in messages)


@pytest.mark.parametrize("ending", ["abandon", "commit", "write"])
def test_a_save_that_another_has_overtaken_leaves_its_checkpoint_alone(ending: str, tmp_path: Path) -> None:
    def overtaken(communicator: Communicator) -> None:
        slow = ShardSave(tmp_path, "net", 1, 77, LAYOUTS, communicator, {"seed": 5})
        if ending != "write":
            slow.write(state(LAYOUTS, communicator.rank, 77))
        save(communicator, tmp_path)
        if ending == "abandon":
            slow.abandon()
            return
        if ending == "write":
            slow.write(state(LAYOUTS, communicator.rank, 5))
        with pytest.raises(CheckpointError, match="checkpoint net-1_77 is complete already"):
            slow.commit()

    run_world(SIZE, overtaken)
    assert verify(tmp_path, newest(tmp_path)).is_sound
