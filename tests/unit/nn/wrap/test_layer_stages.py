"""Layers of a network by name, and how they are put into stages by counts and by names."""

from __future__ import annotations

import re
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops
from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.wrap.layer_stages import layers_of, put_by_cost, put_by_counts, put_by_names
from mpiparallel.parallel.configuration import ParallelConfiguration


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


def put(network: nn.Cell, x: Any, micro_size: int, schedule: Any = None, memory: float = inf) -> list[int | None]:
    """Put the layers of a network into two stages of a rank each by what they cost, and return their stages."""
    configuration = ParallelConfiguration(device_num=2, pipeline_stages=2, pipeline_schedule=schedule)
    put_by_cost(network, network, [Tensor(np.ones(x, np.float32))], micro_size, memory, configuration)
    return stages(network)


def dense(*widths: int) -> nn.Cell:
    return nn.SequentialCell(*(nn.Dense(*pair) for pair in pairwise(widths)))


@pytest.mark.parametrize(
    ("layers", "micro_size", "schedule", "wanted"),
    [
        (4, 3, None, [0, 1, 1, 0]),
        (4, 2, None, [0, 0, 1, 1]),
        (3, 3, None, [0, 1, 1]),
        (4, 3, "1f1b", [0, 0, 1, 1]),
        (4, 4, "interleaved_1f1b", [0, 1, 0, 1]),
    ],
)
def test_stages_are_a_v_from_two_layers_a_stage_and_three_micro_batches_on(
    layers: int, micro_size: int, schedule: str | None, wanted: list[int]
) -> None:
    assert put(dense(*[4] * (layers + 1)), (2, 4), micro_size, schedule) == wanted


def test_a_stage_needs_four_copies_of_its_weights_and_what_the_schedule_holds() -> None:
    network = dense(6, 4, 4, 2)
    # Of 4 bytes: 28, 20 and 10 weights; 16, 16 and 8 activations of two rows, as products and with their biases.
    weights, held = [112, 80, 40], [64, 64, 32]
    # All three micro-batches are held; the second stage has the gradients of one besides, which wait for its weights.
    first, second = 4 * weights[0] + 3 * held[0], 4 * sum(weights[1:]) + 4 * sum(held[1:])
    assert first < second
    assert put(network, (2, 6), 3, "gpipe", second) == [0, 1, 1]
    said = f"cut into the 2 parts of the schedule under stage_memory {second - 1}, where the smallest layer needs"
    with pytest.raises(ConfigurationError, match=f"the 3 layers cannot be {said} {4 * weights[2] + 3 * held[2]} bytes"):
        put(network, (2, 6), 3, "gpipe", second - 1)


@pytest.mark.parametrize(("width", "reads", "wanted"), [(16, 6, [0, 0, 1]), (20, 7, [0, 1, 1])])
def test_a_byte_that_is_read_or_written_takes_as_long_as_four_operations(
    width: int, reads: int, wanted: list[int]
) -> None:
    class Last(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            for _ in range(reads):
                x = ops.ReLU()(x)
            return x

    # Of two rows: the operations, and the bytes that are read and written, of the product and of all that is last.
    product, last = 4 * width**2 + 4 * 4 * (4 * width + width**2), reads * (2 * width + 4 * 4 * 4 * width)
    network = nn.SequentialCell(nn.Dense(width, width, has_bias=False), leaf(), Last())
    assert put(network, (2, width), 2, "1f1b") == ([0, 0, 1] if last > product else [0, 1, 1]) == wanted
