from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpiparallel.checkpoint.manifest import Manifest
from mpiparallel.checkpoint.shards import load_rank, load_shards, save_shards, shard_path
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


def save(
    communicator: Communicator, folder: Path, step: int = 77, layouts: Mapping[str, Layout] = LAYOUTS, **arrays: Any
) -> Path:
    held = {**state(layouts, communicator.rank, step), **arrays}
    return save_shards(folder, "net", 1, step, held, layouts, communicator, {"seed": 5})


def load(communicator: Communicator, folder: Path, layouts: Mapping[str, Layout] = LAYOUTS) -> Any:
    return load_shards(folder, layouts, communicator)


def refusals(function: Callable[..., Any], *args: Any) -> list[str]:
    """Return the message of each rank when all of them refuse."""

    def refused(communicator: Communicator) -> str:
        with pytest.raises(CheckpointError) as caught:
            function(communicator, *args)
        return str(caught.value)

    return run_world(SIZE, refused)


def test_each_rank_loads_what_it_saved(tmp_path: Path) -> None:
    assert run_world(SIZE, save, tmp_path) == [tmp_path] * SIZE
    for rank, arrays in enumerate(run_world(SIZE, load, tmp_path)):
        expected = state(LAYOUTS, rank, 77)
        assert arrays.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, strict=True)
            np.testing.assert_array_equal(load_rank(tmp_path, LAYOUTS, rank, SIZE)[name], array, strict=True)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_layout_comes_back(
    layouts: Callable[..., st.SearchStrategy[Layout]], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    drawn = data.draw(st.dictionaries(st.sampled_from("abc"), layouts(last_rank=1, max_devices=2), max_size=3))
    folder = tmp_path_factory.mktemp("any")
    run_world(2, save, folder, 3, drawn)
    for rank, arrays in enumerate(run_world(2, load, folder, drawn)):
        for name, array in state(drawn, rank, 3).items():
            np.testing.assert_array_equal(arrays[name], array, strict=True)


def test_manifest_says_what_was_saved(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path)
    manifest = Manifest.load(tmp_path)
    assert (manifest.epoch, manifest.step, manifest.rank_count) == (1, 77, SIZE)
    assert {name: entry.layout for name, entry in manifest.tensors.items()} == {
        name: layout.canonical for name, layout in LAYOUTS.items()
    }
    assert manifest.tensors["net.w1"].dtype == np.dtype(np.float32).str
    assert [shard.file for shard in manifest.shards] == [f"rank_{rank}/net-1_77.h5" for rank in range(SIZE)]
    assert "stage1.w" in manifest.shards[2].digests
    assert "stage1.w" not in manifest.shards[1].digests
    # Replicas have equal digests.
    assert len({shard.digests["global_step"] for shard in manifest.shards}) == 1


def test_files_lie_where_mindspore_users_look(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert found == ["manifest.json", *(f"rank_{rank}/net-1_77.h5" for rank in range(SIZE))]


@pytest.mark.parametrize("prefix", ["../net", ".net", "a/b", "a\nb", "a\0b"])
def test_prefix_must_be_part_of_a_name(prefix: str) -> None:
    with pytest.raises(CheckpointError, match="cannot begin the name"):
        shard_path("folder", 0, prefix, 1, 1)


def test_failure_of_one_rank_is_raised_on_all_and_commits_nothing(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path, 76)
    (tmp_path / "rank_2" / "net-1_77.h5").mkdir()
    messages = refusals(save, tmp_path, 77)
    assert len(set(messages)) == 1
    assert messages[0].startswith(f"rank 2: {tmp_path}/rank_2/net-1_77.h5: cannot be written")
    assert Manifest.load(tmp_path).step == 76
    (tmp_path / "rank_2" / "net-1_77.h5").rmdir()
    assert len(list(tmp_path.rglob("*.h5"))) == SIZE
    assert run_world(SIZE, load, tmp_path)[0]["global_step"] == 76


def test_failure_to_commit_is_raised_on_all(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path, 76)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "manifest.json").mkdir()
    assert all("rank 0: " in message and "manifest.json" in message for message in refusals(save, tmp_path, 77))


def test_a_committed_shard_is_not_replaced(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path)
    messages = refusals(save, tmp_path)
    assert all("rank_3/net-1_77.h5: is part of a complete checkpoint" in message for message in messages)
    assert run_world(SIZE, load, tmp_path)[0]["global_step"] == 77
    run_world(SIZE, save, tmp_path, 78)
    run_world(SIZE, save, tmp_path, 77)
    assert Manifest.load(tmp_path).step == 77


def test_ranks_must_agree_on_what_they_save(tmp_path: Path) -> None:
    def differ(communicator: Communicator) -> None:
        save(communicator, tmp_path, 78 if communicator.rank == 2 else 77)

    assert all(message.startswith("ranks [2] save another prefix") for message in refusals(differ))
    assert not list(tmp_path.iterdir())


def test_arrays_must_fit_their_layouts(tmp_path: Path) -> None:
    def wrong_shape(communicator: Communicator) -> None:
        save(communicator, tmp_path, **{"net.w1": np.zeros((5, 3) if communicator.rank else (9, 6), np.float32)})

    def unknown(communicator: Communicator) -> None:
        save(communicator, tmp_path, other=np.zeros(3))

    assert all('rank 0: array "net.w1" has shape (9, 6)' in message for message in refusals(wrong_shape))
    assert all("arrays without a layout here: ['other']" in message for message in refusals(unknown))
    assert not list(tmp_path.iterdir())


def test_one_tensor_has_one_dtype(tmp_path: Path) -> None:
    def mixed(communicator: Communicator) -> None:
        save(communicator, tmp_path, global_step=np.array(1, np.int64 if communicator.rank else np.int32))

    assert all('tensor "global_step" has dtypes' in message for message in refusals(mixed))
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize(
    ("layouts", "reason"),
    [
        ({**LAYOUTS, "net.w1": Layout((9, 6), DEVICES, ((1,), (0,)))}, 'tensor "net.w1" was saved as'),
        ({**LAYOUTS, "more": Layout((), DEVICES, ())}, r"lacks \['more'\]"),
        ({"net.w1": LAYOUTS["net.w1"]}, "besides"),
    ],
)
def test_other_layouts_are_refused(tmp_path: Path, layouts: dict[str, Layout], reason: str) -> None:
    run_world(SIZE, save, tmp_path)
    with pytest.raises(CheckpointError, match=reason):
        load_rank(tmp_path, layouts, 0, SIZE)


def test_other_rank_counts_are_refused(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path)
    with pytest.raises(CheckpointError, match="was saved by 4 ranks, not 2"):
        load_rank(tmp_path, LAYOUTS, 0, 2)


def test_the_same_layout_written_otherwise_is_accepted(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path)
    spread = {name: layout.reshaped_devices((1, *layout.devices.shape)) for name, layout in LAYOUTS.items()}
    assert load_rank(tmp_path, spread, 3, SIZE).keys() == state(LAYOUTS, 3).keys()


def test_shards_of_other_ranks_and_steps_are_refused_on_all_ranks(tmp_path: Path) -> None:
    for step in (76, 77):
        run_world(SIZE, save, tmp_path, step)
    old, new = (tmp_path / "rank_1" / f"net-1_{step}.h5" for step in (76, 77))
    truth = new.read_bytes()
    for false in (old, tmp_path / "rank_0" / "net-1_77.h5"):
        new.write_bytes(false.read_bytes())
        messages = refusals(load, tmp_path)
        assert all(message.startswith(f"rank 1: {new}: ") for message in messages)
    new.write_bytes(truth)
    assert run_world(SIZE, load, tmp_path)[1]["global_step"] == 77


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    run_world(SIZE, save, tmp_path)
    (tmp_path / "rank_3" / "net-1_77.h5").unlink()
    assert all("rank_3/net-1_77.h5: cannot be read" in message for message in refusals(load, tmp_path))


# Saves steps 1, 2, ... and says so after each; ends itself without warning at the given file system call.
SAVER = """
import os, signal, sys
import numpy as np
from mpiparallel.checkpoint.shards import save_shards
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

folder, calls_left = sys.argv[1], int(sys.argv[2])
layout = Layout((2, 100_000), DeviceMatrix((2,)), ((0,), ()))

def die_at_call(event, arguments):
    global calls_left
    if event in ("open", "os.rename", "os.remove", "os.mkdir") and folder in str(arguments[0]):
        calls_left -= 1
        if calls_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

def save(communicator, step):
    array = np.full((1, 100_000), step, np.float64)
    save_shards(folder, "net", 1, step, {"w": array}, {"w": layout}, communicator, {})

sys.addaudithook(die_at_call)
for step in range(1, 100_000):
    run_world(2, save, step)
    print(step, flush=True)
"""


def acknowledged(child: subprocess.Popen[str]) -> int:
    output, errors = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, errors
    return int(output.split()[-1]) if output else 0


def check_nothing_lost(folder: Path, step: int) -> None:
    if not (folder / "manifest.json").exists():
        assert step == 0
        return
    saved = Manifest.load(folder).step
    assert saved in (step, step + 1)
    layouts = {"w": Layout((2, 100_000), DeviceMatrix((2,)), ((0,), ()))}
    for rank in range(2):
        assert (load_rank(folder, layouts, rank, 2)["w"] == saved).all()


@pytest.mark.parametrize("call", [1, 4, 7, 9, 10, 11, 12, 13, 15, 18, 22])
def test_a_kill_at_any_call_loses_no_acknowledged_checkpoint(tmp_path: Path, call: int) -> None:
    command = [sys.executable, "-c", SAVER, str(tmp_path), str(call)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        check_nothing_lost(tmp_path, acknowledged(child))


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_any_time_loses_no_acknowledged_checkpoint(tmp_path: Path, seed: int) -> None:
    command = [sys.executable, "-c", SAVER, str(tmp_path), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        while not (tmp_path / "manifest.json").exists():
            time.sleep(0.01)
        time.sleep(random.Random(seed).uniform(0, 0.2))
        os.kill(child.pid, signal.SIGKILL)
        check_nothing_lost(tmp_path, acknowledged(child))
    left = [path for path in tmp_path.rglob("*") if path.name.startswith(".partial-")]
    run_world(2, lambda communicator: save_two(communicator, tmp_path))
    assert not [path for path in left if path.parent != tmp_path and path.exists()]


def save_two(communicator: Communicator, folder: Path) -> None:
    layout = Layout((2, 3), DeviceMatrix((2,)), ((0,), ()))
    save_shards(folder, "net", 2, 1, {"w": np.zeros((1, 3))}, {"w": layout}, communicator, {})
