from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.formats.registry import write_file
from mpiparallel.checkpoint.loading import new_arrays
from mpiparallel.checkpoint.loading.load import load_state
from mpiparallel.checkpoint.loading.new_arrays import LackOfMemoryError
from mpiparallel.checkpoint.loading.reading_plan import ReadingPlan
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.checkpoint.shard_places import ShardPlaces
from mpiparallel.checkpoint.stored_state import StoredState, StoredTensor
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.meddling_communicator import Meddling, flip_a_bit
from tests.conformance.resharding.reshard_cases import Case, Seeded, any_case, cases, part_of, storable

EIGHT = DeviceMatrix((2, 4))
WHOLE = np.arange(24 * 40, dtype=np.float32).reshape(24, 40)


def save(case: Case, folder: Path, remove_redundancy: bool = False) -> None:
    def save_here(communicator: Communicator) -> None:
        given = case.given(communicator.rank)
        save_shards(folder, "net", 1, 1, given, case.source, communicator, {}, remove_redundancy)

    run_world(case.size, save_here)


def load(case: Case, folder: Path, wave_bytes: int, hosts: Sequence[int] | None) -> list[dict[str, NDArray[Any]]]:
    def load_here(communicator: Communicator) -> dict[str, NDArray[Any]]:
        with StoredState.of_manifest(folder, newest(folder)) as state:
            return load_state(state, case.target, communicator, wave_bytes)

    return run_world(case.size, load_here, hosts=hosts)


def check(case: Case, folder: Path, number: int) -> None:
    case = storable(case)
    save(case, folder, remove_redundancy=number % 2 == 1)
    hosts = None if number % 3 else case.hosts
    for rank, arrays in enumerate(load(case, folder, (64 << 20, 1 << 10, 1)[number % 3], hosts)):
        expected = case.expected(rank)
        assert arrays.keys() == expected.keys()
        for name, array in expected.items():
            assert arrays[name].dtype == array.dtype
            assert arrays[name].shape == array.shape
            assert arrays[name].tobytes() == array.tobytes(), name


