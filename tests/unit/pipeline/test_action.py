"""How actions of a stage are told in words, and written."""

from __future__ import annotations

import pytest

from mpiparallel.pipeline import Action, Kind
from mpiparallel.pipeline.action import COMPUTATIONS, ENDINGS, REDUCE


@pytest.mark.parametrize(
    ("action", "written", "words"),
    [
        (Action(Kind.FORWARD, 3), "F3", "stage 2's forward pass of micro-batch 3"),
        (Action(Kind.FORWARD, 0, 2), "F0.2", "stage 2's forward pass through chunk 2 of micro-batch 0"),
        (Action(Kind.INPUT_GRADIENT, 1, 1), "I1.1", "stage 2's input gradient through chunk 1 of micro-batch 1"),
        (Action(Kind.WEIGHT_GRADIENT, 5), "W5", "stage 2's weight gradient of micro-batch 5"),
        (
            Action(Kind.SEND_ACTIVATIONS, 4, 0, 3),
            "F4>3",
            "stage 2's sending of the activations of micro-batch 4 to stage 3",
        ),
        (
            Action(Kind.RECEIVE_ACTIVATIONS, 4, 1, 0),
            "F4.1<0",
            "stage 2's receiving of the activations of micro-batch 4 from stage 0",
        ),
        (
            Action(Kind.SEND_GRADIENTS, 6, 0, 1),
            "I6>1",
            "stage 2's sending of the gradients of micro-batch 6 to stage 1",
        ),
        (
            Action(Kind.RECEIVE_GRADIENTS, 6, 0, 3),
            "I6<3",
            "stage 2's receiving of the gradients of micro-batch 6 from stage 3",
        ),
        (REDUCE, "R", "stage 2's sum of gradients over ranks"),
        (Action(Kind.UPDATE), "U", "stage 2's update"),
    ],
)
def test_an_action_is_written_in_short_and_told_in_words(action: Action, written: str, words: str) -> None:
    assert str(action) == written
    assert action.words_in(2) == words


def test_what_is_computed_for_each_micro_batch_and_what_once_a_step_make_up_all_but_messages() -> None:
    rest = {kind for kind in Kind if "SEND" not in kind.name and "RECEIVE" not in kind.name}
    assert {*COMPUTATIONS, *ENDINGS} == rest
    assert len(COMPUTATIONS) == 3
    assert [kind.words for kind in ENDINGS] == ["reduce", "update"]
