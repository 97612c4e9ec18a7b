"""What a stage runs is told by the actions of its schedule, each in its place."""

from __future__ import annotations

from itertools import groupby

import pytest

from mpiparallel.communication.threads import run_world
from mpiparallel.pipeline import make_schedule
from mpiparallel.pipeline.action import Action, Kind
from tests.unit.train.staged_networks import Case, make_model, rows

ENDINGS = "R", "U"


def done(communicator, case: Case) -> list[str]:
    """Return the actions to which the nodes of a rank belong, in the order in which it runs them."""
    model, _ = make_model(case)
    model.train(1, rows(8), dataset_sink_mode=False)
    (program,) = model.train_network.program.programs
    return [str(action) for action, _ in groupby(node.notes.action for node in program.local.nodes) if action]


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zb_h1"])
def test_a_rank_does_every_action_of_its_stage_in_the_order_of_the_schedule(name: str) -> None:
    schedule = make_schedule(name, 2, 4)
    found = run_world(4, done, Case(schedule={"pipeline_scheduler": name}))
    for rank, actions in enumerate(found):
        of_stage = [str(one) for one in schedule.actions[rank // 2] if not _is_of_first(one, rank // 2)]
        # Sums over ranks go as soon as they can, so in several pieces, some of them amid the update.
        assert [one for one in actions if one not in ENDINGS] == [one for one in of_stage if one not in ENDINGS]
        assert actions[-1] in ENDINGS
        assert set(ENDINGS) <= set(actions)


@pytest.mark.parametrize(
    ("stages", "name"), [((0, 0, 0, 1, 1, 1), "zb_h1"), ((0, 1, 2, 2), "zb_h1"), ((0, 0, 1, 1, 0, 0), "zb_v")]
)
def test_who_asks_for_no_schedule_gets_the_one_with_the_smallest_bubble_for_such_stages(
    stages: tuple[int, ...], name: str
) -> None:
    def schedule(communicator) -> str:
        model, _ = make_model(Case(stages=stages))
        staged = model.build(rows(8))
        assert staged is not None
        assert staged.schedule is not None
        return staged.schedule.name

    assert set(run_world(max(stages) + 1, schedule)) == {name}


def _is_of_first(action: Action, stage: int) -> bool:
    """Return whether it is an input gradient of the first stage, which nobody waits for."""
    return stage == 0 and action.kind is Kind.INPUT_GRADIENT