@settings(max_examples=30)
@given(case=cases())
def test_any_layout_on_any_ranks_is_loaded_by_any_other(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    check(case, tmp_path_factory.mktemp("any"), 0)


@pytest.mark.parametrize("seed", range(60))
def test_cuts_far_from_each_other_are_loaded(tmp_path: Path, seed: int) -> None:
    check(any_case(Seeded(seed)), tmp_path, seed)


def layouts_of(count: int, kind: str) -> Layout:
    rows, columns = (((0,), ()), ((), (0,)))
    maps = {"rows": rows, "columns": columns, "whole": ((), ())}
    return Layout(WHOLE.shape, DeviceMatrix((count,)), maps[kind])


HYBRID = Layout(WHOLE.shape, EIGHT, ((), (1,)), optimizer_axes=(0,))


def test_a_chain_of_rank_counts_keeps_every_bit(tmp_path: Path) -> None:
    chain = [HYBRID, layouts_of(4, "columns"), layouts_of(6, "rows"), layouts_of(1, "whole"), layouts_of(64, "columns")]
    held = [part_of(WHOLE, chain[0], rank) for rank in range(8)]
    for number, (source, target) in enumerate(pairwise(chain)):
        folder = tmp_path / str(number)

        def save_here(communicator: Communicator, folder: Path, source: Layout, held: list[Any]) -> None:
            save_shards(folder, "net", 1, 1, {"w": held[communicator.rank]}, {"w": source}, communicator)

        def load_here(communicator: Communicator, folder: Path, target: Layout) -> Any:
            with StoredState.of_manifest(folder, newest(folder)) as state:
                return load_state(state, {"w": target}, communicator)["w"]

        run_world(source.devices.size, save_here, folder, source, held)
        held = run_world(target.devices.size, load_here, folder, target)
        for rank, array in enumerate(held):
            np.testing.assert_array_equal(array, part_of(WHOLE, target, rank), strict=True)


@pytest.mark.parametrize("kind", ["rows", "columns", "whole"])
def test_each_byte_is_read_by_one_rank(kind: str) -> None:
    stored = {name: StoredTensor(HYBRID, np.dtype(np.float32)) for name in "abc"}
    target = layouts_of(6, kind)
    plans = [ReadingPlan(stored, dict.fromkeys(stored, target), rank, 6, 1 << 9) for rank in range(6)]
    read = {name: np.zeros(WHOLE.shape, np.int64) for name in stored}
    for wave in plans[0].waves:
        for reading in wave:
            read[reading.tensor][reading.piece.box.within(reading.piece.box.whole(WHOLE.shape))] += 1
    assert all((count == 1).all() for count in read.values())
    for rank, plan in enumerate(plans):
        assert [[(r.tensor, r.reader, r.offset) for r in wave] for wave in plan.waves] == [
            [(r.tensor, r.reader, r.offset) for r in wave] for wave in plans[0].waves
        ]
        loads = [sum(r.nbytes for wave in plan.waves for r in wave if r.reader == rank) for rank in range(6)]
        assert max(loads) <= 2 * sum(loads) / 6


def test_rows_that_follow_a_slice_without_elements_are_read_too() -> None:
    shape = (4, 2)
    stored = {"w": StoredTensor(Layout(shape, DeviceMatrix((2, 3)), ((0,), (1,))), np.dtype(np.float32))}
    plan = ReadingPlan(stored, {"w": Layout(shape, DeviceMatrix((1,)), ((), ()))}, 0, 1)
    read = np.zeros(shape, np.int64)
    for reading in (reading for wave in plan.waves for reading in wave):
        read[reading.piece.box.within(reading.piece.box.whole(shape))] += 1
    assert (read == 1).all()


def test_ranks_that_keep_their_layout_read_their_own_file_and_send_nothing() -> None:
    stored = {"w": StoredTensor(HYBRID, np.dtype(np.float32))}
    plan = ReadingPlan(stored, {"w": HYBRID}, 0, 8)
    readings = [reading for wave in plan.waves for reading in wave]
    assert all(reading.is_private and reading.piece.box == HYBRID.box(reading.reader) for reading in readings)


@pytest.mark.parametrize("harm", ["deleted", "cut off", "changed", "of another rank", "a link"])
def test_a_lost_shard_is_replaced_by_a_replica(tmp_path: Path, harm: str) -> None:
    layout = Layout(WHOLE.shape, EIGHT, ((), (1,)))
    run_world(8, save_whole, tmp_path, layout)
    damage(tmp_path / "rank_0" / "net-1_1.h5", harm)
    for rank, (array, replaced) in enumerate(run_world(8, load_told, tmp_path, layout)):
        np.testing.assert_array_equal(array, part_of(WHOLE, layout, rank), strict=True)
        assert all("(read from rank 4)" in why for why in replaced.values())
        assert set(replaced) <= {0}
    assert any(replaced for _, replaced in run_world(8, load_told, tmp_path, layout))
    damage(tmp_path / "rank_4" / "net-1_1.h5", harm)
    for message in run_world(8, refused, tmp_path, layout):
        assert 'tensor "w" (24, 40): the slice (0, 0) to (24, 10) is lost' in message
        assert "restore one of ranks 0, 4" in message


def refused(communicator: Communicator, folder: Path, layout: Layout) -> str:
    """Return what a rank is told that cannot load."""
    with pytest.raises(CheckpointError) as caught:
        load_told(communicator, folder, layout)
    return str(caught.value)


def save_whole(communicator: Communicator, folder: Path, layout: Layout) -> None:
    arrays = {"w": part_of(WHOLE, layout, communicator.rank)}
    save_shards(folder, "net", 1, 1, arrays, {"w": layout}, communicator)


def load_told(communicator: Communicator, folder: Path, layout: Layout) -> tuple[Any, dict[int, str]]:
    with StoredState.of_manifest(folder, newest(folder)) as state:
        return load_state(state, {"w": layout}, communicator)["w"], state.replaced


def damage(path: Path, harm: str) -> None:
    content = path.read_bytes()
    path.unlink()
    if harm == "cut off":
        path.write_bytes(content[:-1])
    elif harm == "changed":
        path.write_bytes(content.replace(WHOLE[:1, 8:10].tobytes(), WHOLE[1:2, 8:10].tobytes(), 1)[::-1])
    elif harm == "of another rank":
        path.write_bytes((path.parents[1] / "rank_1" / path.name).read_bytes())
    elif harm == "a link":
        path.symlink_to(path.parents[1] / "rank_4" / path.name)


def test_replicas_that_drifted_are_loaded_as_the_first(tmp_path: Path) -> None:
    layout = Layout((2,), DeviceMatrix((2,)), ((),))

    def save_drifted(communicator: Communicator) -> None:
        arrays = {"w": np.full(2, communicator.rank)}
        save_shards(tmp_path, "net", 1, 1, arrays, {"w": layout}, communicator)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_world(2, save_drifted)
    assert [array.tolist() for array, _ in run_world(2, load_told, tmp_path, layout)] == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("layouts", "reason"),
    [
        ({"more": layouts_of(2, "rows")}, 'tensor "more" is not in the checkpoint'),
        ({"w": Layout((24, 41), DeviceMatrix((2,)), ((0,), ()))}, r"has shape \(24, 40\) in the checkpoint"),
    ],
)
def test_another_network_is_refused_on_all_ranks(tmp_path: Path, layouts: dict[str, Layout], reason: str) -> None:
    run_world(8, save_whole, tmp_path, HYBRID)

    def refused(communicator: Communicator) -> None:
        with StoredState.of_manifest(tmp_path, newest(tmp_path)) as state, pytest.raises(CheckpointError, match=reason):
            load_state(state, layouts, communicator)

    run_world(2, refused)


