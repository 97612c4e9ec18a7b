"""A network with its cuts as text: its cells as a tree, what each operator moves, and who holds a parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from fnmatch import fnmatchcase

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.command_line.nearest import nearest
from mpiparallel.launch.plan.report import amount, duration
from mpiparallel.launch.simulate.report import cuts_text, head, several
from mpiparallel.search.forecast.forecast import Forecast, StageForecast
from mpiparallel.search.forecast.move import Move, collectives_of
from mpiparallel.search.forecast.operators import OperatorForecast
from mpiparallel.search.forecast.parameters import ParameterForecast

_MOST_PARTS = 16


@dataclass
class _Cell:
    """A cell: its operators and the cells in it, in the order in which they first run."""

    items: dict[str, _Cell | OperatorForecast] = field(default_factory=dict)

    def put(self, path: Sequence[str], operator: OperatorForecast) -> None:
        """Put an operator where its name says."""
        if len(path) == 1:
            self.items[path[0]] = operator
            return
        inner = self.items.setdefault(path[0], _Cell())
        if isinstance(inner, _Cell):
            inner.put(path[1:], operator)

    def signature(self) -> tuple[object, ...]:
        """Return what cells that are alike have in common."""
        return tuple(
            (name, item.signature())
            if isinstance(item, _Cell)
            else (name, item.operator, item.cuts, item.output, item.rule)
            for name, item in self.items.items()
        )


def network_text(forecast: Forecast, name: str) -> str:
    """Return the network of a forecast as a tree of its cells; of layers that are alike the first stands for all."""
    lines = [*head(forecast, name)]
    for number, stage in enumerate(forecast.stages):
        lines += ["", f"stage {number}, ranks {stage.ranks}" if len(forecast.stages) > 1 else "network"]
        lines += _stage_lines(stage)
    return "\n".join(lines)


def _stage_lines(stage: StageForecast) -> Iterator[str]:
    root = _Cell()
    for operator in stage.operators:
        root.put(operator.name.split("/"), operator)
    moves: dict[str, list[Move]] = {}
    for move in stage.moves:
        moves.setdefault(move.operator, []).append(move)
    yield from _lines(root, "", moves)


def _lines(cell: _Cell, indent: str, moves: dict[str, list[Move]]) -> Iterator[str]:
    shown = list(_with_alike(cell))
    for place, (title, item) in enumerate(shown):
        last = place + 1 == len(shown)
        yield f"{indent}{'└─' if last else '├─'} {title}{_told(item)}"
        inner = f"{indent}{'   ' if last else '│  '}"
        if isinstance(item, _Cell):
            yield from _lines(item, inner, moves)
            continue
        for one in collectives_of(moves.get(item.name, [])):
            phases = ", ".join(one.phases)
            among = f"among {several(one.group.size, 'rank')} ({one.group.ranks})"
            yield f"{inner}   ⇄ {one.kind} {amount(one.byte_count)} {among}, {duration(one.seconds)}: {phases}"


def _told(item: _Cell | OperatorForecast) -> str:
    if isinstance(item, _Cell):
        return ""
    time = f"  {duration(item.computing)}" if item.computing else ""
    return f"  {cuts_text(item.cuts)}  ->  {item.output}{time}"


def _with_alike(cell: _Cell) -> Iterator[tuple[str, _Cell | OperatorForecast]]:
    """Yield what is in a cell, of numbered cells that are alike the first, with the number of the last."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, item in cell.items.items():
        if isinstance(item, _Cell) and name.isdigit():
            groups.setdefault(item.signature(), []).append(name)
    firsts = {names[0]: names for names in groups.values()}
    for name, item in cell.items.items():
        if not (isinstance(item, _Cell) and name.isdigit()):
            yield name, item
        elif name in firsts:
            names = firsts[name]
            yield (name if len(names) == 1 else f"{name} to {names[-1]}, {len(names)} alike"), item


def holders_text(forecast: Forecast, name: str) -> str:
    """Return who holds what of the parameters that ``name`` means: a whole name, its end, or a pattern with a star.

    Raises ConfigurationError where there is none.
    """
    parameters = [one for stage in forecast.stages for one in stage.parameters]
    found = [one for one in parameters if one.name == name] or [
        one for one in parameters if one.name.endswith(f".{name}") or fnmatchcase(one.name, name)
    ]
    if not found:
        guess = nearest(name, [one.name for one in parameters]) or next((one.name for one in parameters), "none")
        raise ConfigurationError(f"--parameter {name}: the network has no such parameter; it has {guess}, for one")
    return "\n".join(line for one in found for line in _holders(one))


def _holders(parameter: ParameterForecast) -> Iterator[str]:
    used = "" if parameter.used == parameter.stored else f", used as {parameter.used}"
    yield (
        f"{parameter.name} {list(parameter.shape)} {parameter.dtype}: kept as {parameter.stored}{used}; "
        f"{amount(parameter.rank_bytes)} a rank"
    )
    for part in parameter.parts[:_MOST_PARTS]:
        yield f"  {part.box}  on ranks {part.ranks}"
    left = parameter.part_count - min(len(parameter.parts), _MOST_PARTS)
    if left > 0:
        yield f"  and {several(left, 'part')} more"
