"""What all ranks read is found by arithmetic: each byte once, shared evenly, in waves that bound what is in transit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.catalogue import newest
from mpiparallel.checkpoint.loading.load import load_state
from mpiparallel.checkpoint.loading.reading_plan import ReadingPlan, check_stored
from mpiparallel.checkpoint.saving import save_shards
from mpiparallel.checkpoint.stored_state import StoredState, StoredTensor
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

ROWS = Layout((8, 16), DeviceMatrix((2,)), ((0,), ()))
WHOLE = Layout((8, 16), DeviceMatrix((4,)), ((), ()))


def stored(names: str, layout: Layout = ROWS, dtype: str = "f4") -> dict[str, StoredTensor]:
    return {name: StoredTensor(layout, np.dtype(dtype)) for name in names}


def test_what_all_ranks_want_is_read_by_each_in_turn() -> None:
    plan = ReadingPlan(stored("ab"), dict.fromkeys("ab", WHOLE), 1, 4)
    (wave,) = plan.waves
    assert [(one.tensor, one.reader, one.nbytes, one.offset) for one in wave] == [
        ("a", 0, 256, 0),
        ("a", 1, 256, 0),
        ("b", 2, 256, 0),
        ("b", 3, 256, 0),
    ]
    assert [one.piece.takers for one in wave] == [(0, 1, 2, 3)] * 4
    assert plan.shown_bytes == 256
    assert not any(one.is_private for one in wave)


def test_what_is_shown_begins_at_multiples_of_64() -> None:
    layout = Layout((3,), DeviceMatrix((1,)), ((),))
    target = Layout((3,), DeviceMatrix((2,)), ((),))
    plan = ReadingPlan(stored("abcde", layout), dict.fromkeys("abcde", target), 0, 2)
    (wave,) = plan.waves
    # 12 bytes each, to the first and the second rank in turn.
    assert [(one.reader, one.offset) for one in wave] == [(0, 0), (1, 0), (0, 64), (1, 64), (0, 128)]
    assert plan.shown_bytes == 192


@pytest.mark.parametrize(("wave_bytes", "lengths"), [(1024, [4]), (1023, [3, 1]), (512, [2, 2]), (511, [1] * 4)])
def test_a_wave_holds_so_many_bytes_for_each_rank(wave_bytes: int, lengths: list[int]) -> None:
    # Each of the four pieces of 256 bytes arrives on both ranks.
    target = Layout((8, 16), DeviceMatrix((2,)), ((), ()))
    plan = ReadingPlan(stored("ab"), dict.fromkeys("ab", target), 0, 2, wave_bytes)
    assert [len(wave) for wave in plan.waves] == lengths


def test_rows_longer_than_a_wave_are_read_one_by_one() -> None:
    target = Layout((8, 16), DeviceMatrix((2,)), ((), ()))
    plan = ReadingPlan(stored("a"), {"a": target}, 0, 2, 32)
    pieces = [one.piece for wave in plan.waves for one in wave]
    assert [piece.box for piece in pieces] == [Box((row, 0), (row + 1, 16)) for row in range(8)]
    assert [piece.first for piece in pieces] == [0, 16, 32, 48] * 2


def test_a_large_slice_that_several_want_is_read_in_parts_by_them() -> None:
    layout = Layout((4, 1 << 20), DeviceMatrix((1,)), ((), ()))
    target = Layout((4, 1 << 20), DeviceMatrix((3,)), ((), ()))
    plan = ReadingPlan(stored("a", layout), {"a": target}, 0, 3)
    (wave,) = plan.waves
    # 16 MiB of which each may read 4 MiB or more: three parts, of two rows, one and one.
    assert sorted((one.reader, one.nbytes >> 20) for one in wave) == [(0, 8), (1, 4), (2, 4)]


def test_own_parts_are_known_by_their_places() -> None:
    columns = Layout((8, 16), DeviceMatrix((4,)), ((), (0,)))
    plan = ReadingPlan(stored("a"), {"a": columns}, 2, 4)
    first, second = (one.piece for wave in plan.waves for one in wave)
    assert (first.own, second.own) == (Box((0, 8), (4, 12)), Box((4, 8), (8, 12)))
    held, piece = np.zeros((8, 4)), np.zeros((4, 16))
    held[second.target] = 1
    piece[second.place] = 1
    assert held.sum(axis=1).tolist() == [0] * 4 + [4] * 4
    assert piece.sum(axis=0).tolist() == [0] * 8 + [4] * 4 + [0] * 4


def test_a_rank_that_wants_nothing_has_no_part() -> None:
    target = Layout((8, 16), DeviceMatrix((2,), 1), ((0,), ()))
    plan = ReadingPlan(stored("a"), {"a": target}, 0, 3)
    readings = [one for wave in plan.waves for one in wave]
    assert [(one.reader, one.piece.takers, one.is_private, one.piece.own) for one in readings] == [
        (1, (1,), True, None),
        (2, (2,), True, None),
    ]
    assert plan.shown_bytes == 0


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ({"a": WHOLE, "v": WHOLE}, 'tensor "v" is not in the checkpoint; load the network that was saved'),
        (
            {"a": Layout((8, 17), DeviceMatrix((4,)), ((), ()))},
            'tensor "a" has shape (8, 16) in the checkpoint, (8, 17) in the network; load the network that was saved',
        ),
    ],
)
def test_a_network_that_was_not_saved_is_told(targets: dict[str, Layout], said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        check_stored(stored("ab"), targets)
    assert str(caught.value) == said
    check_stored(stored("ab"), {"a": WHOLE})


@pytest.mark.parametrize("hosts", [None, (0, 1), (0, 0)])
def test_given_arrays_that_fit_are_filled_and_others_left_alone(hosts: tuple[int, ...] | None, tmp_path: Path) -> None:
    values = np.arange(128.0, dtype=np.float32).reshape(8, 16)
    target = Layout((8, 16), DeviceMatrix((2,)), ((), (0,)))

    def save(world: Communicator) -> None:
        arrays = {name: values[4 * world.rank : 4 * world.rank + 4] for name in "abc"}
        save_shards(tmp_path, "net", 1, 1, arrays, dict.fromkeys("abc", ROWS), world)

    def load(world: Communicator) -> None:
        into = {"a": np.zeros((8, 8), np.float32), "b": np.zeros((8, 8)), "c": np.zeros((8, 9), np.float32)}
        with StoredState.of_manifest(tmp_path, newest(tmp_path)) as state:
            found = load_state(state, dict.fromkeys("abc", target), world, into=into)
        assert [found[name] is into[name] for name in "abc"] == [True, False, False]
        assert not into["b"].any()
        assert not into["c"].any()
        for name in "abc":
            np.testing.assert_array_equal(found[name], values[:, 8 * world.rank : 8 * world.rank + 8], strict=True)

    run_world(2, save)
    run_world(2, load, hosts=hosts)


def test_what_one_host_has_read_alone_arrives_on_the_others(tmp_path: Path) -> None:
    one = Layout((3,), DeviceMatrix((1,)), ((),))
    values = np.arange(3.0)
    run_world(1, lambda world: save_shards(tmp_path, "net", 1, 1, {"w": values}, {"w": one}, world))

    def load(world: Communicator) -> None:
        with StoredState.of_manifest(tmp_path, newest(tmp_path)) as state:
            found = load_state(state, {"w": Layout((3,), DeviceMatrix((3,)), ((),))}, world)
        np.testing.assert_array_equal(found["w"], values, strict=True)

    run_world(3, load, hosts=(0, 1, 2))