def test_a_rank_without_room_is_told_of_on_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_world(8, save_whole, tmp_path, HYBRID)

    def refuse(*_: object) -> None:
        raise MemoryError

    def load_without_room(communicator: Communicator) -> None:
        with pytest.raises(
            LackOfMemoryError, match=r"there is no room for the [0-9]+ bytes of this rank; use more ranks"
        ):
            load_told(communicator, tmp_path, layouts_of(2, "rows"))

    monkeypatch.setattr(new_arrays, "np", SimpleNamespace(empty=refuse, uint8=np.uint8))
    run_world(2, load_without_room)


@pytest.mark.parametrize("format_name", ["h5", "ckpt", "safetensors"])
@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        ("deleted", "cannot be read"),
        ("another", r"has digest [0-9a-f]{32}, expected [0-9a-f]{32}: "),
        ("a link", "link"),
    ],
)
def test_a_shard_of_any_format_that_is_not_the_one_committed_is_replaced_by_a_replica(
    tmp_path: Path, format_name: str, harm: str, reason: str
) -> None:
    layout = Layout((4,), DeviceMatrix((2,)), ((),))

    def save_in_format(communicator: Communicator, step: int) -> None:
        places = ShardPlaces(format=format_name)
        arrays = {"w": np.arange(4.0) + step}
        save_shards(tmp_path, "net", 1, step, arrays, {"w": layout}, communicator, places=places)

    run_world(2, save_in_format, 2)
    other = (tmp_path / "rank_0" / f"net-1_2.{format_name}").read_bytes()
    run_world(2, save_in_format, 3)
    path = tmp_path / "rank_0" / f"net-1_3.{format_name}"
    path.unlink()
    if harm == "another":
        path.write_bytes(other)
    elif harm == "a link":
        path.symlink_to(tmp_path / "rank_1" / path.name)
    with StoredState.of_manifest(tmp_path, newest(tmp_path)) as state:
        np.testing.assert_array_equal(state.read_box("w", Box.whole((4,))), [3.0, 4.0, 5.0, 6.0])
    assert list(state.replaced) == [0]
    assert re.search(rf"{path}: .*({reason}).* \(read from rank 1\)$", state.replaced[0])


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_files_of_more_ranks_than_may_be_open_at_once_are_read_one_after_the_other(tmp_path: Path) -> None:
    count = 70
    layout = Layout((count,), DeviceMatrix((count,)), ((0,),))
    files = {rank: tmp_path / f"{rank}.safetensors" for rank in range(count)}
    for rank, path in files.items():
        arrays = {"w": np.full(1, float(rank))}
        write_file(path, infos_of(arrays), arrays.items(), {})
    before = open_files()
    with StoredState.of_files(files, {"w": StoredTensor(layout, np.dtype(np.float64))}) as state:
        for _ in range(2):
            np.testing.assert_array_equal(state.read_box("w", Box.whole((count,))), np.arange(70.0))
        assert open_files() - before <= 64
    assert open_files() <= before


def test_what_arrives_damaged_from_another_host_is_refused_on_all_ranks(tmp_path: Path) -> None:
    run_world(8, save_whole, tmp_path, HYBRID)
    target = layouts_of(2, "whole")
    flipped: list[bool] = []

    def damaged(call: str, arrays: Sequence[NDArray[Any]]) -> None:
        if call == "exchange":
            flipped.append(flip_a_bit(arrays, 5))

    def refused(communicator: Communicator) -> str:
        meddling: Any = Meddling(communicator, landed=damaged) if communicator.rank == 1 else communicator
        with pytest.raises(CheckpointError) as caught:
            load_told(meddling, tmp_path, target)
        return str(caught.value)

    for message in run_world(2, refused, hosts=(0, 1)):
        assert "what rank 0 read has arrived damaged; load again, and have the network looked at" in message
    assert flipped == [True]


def test_small_arrays_lie_together_and_large_ones_do_not_keep_the_memory_of_others() -> None:
    def memory_of(array: NDArray[Any]) -> int:
        while array.base is not None:
            array = array.base
        return id(array)

    large, small = TensorSpec((5, 8 << 20), np.dtype(np.uint8)), TensorSpec((3,), np.dtype(np.float32))
    arrays = new_arrays.new_arrays({"a": small, "b": large, "c": small, "d": large, "e": small})
    assert list(arrays) == ["a", "b", "c", "d", "e"]
    assert [array.shape for array in arrays.values()] == [(3,), (5, 8 << 20), (3,), (5, 8 << 20), (3,)]
    places = {name: memory_of(array) for name, array in arrays.items()}
    assert places["a"] == places["b"] == places["c"]
    assert places["d"] == places["e"] != places["a"]
    assert not any(np.may_share_memory(arrays[one], arrays[other]) for one, other in combinations(arrays, 2))
