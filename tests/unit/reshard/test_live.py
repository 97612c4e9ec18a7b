from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.live import Exchange, ReshardReport, reshard
from mpiparallel.reshard.plan import LayoutPair, plan_reshard

Layouts = Callable[..., st.SearchStrategy[Layout]]
Shapes = Callable[..., st.SearchStrategy[tuple[int, ...]]]
Arrays = dict[str, NDArray[Any]]
DTYPES = ["?", "i1", "<i2", ">i4", "u8", "<f2", "f4", ">f8", "g", "F", "D", "M8[us]", "S3", "U2", "V7"]

HALVES = Layout((6,), DeviceMatrix((2,)), ((0,),))
THIRDS = Layout((6,), DeviceMatrix((3,)), ((0,),))
WHOLE = Layout((6,), DeviceMatrix((3,)), ((),))


def random_bits(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
    """Return any bits at all: NaN payloads and padding must survive as well."""
    length = int(np.prod(shape)) * dtype.itemsize
    content = np.random.default_rng(seed).integers(0, 2 if dtype.kind == "b" else 256, length, np.uint8)
    if dtype.kind == "U":
        content = content.view(np.uint32) % 128
    return content.view(dtype).reshape(shape)


def part(whole: NDArray[Any], layout: Layout, rank: int) -> NDArray[Any]:
    return whole[(*layout.box(rank).within(Box.whole(whole.shape)), ...)]


def held(wholes: Arrays, layouts: dict[str, Layout], rank: int) -> Arrays:
    return {tensor: part(wholes[tensor], layout, rank) for tensor, layout in layouts.items() if rank in layout.devices}


def assert_same_bits(found: NDArray[Any], expected: NDArray[Any]) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@settings(deadline=None)
@given(data=st.data())
def test_reshard_gives_every_rank_the_slice_that_numpy_gives(
    layouts: Layouts, shapes: Shapes, data: st.DataObject
) -> None:
    wholes: Arrays = {}
    pairs: dict[str, LayoutPair] = {}
    for tensor in data.draw(st.lists(st.sampled_from("wbm"), min_size=1, max_size=3, unique=True)):
        dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
        wholes[tensor] = random_bits(data.draw(shapes()), dtype, data.draw(st.integers(0, 9)))
        pairs[tensor] = tuple(data.draw(layouts(wholes[tensor].shape, last_rank=8)) for _ in range(2))
    size = max(layout.devices.first_rank + layout.devices.size for pair in pairs.values() for layout in pair)
    sources, targets = ({tensor: pair[side] for tensor, pair in pairs.items()} for side in (0, 1))

    def move(communicator: Communicator) -> tuple[Arrays, ReshardReport]:
        arrays = held(wholes, sources, communicator.rank)
        result, report = reshard(arrays, pairs, communicator)
        for tensor in plan_reshard(pairs, communicator.rank).kept:
            assert result[tensor] is arrays[tensor]
        return result, report

    untouched = {tensor: whole.copy() for tensor, whole in wholes.items()}
    moved = run_world(size, move)
    for rank, (result, _) in enumerate(moved):
        expected = held(wholes, targets, rank)
        assert result.keys() == expected.keys()
        for tensor in expected:
            assert_same_bits(result[tensor], expected[tensor])
    for tensor, whole in wholes.items():
        assert_same_bits(whole, untouched[tensor])
    assert_report_is_right([report for _, report in moved], [result for result, _ in moved], pairs, wholes)


def assert_report_is_right(
    reports: list[ReshardReport], results: list[Arrays], pairs: dict[str, LayoutPair], wholes: Arrays
) -> None:
    sends = [transfer for rank in range(len(results)) for transfer in plan_reshard(pairs, rank).sends]
    assert len(set(reports)) == 1
    assert reports[0].bytes_moved == sum(send.box.size * wholes[send.tensor].itemsize for send in sends)
    assert reports[0].messages == len({(send.source, send.target) for send in sends})
    total = sum(array.nbytes for result in results for array in result.values())
    assert reports[0].bytes_moved + reports[0].bytes_kept == total
    assert reports[0].seconds > 0


def test_no_tensors_make_an_empty_state() -> None:
    for result, report in run_world(2, lambda communicator: reshard({}, {}, communicator)):
        assert result == {}
        assert (report.bytes_moved, report.bytes_kept, report.messages) == (0, 0, 0)


def test_a_group_that_holds_all_ranks_of_the_layouts_reshards_alone() -> None:
    source, target = (Layout((4,), DeviceMatrix((2,), 1), tensor_map) for tensor_map in (((0,),), ((),)))

    def move(communicator: Communicator) -> list[int] | None:
        if communicator.rank not in (1, 2):
            return None
        local = np.arange(4)[part(np.arange(4), source, communicator.rank)]
        group = communicator.group((1, 2))
        return list(reshard({"w": local}, {"w": (source, target)}, group)[0]["w"])

    assert run_world(4, move) == [None, [0, 1, 2, 3], [0, 1, 2, 3], None]


def refusals(size: int, function: Callable[[Communicator], object]) -> list[str]:
    """Return the ReshardError message of every rank; a rank without one fails the test."""

    def attempt(communicator: Communicator) -> str:
        with pytest.raises(ReshardError) as caught:
            function(communicator)
        return str(caught.value)

    return run_world(size, attempt)


def test_ranks_with_other_layouts_are_named_on_every_rank() -> None:
    def move(communicator: Communicator) -> object:
        target = WHOLE if communicator.rank == 1 else THIRDS
        return reshard({"w": np.zeros(2)}, {"w": (THIRDS, target)}, communicator)

    messages = refusals(3, move)
    assert len(set(messages)) == 1
    assert "ranks [1] were given other layouts than rank 0; nothing was moved" in messages[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"w": np.zeros(3)}, r"w on rank 1: .* gives this rank an array of shape (2,), got an array of shape (3,)"),
        ({"w": np.zeros(())}, r"w on rank 1: .* gives this rank an array of shape (2,), got an array of shape ()"),
        ({}, "w on rank 1: .* gives this rank an array of shape (2,), got no array"),
        ({"w": np.zeros(2), "v": np.zeros(2)}, "v on rank 1: .* gives this rank no array, got an array of shape (2,)"),
        ({"w": np.zeros(2, object)}, "w on rank 1: dtype object cannot be moved"),
        ({"w": np.zeros(2, "f4,i2")}, "w on rank 1: dtype .* cannot be moved"),
        ({"w": np.zeros(2, "V0")}, "w on rank 1: dtype .* cannot be moved"),
        ({"w": np.zeros(2, "f4")}, "w: arrays are float64 on ranks [0, 2], float32 on ranks [1]; nothing was moved"),
    ],
)
def test_an_array_that_does_not_fit_on_one_rank_is_refused_on_all(given: Arrays, message: str) -> None:
    def move(communicator: Communicator) -> object:
        arrays = given if communicator.rank == 1 else {"w": np.zeros(2)}
        return reshard(arrays, {"w": (THIRDS, WHOLE)}, communicator)

    messages = refusals(3, move)
    assert len(set(messages)) == 1
    start, _, rest = message.partition(".*")
    assert messages[0].startswith(start)
    assert rest in messages[0]


