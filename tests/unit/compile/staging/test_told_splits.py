"""The whole sentence about stages that are split over hosts, and what holds for all micro-batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.staging.ends_of_sends import EndsOfSends
from mpiparallel.compile.staging.one_micro_batch import repeated
from mpiparallel.compile.staging.split_stages import remark_split_stages, unsplit
from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.graph import Graph, Node, Notes
from mpiparallel.pipeline import make_schedule
from mpiparallel.pipeline.action import Action, Kind

ADVICE = (
    "split over hosts, so what ranks of a stage exchange crosses the network; pipeline_stages={} has each stage on one "
    "host, as has a launcher that fills one host after another"
)


@pytest.mark.parametrize(
    ("stages", "hosts", "told"),
    [
        (
            [[0, 1], [2, 3]],
            [0, 1, 0, 1],
            f"stage 0 (ranks 0-1), stage 1 (ranks 2-3) are {ADVICE.format([[0, 2], [1, 3]])}",
        ),
        ([[0], [1, 2], [3]], [0, 0, 2, 2], f"stage 1 (ranks 1-2) is {ADVICE.format([[2], [0, 1], [3]])}"),
        ([[0, 1], [2, 3]], [0, 0, 2, 2], None),
        ([[0, 1, 2], [3]], [0, 0, 2, 2], None),
    ],
)
def test_stages_that_are_split_are_told_with_ranks_that_split_none(
    stages: list[list[int]], hosts: list[int], told: str | None, remarks: Callable[[], list[str]]
) -> None:
    remark_split_stages(stages, hosts)
    assert remarks() == ([] if told is None else [f"pipeline_stages: {told}"])


@pytest.mark.parametrize(
    ("stages", "hosts", "wanted"),
    [
        ([[5]], [9] * 6, [[5]]),
        ([[0, 1], [2]], [0, 0, 0], [[0, 1], [2]]),
        # The largest chooses first; of hosts with room the first is taken.
        ([[0], [1, 2], [3, 4, 5]], [0, 0, 0, 3, 3, 3], [[3], [4, 5], [0, 1, 2]]),
        ([[0, 1, 2], [3]], [0, 0, 2, 2], None),
    ],
)
def test_ranks_are_shared_out_so_that_no_stage_is_split_if_they_can_be(
    stages: list[list[int]], hosts: list[int], wanted: list[list[int]] | None
) -> None:
    found = unsplit(stages, hosts)
    if wanted is None:
        assert found is None
        return
    assert found is not None
    assert sorted(rank for ranks in found for rank in ranks) == sorted(rank for ranks in stages for rank in ranks)
    assert [len(ranks) for ranks in found] == [len(ranks) for ranks in stages]
    assert all(len({hosts[rank] for rank in ranks}) == 1 for ranks in found)


def test_what_is_found_for_one_micro_batch_is_that_of_the_same_operator_in_all() -> None:
    spec, other = (TensorSpec((2, size), np.dtype(np.float32)) for size in (2, 3))

    def node(graph: Graph, name: str, micro_batch: int | None, of: TensorSpec = spec, **others: Node) -> Node:
        notes = Notes(micro_batch=micro_batch, **others)
        return graph.add_node(ops.ReLU(), name, [graph.add_input("x", of)], [of], notes)

    piece, whole = Graph(), Graph()
    cut = ((2, 1),)
    of_piece = Strategies({node(piece, "relu", 0): cut, node(piece, "unused", 0): ((1, 2),)})
    first, second = node(whole, "relu", 0), node(whole, "relu", 1)
    node(whole, "relu", 0, other)
    node(whole, "other", 0)
    node(whole, "relu", None)
    node(whole, "relu", 1, origin=first)
    assert repeated(of_piece, whole) == {first: cut, second: cut}
    # Where nothing is of a micro-batch, they are those of the graph itself.
    in_one, alone = Graph(), Graph()
    kept = Strategies({node(alone, "relu", None): cut})
    node(in_one, "relu", None)
    assert repeated(kept, in_one) == kept.inputs


_F, _I, _W = Kind.FORWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT


@pytest.mark.parametrize(
    ("source", "taking", "before"),
    [
        # What the second stage takes from 1 on is waited for by what the first begins later than that.
        (0, (_F, 0), (_W, 0)),
        (0, (_F, 1), (_W, 1)),
        (0, (_W, 1), (_W, 1)),
        (1, (_W, 0), (_I, 1)),
        # After the last computation there is only the end of the step.
        (1, (_W, 1), None),
    ],
)
def test_a_stage_waits_for_a_send_before_its_first_computation_that_begins_later_than_what_takes_it(
    source: int, taking: tuple[Kind, int], before: tuple[Kind, int] | None
) -> None:
    """By 1f1b the stages begin F0 F1 W0 W1 at 0 1 4 7 and F0 I0 W0 F1 I1 W1 at 1 to 6.

    The first has no input gradients: nobody wants that of a batch.
    """
    schedule = make_schedule("1f1b", stages=2, micro_batches=2)

    def place(stage: int, kind: Kind, micro_batch: int) -> int:
        return schedule.actions[stage].index(Action(kind, micro_batch, 0))

    found = EndsOfSends(schedule).before(source, 1 - source, place(1 - source, *taking))
    assert found == (None if before is None else place(source, *before))
