"""In which float types cells compute, when they are compiled, and how what is inside them is named and placed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import Tensor, nn
from mpiparallel.graph.precision import OneType


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.reset_auto_parallel_context()


class Sum(nn.Cell):
    """It returns a sum, the type in which its inputs came, and how it was trained."""

    def construct(self, x: Any, y: Any = None, *, z: Any = None) -> Any:
        given = [one for one in (x, y, z) if one is not None]
        total = given[0]
        for one in given[1:]:
            total = total + one
        return total


X, N = np.array([1.0, 2.0], np.float32), np.array([3, 4], np.int32)


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
@pytest.mark.parametrize("kind", [np.float16, np.float64, ms.float16, "float64"])
def test_floats_are_cast_to_the_type_in_which_a_cell_computes_by_place_and_by_name(mode: int, kind: Any) -> None:
    ms.set_context(mode=mode)
    cell = Sum().to_float(kind)
    wanted = np.dtype(kind)
    for found in (cell(Tensor(X)), cell(Tensor(X), Tensor(X)), cell(Tensor(X), z=Tensor(X)), cell(Tensor(X), 0.5)):
        assert found.dtype == wanted
    assert cell(Tensor(N)).dtype == np.int32


def test_a_type_holds_for_all_cells_inside_and_one_that_is_set_for_one_of_them_for_that_alone() -> None:
    inner, outer = nn.Dense(2, 2), nn.SequentialCell()
    outer.append(inner)
    outer.to_float(np.float16)
    assert inner.precision == outer.precision == OneType(np.dtype(np.float16))
    inner.to_float(np.float32)
    assert outer(Tensor(X[None])).dtype == np.float32
    inner.set_precision(None)
    assert inner.precision is None


def test_results_are_given_the_type_that_is_said_and_integers_stay() -> None:
    cell = Sum()
    cell.set_precision(OneType(np.dtype(np.float16)), np.dtype(np.float32))
    assert cell(Tensor(X)).dtype == np.float32
    assert cell(Tensor(N)).dtype == np.int32
    # The sum was made in float16, which knows no 2049.
    assert cell(Tensor([2048.0]), Tensor([1.0])).tolist() == [2048.0]
    cell.set_precision(OneType(np.dtype(np.float16)))
    assert cell(Tensor(X)).dtype == np.float16


@pytest.mark.parametrize("flag", [True, False, 0, 3, 0.5, "text"])
def test_a_flag_is_an_attribute_on_which_what_is_compiled_may_depend(flag: Any) -> None:
    class Flagged(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return x * 2 if self.chosen == flag else x

    cell = Flagged(flags={"chosen": flag})
    assert (cell.chosen, cell.get_flags()) == (flag, {"chosen": flag})
    assert cell(Tensor(X)).tolist() == [2.0, 4.0]
    assert cell.add_flags(chosen="other") is cell
    assert cell(Tensor(X)).tolist() == [1.0, 2.0]


def test_flags_of_all_cells_inside_are_set_at_once() -> None:
    outer = nn.SequentialCell(nn.ReLU(), nn.SequentialCell(nn.ReLU()))
    assert outer.add_flags_recursive(chosen=1) is outer
    assert [cell.get_flags() for _, cell in outer.cells_and_names()] == [{"chosen": 1}] * 4


def test_programs_of_a_cell_and_of_those_inside_are_dropped_together_and_made_again() -> None:
    outer = nn.SequentialCell(nn.ReLU())
    inner = outer[0]
    for cell in (outer, inner):
        cell.compile(Tensor(X))
        assert len(cell.program.programs) == 1
    outer.forget_programs()
    assert (outer.program.programs, inner.program.programs) == ((), ())
    assert outer(Tensor(X)).tolist() == [1.0, 2.0]


def test_to_ask_for_no_gradients_changes_nothing_and_says_so(remarks: Callable[[], list[str]]) -> None:
    cell = nn.Dense(2, 1, "ones", "zeros")
    assert cell.set_grad() is cell
    assert remarks() == []
    assert cell.set_grad(False) is cell
    (line,) = remarks()
    assert "Cell.set_grad" in line
    assert "gradients are made where they are asked for" in line
    assert ms.grad(cell)(Tensor(X[None])).tolist() == [[1.0, 1.0]]


def test_operators_are_named_by_the_places_of_their_cells() -> None:
    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.SequentialCell(nn.ReLU())
            self.second = nn.Tanh()

        def construct(self, x: Tensor) -> Tensor:
            return self.second(self.first(x)) + 1

    names = [node.name for node in Outer().sharded_graph(X).graph.nodes]
    assert names == ["first/0/ReLU", "second/Tanh", "Add"]


def test_cells_are_in_their_stages_and_recomputed_where_that_is_said() -> None:
    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
            self.second.pipeline_stage = 1
            assert self.third.recompute(parallel_optimizer_comm_recompute=True) is self.third

        def construct(self, x: Tensor) -> Tensor:
            return self.third(self.second(self.first(x)))

    nodes = Outer().sharded_graph(X).graph.nodes
    assert [node.notes.stage for node in nodes] == [None, 1, None]
    assert [node.notes.segment is not None for node in nodes] == [False, False, True]


def test_a_graph_is_that_of_the_rank_of_the_configuration() -> None:
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=2, global_rank=1, full_batch=True, pipeline_stages=2
    )
    network = nn.SequentialCell(nn.ReLU(), nn.Tanh())
    network[0].pipeline_stage, network[1].pipeline_stage = 0, 1
    graph = network.sharded_graph(X).graph
    assert "Tanh" in {node.operator.name for node in graph.nodes}
    assert "ReLU" not in {node.operator.name for node in graph.nodes}