def test_an_array_on_a_rank_that_holds_nothing_before_is_refused() -> None:
    def move(communicator: Communicator) -> object:
        return reshard({"w": np.zeros(3)}, {"w": (HALVES, THIRDS)}, communicator)

    assert all("w on rank 2" in message and "no array, got" in message for message in refusals(3, move))


def test_a_communicator_without_all_ranks_of_the_layouts_is_refused() -> None:
    def move(communicator: Communicator) -> object:
        return reshard({"w": np.zeros(3)}, {"w": (HALVES, THIRDS)}, communicator)

    assert all("w: its layout is over ranks 0 to 2, the communicator over [0, 1]" in text for text in refusals(2, move))


def test_a_rank_without_memory_stops_all_ranks() -> None:
    extent = 1 << 60
    zeros_without_memory = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (extent,), (0,))
    source, target = (Layout((extent,), DeviceMatrix((1,), rank), ((),)) for rank in (0, 1))

    def move(communicator: Communicator) -> object:
        arrays = {"w": zeros_without_memory} if communicator.rank == 0 else {}
        return reshard(arrays, {"w": (source, target)}, communicator)

    assert all("rank 0 has not enough memory; nothing was moved" in message for message in refusals(2, move))


class BitFlip:
    """A communicator that damages one bit of what rank 1 receives in its first exchange of bytes."""

    def __init__(self, communicator: Communicator, position: int) -> None:
        self._communicator = communicator
        self._position = position
        self.exchanges = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._communicator, name)

    def all_to_all_v(
        self,
        source: NDArray[np.uint8],
        source_counts: Sequence[int],
        target: NDArray[np.uint8],
        target_counts: Sequence[int],
    ) -> None:
        self._communicator.all_to_all_v(source, source_counts, target, target_counts)
        self.exchanges += 1
        if self.exchanges == 1 and self._communicator.rank == 1:
            target[self._position] ^= 4


