"""The strategies of the operators of a network, and the stages of its cells, by their places in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mpiparallel.errors import StrategyError
from mpiparallel.graph.operator import Operator, Strategy
from mpiparallel.graph.parameter import Parameter
from mpiparallel.nn.cell import Cell

OperatorCuts = dict[str, tuple[Strategy | None, Strategy | None]]
"""The strategies of the inputs and of the outputs of operators, by their places."""
_SHOWN = 3


def operators_of(network: Cell) -> dict[str, Operator]:
    """Return the operators that a network and the cells in it have as attributes, also in lists, by their places.

    >>> from mpiparallel import nn
    >>> list(operators_of(nn.SequentialCell([nn.Dense(2, 3)])))
    ['0.matmul', '0.bias_add']
    """
    found: dict[str, Operator] = {}
    for place, cell in network.cells_and_names():
        for name, item in vars(cell).items():
            for key, operator in _operators_in(item):
                found[".".join(part for part in (place, name, key) if part)] = operator
    return found


def _operators_in(item: Any) -> Iterator[tuple[str, Operator]]:
    if isinstance(item, Operator):
        yield "", item
    elif isinstance(item, (list, tuple)):
        yield from ((str(index), one) for index, one in enumerate(item) if isinstance(one, Operator))
    elif isinstance(item, Mapping):
        yield from ((str(key), one) for key, one in item.items() if isinstance(one, Operator))


def cuts_of(network: Cell) -> OperatorCuts:
    """Return the strategies of each operator, None where it has none."""
    return _cuts(operators_of(network))


def _cuts(operators: Mapping[str, Operator]) -> OperatorCuts:
    return {place: (operator.strategy, operator.out_strategy) for place, operator in operators.items()}


def set_cuts(network: Cell, cuts: OperatorCuts) -> None:
    """Give operators other strategies."""
    operators = operators_of(network)
    for place, strategies in cuts.items():
        operators[place].strategy, operators[place].out_strategy = strategies


def stages_of(network: Cell) -> dict[str, int]:
    """Return the stage of each cell that has been put into one."""
    return {place: cell.pipeline_stage for place, cell in network.cells_and_names() if cell.pipeline_stage is not None}


def set_stages(network: Cell, stages: Mapping[str, int]) -> None:
    """Put cells into other stages, and all others into none."""
    for place, cell in network.cells_and_names():
        cell.pipeline_stage = stages.get(place)


def merge_stages(network: Cell, count: int) -> None:
    """Put cells into fewer stages, neighbours together; where there are not more, they stay where they are.

    >>> from mpiparallel import nn
    >>> network = nn.SequentialCell([nn.ReLU() for _ in range(3)])
    >>> set_stages(network, {"0": 0, "1": 1, "2": 2})
    >>> merge_stages(network, 2)
    >>> stages_of(network)
    {'0': 0, '1': 0, '2': 1}
    """
    stages = stages_of(network)
    before = max(stages.values(), default=0) + 1
    if 1 < count < before:
        set_stages(network, {place: stage * count // before for place, stage in stages.items()})


def cuts_like(network: Cell, twin: Cell) -> OperatorCuts:
    """Return the strategies of ``twin`` for ``network``.

    Raises StrategyError unless both have the same operators, and parameters of the same names and shapes.
    """
    own, other = operators_of(network), operators_of(twin)
    unlike = [place for place in (*own, *other) if type(own.get(place)) is not type(other.get(place))]
    found = ", ".join(dict.fromkeys(unlike[:_SHOWN])) or "; ".join(_unlike_parameters(network, twin)[:_SHOWN])
    if found:
        raise StrategyError(
            f"Model.reshard: the network given as strategy, a {type(twin).__name__}, differs from the model's, a "
            f"{type(network).__name__}, in {found}; make it as the model's was made, but for the cuts"
        )
    return _cuts(other)


def _unlike_parameters(network: Cell, twin: Cell) -> list[str]:
    """Return what is said of each parameter that is not the same in both."""
    own, other = _kept(network), _kept(twin)
    told = []
    for place in dict.fromkeys((*own, *other)):
        here, there = own.get(place), other.get(place)
        if here is None or there is None:
            told.append(f"parameter {place!r}, which only {'the given one' if here is None else 'the model'} has")
        elif here.shape != there.shape:
            told.append(f"parameter {here.name!r}, whose shape is {there.shape}, not {here.shape}")
        elif not _are_one_name(here.name, there.name, place):
            told.append(f"parameter {here.name!r}, whose name is {there.name!r}")
    return told


def _kept(network: Cell) -> dict[str, Parameter]:
    return {place: one for place, one in network.parameters_and_names() if not one.transient}


def _are_one_name(name: str, other: str, place: str) -> bool:
    """Return whether parameters of one place have one name; a cell around a network renames what is in it."""
    return name == other or any(one.endswith(f".{place}") for one in (name, other))
