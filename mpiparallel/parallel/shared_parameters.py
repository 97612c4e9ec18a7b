"""Parameters that several operators use: one layout that all of them can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import StrategyError
from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.held_placement import place_beside
from mpiparallel.parallel.operator_placement import Operands, OperatorPlacement


@dataclass(frozen=True)
class ParameterUser:
    """An operator, its placement by its strategy, and the names of the parameters at these positions of its inputs."""

    operands: Operands
    strategy: Strategy
    placement: OperatorPlacement
    parameters: Mapping[int, str]


def agree_on_parameters(users: Sequence[ParameterUser]) -> tuple[list[OperatorPlacement], dict[str, Layout]]:
    """Return the placements of operators in which each parameter has one layout, and these layouts by name.

    Strategies say into how many parts a parameter is cut, and their operators over which axes. Where these differ, the
    parameter gets the layout of one of its users in which the others can take it too. It is the layout that moves the
    fewest of their other inputs and outputs. Among equals it is that of the first user. Raises StrategyError where
    there is none, as where they cut it into other parts. Pure, so all ranks agree.
    """
    agreement = _Agreement(users)
    agreement.reach()
    return agreement.placements, agreement.layouts()


class _Agreement:
    def __init__(self, users: Sequence[ParameterUser]) -> None:
        self._users = users
        self.placements = [user.placement for user in users]
        self._held: dict[str, Layout] = {}
        self._uses: dict[str, list[tuple[int, int]]] = {}
        for index, user in enumerate(users):
            for position, name in user.parameters.items():
                self._uses.setdefault(name, []).append((index, position))

    def layouts(self) -> dict[str, Layout]:
        return {name: self._held.get(name, self._layout(*uses[0])) for name, uses in self._uses.items()}

    def reach(self) -> None:
        # An operator that has to take one parameter elsewhere may take another elsewhere too, so look again.
        while (name := self._disputed()) is not None:
            found = None if name in self._held else self._cheapest(name)
            if found is None:
                raise self._refusal(name)
            self._held[name], placements = found
            for index, placement in placements.items():
                self.placements[index] = placement

    def _layout(self, index: int, position: int) -> Layout:
        return self.placements[index].inputs[position]

    def _disputed(self) -> str | None:
        """Return the first parameter that has two layouts."""
        for name, uses in self._uses.items():
            if len({self._layout(*use).canonical for use in uses}) > 1:
                return name
        return None

    def _cheapest(self, name: str) -> tuple[Layout, dict[int, OperatorPlacement]] | None:
        """Return the layout of a parameter that moves the fewest other tensors, and the placements of its users."""
        candidates: dict[Layout, Layout] = {}
        for use in self._uses[name]:
            layout = self._layout(*use)
            candidates.setdefault(layout.canonical, layout)
        options = [
            (layout, placements)
            for layout in candidates.values()
            if (placements := self._placements_with(name, layout)) is not None
        ]
        return min(options, key=lambda option: self._moved_with(name, option[1]), default=None)

    def _placements_with(self, name: str, layout: Layout) -> dict[int, OperatorPlacement] | None:
        """Return the placements of a parameter's users that have it in a layout; None where one cannot have it."""
        settled = {**self._held, name: layout}
        found = {}
        for index, _ in self._uses[name]:
            placement = self._adapted(self._users[index], settled)
            if placement is None:
                return None
            found[index] = placement
        return found

    def _moved_with(self, name: str, placements: Mapping[int, OperatorPlacement]) -> int:
        return sum(_moved(self._users[index], placement, name) for index, placement in placements.items())

    @staticmethod
    def _adapted(user: ParameterUser, settled: Mapping[str, Layout]) -> OperatorPlacement | None:
        held = {position: settled[name] for position, name in user.parameters.items() if name in settled}
        if all(user.placement.inputs[position].canonical == layout.canonical for position, layout in held.items()):
            return user.placement
        made = place_beside(user.operands, user.strategy, held)
        return made if made is not None and all(_has_words(made.inputs[place]) for place in user.parameters) else None

    def _refusal(self, name: str) -> StrategyError:
        first, *others = self._uses[name]
        known = self._layout(*first)
        other = next(use for use in others if self._layout(*use).canonical != known.canonical)
        one, two = (self._users[index].operands.name for index, _ in (first, other))
        return StrategyError(
            f"parameter {name!r} of shape {known.global_shape} is used under two layouts: {known} by {one} and "
            f"{self._layout(*other)} by {two}; give both operators strategies that cut it alike"
        )


def _moved(user: ParameterUser, made: OperatorPlacement, name: str) -> int:
    """Return how many inputs and outputs, but the parameter, are elsewhere than where the operator alone puts them."""
    pairs = zip(made.inputs + made.outputs, user.placement.inputs + user.placement.outputs, strict=True)
    return sum(
        one.canonical != other.canonical
        for position, (one, other) in enumerate(pairs)
        if user.parameters.get(position) != name
    )


def _has_words(layout: Layout) -> bool:
    """Return whether strategy files can say a layout: one axis for each dim."""
    return all(len(axes) <= 1 for axes in layout.canonical.tensor_map)