@pytest.mark.parametrize(("position", "sender"), [(0, 0), (17, 2), (31, 2)])
def test_a_damaged_bit_is_refused_on_every_rank_and_touches_no_array(position: int, sender: int) -> None:
    given = [np.full(2, rank, "f8") for rank in range(3)]

    def move(communicator: Communicator) -> object:
        damaged: Any = BitFlip(communicator, position)
        return reshard({"w": given[communicator.rank]}, {"w": (THIRDS, WHOLE)}, damaged)

    messages = refusals(3, move)
    assert set(messages) == {f"rank 1 received damaged bytes from ranks [{sender}]; no target was changed"}
    assert [array.tolist() for array in given] == [[0, 0], [1, 1], [2, 2]]


def test_an_exchange_runs_many_times_between_the_same_strided_arrays() -> None:
    pairs = {"w": (HALVES, THIRDS)}

    def move(communicator: Communicator) -> list[list[int]]:
        rank = communicator.rank
        source, target = np.zeros((6, 2), np.int16)[::2, 0], np.zeros((2, 3), np.int16)[:, 1]
        sources = {"w": source} if rank < 2 else {}
        exchange = Exchange(plan_reshard(pairs, rank), pairs, sources, {"w": target}, communicator)
        assert (exchange.bytes_sent, exchange.bytes_received) == [(2, 0), (4, 2), (0, 4)][rank]
        seen = []
        for step in (0, 10):
            source[:] = np.arange(3) + 3 * rank + step
            exchange.run()
            seen.append(target.tolist())
        return seen

    assert run_world(3, move) == [[[0, 1], [10, 11]], [[2, 3], [12, 13]], [[4, 5], [14, 15]]]


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ({"w": np.zeros(2)}, {"w": np.zeros(2)}, r"w on rank 0: expected an array of shape \(3,\), got an .* \(2,\)"),
        ({}, {"w": np.zeros(2)}, r"w on rank 0: expected an array of shape \(3,\), got no array"),
        ({"w": np.zeros(3)}, {}, r"w on rank 0: expected an array of shape \(2,\), got no array"),
        ({"w": np.zeros(3)}, {"w": np.zeros(2, "f4")}, "w on rank 0: the target is float32, the source float64"),
    ],
)
def test_an_exchange_refuses_arrays_that_do_not_fit(sources: Arrays, targets: Arrays, message: str) -> None:
    pairs = {"w": (HALVES, THIRDS)}

    def bind(communicator: Communicator) -> None:
        if communicator.rank == 0:
            with pytest.raises(ReshardError, match=message):
                Exchange(plan_reshard(pairs, 0), pairs, sources, targets, communicator)

    run_world(3, bind)


@pytest.mark.parametrize("verify", [True, False])
def test_an_exchange_may_number_its_members_as_the_plan_does(verify: bool) -> None:
    pairs = {"w": (THIRDS, WHOLE)}

    def move(communicator: Communicator) -> list[int]:
        numbers = (2, 0, 1)
        rank = numbers[communicator.rank]
        source, target = part(np.arange(6), THIRDS, rank), np.zeros(6, int)
        plan = plan_reshard(pairs, rank)
        Exchange(plan, pairs, {"w": source}, {"w": target}, communicator, ranks=numbers, verify=verify).run()
        return target.tolist()

    assert run_world(3, move) == [list(range(6))] * 3


def test_an_exchange_without_verification_sends_no_checksums() -> None:
    pairs = {"w": (HALVES, THIRDS)}

    def exchanges(communicator: Communicator, verify: bool) -> int:
        counting: Any = BitFlip(communicator, position=0)
        sources = {"w": np.zeros(3)} if communicator.rank == 0 else {"w": np.ones(3)} if communicator.rank == 1 else {}
        plan = plan_reshard(pairs, communicator.rank)
        exchange = Exchange(plan, pairs, sources, {"w": np.zeros(2)}, counting, verify=verify)
        if verify:
            with pytest.raises(ReshardError, match="damaged"):
                exchange.run()
        else:
            exchange.run()
        return counting.exchanges

    assert run_world(3, exchanges, True) == [2, 2, 2]
    assert run_world(3, exchanges, False) == [1, 1, 1]


@pytest.mark.parametrize(("size", "rank"), [(2, 1), (3, 0)])
def test_an_exchange_refuses_a_communicator_of_other_ranks(size: int, rank: int) -> None:
    pairs = {"w": (HALVES, THIRDS)}

    def bind(communicator: Communicator) -> None:
        if communicator.rank == rank:
            with pytest.raises(ReshardError, match="the plan of rank 1 exchanges with ranks"):
                Exchange(plan_reshard(pairs, 1), pairs, {"w": np.zeros(3)}, {"w": np.zeros(2)}, communicator)

    run_world(size, bind)
