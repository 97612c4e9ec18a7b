"""Which layers stand for others, by the counts of those that are alike."""

from __future__ import annotations

import pytest

from mpiparallel import ops
from mpiparallel.graph.graph import Node, Notes
from mpiparallel.search.problem.choices import Choice
from mpiparallel.search.problem.folding import Folding, folding_of, tied
from mpiparallel.search.problem.likeness import Likeness

ORIGIN = Node(ops.ReLU(), "origin", ())


def kinds_of(*counts: int) -> tuple[list[list[Node]], Likeness]:
    """So many nodes of each kind; kinds of negative counts are of gradients."""
    kinds = [
        [Node(ops.ReLU(), "one", (), notes=Notes(origin=ORIGIN if count < 0 else None)) for _ in range(abs(count))]
        for count in counts
    ]
    numbers = {node: number for number, nodes in enumerate(kinds) for node in nodes}
    return kinds, Likeness({}, numbers)


def folded(*counts: int) -> tuple[list[list[Node]], Folding]:
    kinds, likeness = kinds_of(*counts)
    return kinds, folding_of([node for nodes in kinds for node in nodes], likeness)


@pytest.mark.parametrize("counts", [(7,), (-8,), (7, -20), ()])
def test_fewer_than_eight_layers_are_looked_at_one_by_one(counts: tuple[int, ...]) -> None:
    assert folded(*counts)[1] == Folding()


def test_the_third_of_eight_layers_stands_for_all_after_it() -> None:
    (nodes,), folding = folded(8)
    assert folding.stands_for == dict.fromkeys(nodes[3:], nodes[2])
    assert [folding.weight(node) for node in nodes] == [1, 1, 6, 0, 0, 0, 0, 0]
    assert folding.alike == dict.fromkeys(nodes, 0)
    assert folding.weight(ORIGIN) == 1


@pytest.mark.parametrize(
    ("counts", "are_folded"),
    [
        # What at least half of the layers have is folded, of gradients too.
        ((10, 5, 4, -5, -4), (True, True, False, True, False)),
        # There are as many layers as most kinds have nodes, and of equals the more.
        ((8, 8, 12, 4, 5), (True, True, True, True, True)),
        ((8, 12, 5, 6, -6), (True, True, False, True, True)),
        ((9, 4, 5), (True, False, True)),
    ],
)
def test_what_half_of_the_layers_have_is_folded(counts: tuple[int, ...], are_folded: tuple[bool, ...]) -> None:
    kinds, folding = folded(*counts)
    assert tuple(nodes[-1] in folding.stands_for for nodes in kinds) == are_folded
    assert {node for node, weight in folding.weights.items() if weight > 1} == {
        nodes[2] for nodes, one in zip(kinds, are_folded, strict=True) if one
    }
    for nodes, one in zip(kinds, are_folded, strict=True):
        assert folding.weight(nodes[2]) == (len(nodes) - 2 if one else 1)


def test_choices_of_one_layer_that_may_be_cut_alike_become_one() -> None:
    (nodes, others), folding = folded(8, 3)
    options = (((1,),), ((2,),))
    again = Node(ops.ReLU(), "again", ())
    choices = [
        Choice(nodes[0], options),
        Choice(others[0], options),
        Choice(nodes[1], options),
        Choice(nodes[2], options, (again,)),
        Choice(others[1], options),
        Choice(nodes[3], (*options, ((4,),))),
    ]
    found = tied(choices, folding)
    assert [choice.nodes for choice in found] == [
        (nodes[0], nodes[1]),
        (others[0],),
        (nodes[2], again),
        (others[1],),
        (nodes[3],),
    ]
    assert found[0].places == ((nodes[0],), (nodes[1],))
    assert tied(choices, Folding()) == tuple(choices)
