"""Layers of a network by name, and how they are put into stages by counts and by names."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mpiparallel import nn
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.wrap.layer_stages import layers_of, put_by_counts, put_by_names


class Holder(nn.Cell):
    """A cell with other cells under names of their own."""

    def __init__(self, **cells: nn.Cell) -> None:
        super().__init__()
        for name, cell in cells.items():
            setattr(self, name, cell)


def leaf() -> nn.Cell:
    return nn.ReLU()


@pytest.mark.parametrize(
    ("network", "names"),
    [
        (Holder(), []),
        (Holder(a=leaf(), b=leaf()), ["a", "b"]),
        (Holder(a=leaf(), blocks=nn.CellList([leaf(), leaf()]), z=leaf()), ["a", "blocks.0", "blocks.1", "z"]),
        (nn.SequentialCell(leaf(), nn.SequentialCell(leaf(), nn.SequentialCell(leaf()))), ["0", "1.0", "1.1.0"]),
        # A single cell with several inside is opened, one with a single cell inside is a layer.
        (Holder(net=Holder(a=leaf(), b=leaf())), ["net.a", "net.b"]),
        (Holder(net=Holder(body=Holder(a=leaf(), b=leaf()), head=leaf())), ["net.body", "net.head"]),
        (Holder(net=Holder(a=leaf())), ["net"]),
        (Holder(net=leaf()), ["net"]),
        (Holder(blocks=nn.CellList([Holder(a=leaf(), b=leaf())])), ["blocks.0.a", "blocks.0.b"]),
    ],
)
def test_layers_are_the_cells_of_a_network_in_order_those_of_lists_one_by_one(
    network: nn.Cell, names: list[str]
) -> None:
    assert [name for name, _ in layers_of(network)] == names


def stages(network: nn.Cell) -> list[int | None]:
    return [cell.pipeline_stage for _, cell in layers_of(network)]


@pytest.mark.parametrize(
    ("counts", "wanted"), [([3], [0, 0, 0]), ([1, 2], [0, 1, 1]), ([2, 1], [0, 0, 1]), ([1, 1, 1], [0, 1, 2])]
)
def test_counts_put_so_many_layers_into_each_stage(counts: list[int], wanted: list[int]) -> None:
    network = nn.SequentialCell(leaf(), leaf(), leaf())
    put_by_counts(network, counts)
    assert stages(network) == wanted


@pytest.mark.parametrize(("counts", "total"), [([2], 2), ([2, 2], 4), ([3, 0], 3), ([4, -1], 3), ([2, True], 3)])
def test_counts_that_are_not_those_of_the_layers_are_refused(counts: list[int], total: int) -> None:
    said = (
        f"PipelineCell: stages {counts} are {total} layers, and the network has 3: 0, 1, 2; give each stage at least "
        "one, and all of them together 3"
    )
    network = nn.SequentialCell(leaf(), leaf(), leaf())
    with pytest.raises(ConfigurationError, match=f"^{re.escape(said)}$"):
        put_by_counts(network, counts)
    assert stages(network) == [None] * 3


@pytest.mark.parametrize(("layers", "more"), [(12, ""), (13, ", ...")])
def test_twelve_layers_are_named_and_that_there_are_more(layers: int, more: str) -> None:
    names = ", ".join(map(str, range(12)))
    with pytest.raises(ConfigurationError, match=re.escape(f"has {layers}: {names}{more}; give each stage")):
        put_by_counts(nn.SequentialCell(*(leaf() for _ in range(layers))), [1])


def test_patterns_put_all_cells_of_such_names_into_a_stage() -> None:
    network = Holder(embedding=leaf(), blocks=nn.CellList([leaf(), leaf(), leaf()]), head=leaf())
    put_by_names(network, [["embedding", "blocks.[0-1]"], ["blocks.2", "hea*"]])
    assert stages(network) == [0, 0, 0, 1, 1]
    # The same stage twice is no conflict.
    put_by_names(network, [["embedding", "emb*"], ["head"]])
    assert stages(network)[0] == 0


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        ([["a"], ["c*"]], "no cell of the network has a name like 'c*' of stage 1; there are a, b"),
        ([["A"], ["b"]], "no cell of the network has a name like 'A' of stage 0; there are a, b"),
        (
            [["a", "b"], ["b*"]],
            "'b' is in stage 0 and, by 'b*', in stage 1; let each cell match the patterns of one stage",
        ),
    ],
)
def test_names_that_match_no_cell_or_two_stages_are_refused(patterns: list[list[str]], said: str) -> None:
    network: Any = Holder(a=leaf(), b=leaf())
    with pytest.raises(ConfigurationError, match=f"^PipelineCell: {re.escape(said)}$"):
        put_by_names(network, patterns)
