"""Each target rank gets what its strategy cuts out, and what cannot be given to it is told by name and rank."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.stored_state import StoredState, StoredTensor
from mpiparallel.checkpoint.strategy.merged_stages import StageParameters
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import MERGED_STAGE, LayoutItem, StrategyRecord
from mpiparallel.checkpoint.transform.checkpoints import transform_checkpoint_by_rank, transform_checkpoints
from mpiparallel.checkpoint.transform.replica_comparison import portions
from mpiparallel.checkpoint.transform.sliced_parameter import merge_slices
from mpiparallel.checkpoint.transform.stored_layout import global_shape, stored_layout
from mpiparallel.checkpoint.transform.target_slices import WHOLE, Target, strategy_stages
from mpiparallel.checkpoint.transform.target_slices import read_slices as slices_in_turn
from mpiparallel.errors import StrategyFileError, TransformError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform.stored_slices import numbers, read_slices, write_layouts, write_slices, write_state

ROWS = Layout((4, 6), DeviceMatrix((2,)), ((0,), ()))
ROWS_ITEM = LayoutItem((2,), ((0,), ()))


@pytest.mark.parametrize(
    ("count", "shown"),
    [(1, '"w0"'), (4, '"w0", "w1", "w2", "w3"'), (9, '"w0", "w1", "w2", "w3" and 5 more')],
)
def test_parameters_that_the_target_lacks_are_named_up_to_four(count: int, shown: str) -> None:
    target = Target((StageParameters({"v": ROWS_ITEM}, range(2)),))
    with pytest.raises(TransformError) as caught:
        target.check({"v": ROWS, **{f"w{index}": ROWS for index in range(count)}})
    assert str(caught.value) == (
        f"parameter {shown}: the source strategy cuts it, the target strategy has it not; give the dst_strategy_file "
        'of the network that has it, or missing="replicated" to give it whole to every rank, or missing="omitted" to '
        "leave it out"
    )


def test_what_is_whole_or_one_element_goes_to_every_rank_unnamed() -> None:
    layouts = {
        "v": ROWS,
        "whole": Layout((3, 5), DeviceMatrix((2,)), ((), ())),
        "one": Layout((1, 1), DeviceMatrix((2,)), ((0,), ())),
        "cut": ROWS,
    }
    boxes = {"v": Box((2, 0), (4, 6)), "whole": Box.whole((3, 5)), "one": Box.whole((1, 1))}
    stages = (StageParameters({"v": ROWS_ITEM}, range(2)),)
    omitting, replicating = Target(stages, "omitted"), Target(stages, "replicated")
    assert omitting.boxes(1, layouts) == boxes
    assert omitting.omitted(layouts) == ("cut",)
    assert replicating.boxes(1, layouts) == {**boxes, "cut": Box.whole((4, 6))}
    assert replicating.omitted(layouts) == ()
    assert Target(WHOLE).boxes(0, layouts) == {name: Box.whole(one.global_shape) for name, one in layouts.items()}


def test_of_what_each_source_rank_has_one_a_target_rank_gets_that_of_its_number_counted_round() -> None:
    own = {"mean": Layout((6,), DeviceMatrix((3,)), ((0,),))}
    target = Target((StageParameters({}, range(5)),))
    starts = [target.boxes(rank, own, own)["mean"].start for rank in range(5)]
    assert starts == [(0,), (2,), (4,), (0,), (2,)]


def test_a_parameter_of_one_pipeline_stage_is_on_its_ranks_alone() -> None:
    target = Target((StageParameters({"v": ROWS_ITEM}, range(2)), StageParameters({"w": ROWS_ITEM}, range(2, 4))))
    assert target.rank_count == 4
    boxes = [target.boxes(rank, {"v": ROWS, "w": ROWS}) for rank in range(4)]
    rows = [Box((0, 0), (2, 6)), Box((2, 0), (4, 6))]
    assert boxes == [{"v": rows[0]}, {"v": rows[1]}, {"w": rows[0]}, {"w": rows[1]}]


def test_a_strategy_tells_of_up_to_a_mebi_of_ranks_in_all_its_stages(tmp_path: Path) -> None:
    path, half = tmp_path / "s.ckpt", LayoutItem((1 << 19,), ((0,),))
    write_strategy(path, StrategyRecord({"w": LayoutItem((1 << 20,), ((0,),))}, {}))
    assert strategy_stages(path)[-1].ranks == range(1 << 20)
    two_stages = {"0-w": half, "1-w": half}
    write_strategy(path, StrategyRecord(two_stages, {}, MERGED_STAGE))
    assert [stage.ranks for stage in strategy_stages(path)] == [range(1 << 19), range(1 << 19, 1 << 20)]
    for ranks, record in [
        (2_097_152, StrategyRecord({"w": LayoutItem((1 << 21,), ((0,),))}, {})),
        (1_572_864, StrategyRecord({**two_stages, "2-w": half}, {}, MERGED_STAGE)),
    ]:
        write_strategy(path, record)
        words = f"s.ckpt: tells of {ranks} ranks, more than 1048576; it is damaged: write it again"
        with pytest.raises(StrategyFileError, match=words):
            strategy_stages(path)


def test_what_is_missing_is_named_with_up_to_eight_ranks_and_why(tmp_path: Path) -> None:
    devices = DeviceMatrix((2, 10))
    layouts = {f"w{index}": Layout((4, 2), devices, ((0,), ())) for index in range(5)}
    whole = {name: numbers((4, 2)) for name in layouts}
    write_state(tmp_path / "in", whole, layouts, 20)
    strategy = write_layouts(tmp_path / "s.ckpt", layouts)
    for rank in range(10, 20):
        shutil.rmtree(tmp_path / "in" / f"rank_{rank}")
    with pytest.raises(TransformError) as caught:
        transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", strategy)
    ranks = "rank 10 or 11 or 12 or 13 or 14 or 15 or 16 or 17"
    assert str(caught.value) == (
        "rank 0's checkpoint cannot be made: what it needs is missing, "
        + "; ".join(f'"w{index}": {ranks}' for index in range(4))
        + " and 1 more; give the file of one rank of each ("
        + "; ".join(f"rank {rank}: there is no file of it" for rank in range(10, 14))
        + " and 6 more)"
    )


def test_slices_of_several_mebibytes_are_written_one_after_the_other(tmp_path: Path) -> None:
    layouts = {name: Layout((3, 1 << 17), DeviceMatrix((1,)), ((), ())) for name in "ab"}
    whole = {name: numbers((3, 1 << 17), start=place) for place, name in enumerate("ab")}
    write_state(tmp_path / "in", {**whole, "few": numbers((3,))}, layouts, 1)
    report = transform_checkpoints(tmp_path / "in", tmp_path / "out", "net")
    found = read_slices(report.files[0])
    assert all((found[name] == whole[name]).all() for name in "ab")
    assert found["few"].tolist() == [0, 1, 2]


def test_copies_are_compared_to_their_last_element(tmp_path: Path) -> None:
    layout = {"w": Layout((3, 400_000), DeviceMatrix((2,)), ((), ()))}
    array = numbers((3, 400_000))
    strategy = write_layouts(tmp_path / "s.ckpt", layout)
    write_slices(tmp_path / "in" / "rank_0" / "net-1_7.ckpt", {"w": array})
    other = array.copy()
    other[-1, -1] += 1
    write_slices(tmp_path / "in" / "rank_1" / "net-1_7.ckpt", {"w": other})
    with pytest.raises(TransformError) as caught:
        transform_checkpoints(tmp_path / "in", tmp_path / "out", "net", strategy, compare_replicas=True)
    assert str(caught.value) == (
        'parameter "w" of rank 1 and of rank 0: the copies of a slice differ, so they are not of one step or one is '
        "damaged; remove the wrong file, and a replica stands in for it"
    )


@pytest.mark.parametrize("shape", [(), (1,), (7,), (1, 1, 5), (3, 0), (4, 5, 3)])
@pytest.mark.parametrize("most", [1, 2, 3, 60])
def test_portions_of_a_box_are_all_of_it_in_order(shape: tuple[int, ...], most: int) -> None:
    elements = np.arange(int(np.prod(shape))).reshape(shape)
    found = list(portions(Box.whole(shape), most))
    assert all(portion.size <= most for portion in found)
    values = [elements[tuple(map(slice, portion.start, portion.stop))].reshape(-1) for portion in found]
    assert sorted(np.concatenate(values).tolist()) == elements.reshape(-1).tolist()
    firsts = [int(value[0]) for value in values if value.size]
    assert firsts == sorted(firsts)


def test_how_long_a_dim_is_follows_from_parts_of_equal_length() -> None:
    item = LayoutItem((4, 2), ((0,), (1,)))
    assert global_shape(item, {0: (3, 5), 3: (3, 4)}) == (12, 9)
    assert global_shape(item, {rank: (rank // 2 + 1, 5 - rank % 2) for rank in range(8)}) == (10, 9)
    assert global_shape(item, {10: (3, 5), 13: (3, 4)}, 10) == (12, 9)
    with pytest.raises(TransformError) as caught:
        global_shape(item, {0: (3, 5), 2: (2, 5)})
    assert str(caught.value) == (
        "2 of 4 parts of dim 0 are there, of [2, 3] elements, so how long it is cannot be told; give the files of all "
        "ranks, or a .json strategy file, which has the shapes"
    )


@pytest.mark.parametrize("shape", [(7, 3), (9, 3), (8,), ()])
def test_bounds_of_the_user_must_fit_the_shape(shape: tuple[int, ...]) -> None:
    item = LayoutItem((2,), ((0,), *((),) * (len(shape) - 1))[: len(shape)], param_split_shape=(1, 7))
    if len(shape) == 1:
        assert stored_layout(item, shape).box(1) == Box((1,), (8,))
        return
    with pytest.raises(StrategyFileError) as caught:
        stored_layout(item, shape)
    assert str(caught.value) == (f"param_split_shape [1, 7] does not fit shape {shape}; use the file of this network")


@pytest.mark.parametrize(
    ("slices", "item", "said"),
    [
        ([], None, "there is no slice; give those of all ranks, in the order of the ranks"),
        (
            [numbers((2, 2))],
            LayoutItem((2, 2), ((0,), ())),
            "there are 1 slices for 4 ranks; give those of all, in their order",
        ),
        (
            [numbers((2,)), numbers((2,), "int8")],
            None,
            "the slice of rank 1 is int8 of shape (2,), where float32 of shape (2,) belongs; give the slices of one "
            "training, in the order of the ranks, and its strategy",
        ),
        (
            [numbers((2,)), numbers((2,)), numbers((2,)), numbers((2,), start=1)],
            LayoutItem((2, 2), ((0,),)),
            "ranks 2 and 3 hold the same slice, but with other values; give the slices of one step",
        ),
    ],
)
def test_slices_that_make_no_whole_are_told(
    slices: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]], item: LayoutItem | None, said: str
) -> None:
    with pytest.raises(TransformError) as caught:
        merge_slices(slices, item)
    assert str(caught.value) == said


def test_files_that_cannot_be_read_are_told_up_to_four(tmp_path: Path) -> None:
    strategy = write_layouts(tmp_path / "s.ckpt", {"w": Layout((6,), DeviceMatrix((6,)), ((0,),))})
    files = {rank: tmp_path / f"{rank}.ckpt" for rank in range(6)}
    with pytest.raises(TransformError) as caught:
        transform_checkpoint_by_rank(0, files, tmp_path / "x.ckpt", strategy)
    said = str(caught.value)
    assert said.startswith(f"no file can be read: {tmp_path}/0.ckpt: ")
    assert [f"{rank}.ckpt" in said for rank in range(6)] == [True, True, True, True, False, False]


def test_large_slices_lie_in_the_same_memory_one_after_the_other_and_small_ones_do_not(tmp_path: Path) -> None:
    lengths = {"large": 1 << 18, "larger": 1 << 19, "small": 100, "few": 50}
    arrays = {name: numbers((length,), "float64", start=length) for name, length in lengths.items()}
    write_slices(tmp_path / "one.npz", arrays)
    tensors = {
        name: StoredTensor(Layout.replicated(array.shape, DeviceMatrix((1,))), array.dtype)
        for name, array in arrays.items()
    }
    boxes = {name: Box.whole(array.shape) for name, array in arrays.items()}
    found = {}
    with StoredState.of_files({0: tmp_path / "one.npz"}, tensors) as state:
        for name, array in slices_in_turn(state, boxes):
            assert array.tobytes() == arrays[name].tobytes()
            found[name] = array
    assert np.may_share_memory(found["large"], found["larger"])
    assert not any(np.may_share_memory(found["small"], found[name]) for name in ("large", "larger", "few"))
