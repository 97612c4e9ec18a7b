"""A network in micro-batches: its layers and stages, what a search may change of it, and arguments that are wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Tensor, nn
from mpiparallel.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    ms.reset_auto_parallel_context()


def network(layers: int = 4) -> nn.SequentialCell:
    return nn.SequentialCell(*(nn.Dense(4, 4) for _ in range(layers)))


def in_stages(cell: nn.Cell) -> list[int | None]:
    return [one.pipeline_stage for one in cell.cells()]


@pytest.mark.parametrize("size", [0, -1, True, 1.0, "2", "Auto", None])
def test_a_batch_is_taken_in_a_whole_number_of_pieces(size: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^PipelineCell: micro_size {size!r} must be an integer of at least"):
        nn.PipelineCell(network(), size)


def test_a_number_of_pieces_that_is_to_be_found_is_one_until_then() -> None:
    cell = nn.PipelineCell(network(), "auto")
    assert (cell.finds_size, cell.micro_size) == (True, 1)
    cell.take(4, [])
    assert cell.micro_size == 4
    assert not nn.PipelineCell(network(), 1).finds_size


@pytest.mark.parametrize(
    ("stages", "wanted"),
    [
        ([1, 3], [0, 1, 1, 1]),
        ((2, 2), [0, 0, 1, 1]),
        ([["0", "1"], ["2", "3"]], [0, 0, 1, 1]),
        (["[01]", ("2", "3")], [0, 0, 1, 1]),
        (["0", "1", "2", "3"], [0, 1, 2, 3]),
        (None, [None] * 4),
        ("auto", [None] * 4),
    ],
)
def test_stages_are_counts_of_layers_or_names_of_cells(stages: Any, wanted: list[int | None]) -> None:
    for with_loss in (False, True):
        inner = network()
        cell = nn.PipelineCell(nn.WithLossCell(inner, nn.MSELoss()) if with_loss else inner, 2, stages=stages)
        assert in_stages(inner) == wanted
        assert cell.cuts_itself == (stages == "auto")
        assert cell.layers == tuple(inner.cells())


@pytest.mark.parametrize("stages", [[], (), 2, "0", [1, "0"], [[1]], [None], {"0": 0}, [["0", 1]], [1.0]])
def test_stages_that_are_neither_are_refused(stages: Any) -> None:
    said = f"PipelineCell: stages {stages!r} are not a number of layers for each stage, like [2, 4], nor names of cells"
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        nn.PipelineCell(network(), 2, stages=stages)


def test_a_stage_of_no_cell_is_refused_and_segments_are_not_offered() -> None:
    for name in ("", "4", "0.weight"):
        with pytest.raises(ConfigurationError, match=f"stage_config has {name!r}, and .* there are 0, 1, 2, 3$"):
            nn.PipelineCell(network(), 2, {name: 0})
    with pytest.raises(ConfigurationError, match="segment_config"):
        nn.PipelineCell(network(), 2, segment_config={"0": 1})


def test_a_search_recomputes_layers_of_which_the_user_has_not_said_so_and_may_change_its_mind() -> None:
    inner = network()
    inner[1].recompute()
    cell = nn.PipelineCell(inner, 2)
    assert cell.recomputable == (0, 2, 3)
    cell.take(3, [0, 1, 3])
    assert cell.micro_size == 3
    assert [one._recompute is not None for one in inner.cells()] == [True, True, False, True]
    assert cell.recomputable == (0, 2, 3)
    cell.take(2, {2})
    assert [one._recompute is not None for one in inner.cells()] == [False, True, True, False]


def test_stages_that_were_chosen_for_other_pieces_are_chosen_anew_and_those_of_the_user_stay() -> None:
    chosen, said = network(), network()
    for inner, stages in ((chosen, "auto"), (said, [2, 2])):
        cell = nn.PipelineCell(inner, 2, stages=stages)
        for stage, one in enumerate(inner.cells()):
            one.pipeline_stage = stage
        cell.take(2, [])
    assert in_stages(chosen) == [None] * 4
    assert in_stages(said) == [0, 1, 2, 3]


def test_stages_may_be_given_later() -> None:
    inner = network()
    nn.PipelineCell(inner, 2).put_in_stages([3, 1])
    assert in_stages(inner) == [0, 0, 0, 1]


@pytest.mark.parametrize(("layers", "stages"), [(4, [0, 0, 1, 1]), (3, [0, 1, 1]), (5, [0, 0, 1, 1, 1])])
def test_layers_of_equal_cost_are_shared_out_evenly(layers: int, stages: list[int]) -> None:
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        device_num=2,
        global_rank=0,
        pipeline_stages=2,
        pipeline_config={"pipeline_scheduler": "1f1b"},
    )
    inner = network(layers)
    cell = nn.PipelineCell(inner, 2, stages="auto")
    cell.staged_graph(np.ones((4, 4), np.float32))
    found = in_stages(inner)
    # The middle layer of an odd number may be in either.
    assert found in (stages, [1 - one for one in reversed(stages)])


@pytest.mark.parametrize(("rows", "size", "pieces"), [(4, 2, 2), (6, 4, 2), (5, 4, 1), (9, 6, 3), (1, 8, 1)])
def test_out_of_training_a_batch_is_taken_in_as_many_pieces_as_divide_it(rows: int, size: int, pieces: int) -> None:
    calls = []

    class Counting(nn.Cell):
        def construct(self, x: Tensor, scale: Any) -> Tensor:
            calls.append(x.shape)
            return x * scale

    x = np.arange(2.0 * rows).reshape(rows, 2)
    # What has no rows is given to each piece whole.
    found = nn.PipelineCell(Counting(), size)(Tensor(x), Tensor(3.0))
    assert found.asnumpy().tolist() == (3 * x).tolist()
    assert calls == [(rows // pieces, 2)] * pieces


def test_what_is_no_tensor_is_returned_as_the_first_piece_returns_it() -> None:
    class Named(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            return [x * 2, "name", x.mean()]

    doubled, name, mean = nn.PipelineCell(Named(), 2)(Tensor(np.array([[1.0], [5.0]])))
    assert (doubled.tolist(), name, mean.item()) == ([[2.0], [10.0]], "name", 3.0)


def test_parameters_are_named_as_without_pieces() -> None:
    inner = network(2)
    names = [one.name for one in inner.get_parameters()]
    cell = nn.PipelineCell(inner, 2)
    assert [one.name for one in cell.get_parameters()] == names == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_a_sum_over_a_batch_in_one_piece_is_that_of_the_batch_and_nothing_is_said(
    remarks: Callable[[], list[str]],
) -> None:
    class Total(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return x.sum()

    assert nn.PipelineCell(Total(), 1)(Tensor(np.arange(4.0))).item() == 6.0
    assert remarks() == []


def test_inputs_without_rows_are_given_to_each_piece_whole() -> None:
    class Doubled(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return x * 2

    assert nn.PipelineCell(Doubled(), 2)(Tensor(3.0)).item() == 6.0
