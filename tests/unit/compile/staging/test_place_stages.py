"""Stages that cannot be: what is said of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.compile.staging import place_stages
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.train.staged_networks import Case, columns, make_model


def laid_out(**given: Any) -> StagedGraph:
    case = Case(settings={"device_num": 4, "global_rank": 0}, micro_size=2, **given)
    model, _ = make_model(case)
    return model.shard([*columns(8)], current_configuration())


def test_no_more_values_may_cross_between_stages_than_messages_have_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of each micro-batch two values and their gradients, and one loss of all.
    crossings = 9
    monkeypatch.setattr(place_stages, "_MOST_CROSSINGS", crossings)
    laid_out()
    monkeypatch.setattr(place_stages, "_MOST_CROSSINGS", crossings - 1)
    with pytest.raises(ConfigurationError) as caught:
        laid_out()
    assert str(caught.value) == (
        f"pipeline_stages: {crossings} values cross between stages in a step, more than {crossings - 1}; take fewer "
        "micro-batches"
    )


def keeping(name: str, layout: Layout) -> Any:
    """Return a stage that keeps one parameter."""
    graph = Graph()
    graph.add_parameter(Parameter(np.ones(8, np.float32), name), TensorSpec((8,), np.dtype(np.float32)))
    return SimpleNamespace(graph=graph, stored={name: layout})


def test_of_a_parameter_that_stages_keep_differently_the_stages_and_layouts_are_named() -> None:
    halves, same, whole = (
        Layout((8,), DeviceMatrix((2,), first), (axes,)) for first, axes in ((0, (0,)), (2, (0,)), (4, ()))
    )
    alike = StagedGraph((keeping("w", halves), keeping("w", same), keeping("v", whole)))
    assert [alike.stored["w"].box(rank) for rank in (0, 1, 2, 3)] == [Box((0,), (4,)), Box((4,), (8,))] * 2
    apart = StagedGraph((keeping("w", halves), keeping("v", whole), keeping("w", whole)))
    with pytest.raises(ConfigurationError) as caught:
        apart.stored  # noqa: B018
    assert str(caught.value) == (
        f"parameter 'w': stages [0, 2] of the pipeline use it, and cut it differently: {halves}; {whole}; give the "
        "operators on it strategies that cut it alike"
    )
