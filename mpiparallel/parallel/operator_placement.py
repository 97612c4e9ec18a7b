"""From strategies and sharding rules to layouts: where the inputs and outputs of one operator live."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import gcd, prod
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import StrategyError
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.device_matrix import DeviceMatrix, common_refinement
from mpiparallel.layout.layout import Bounds, Layout, bounds_of

Shape = tuple[int, ...]

_PLACEMENTS_KEPT: Final = 1 << 14


@dataclass(frozen=True)
class OperatorPlacement:
    """The layouts in which an operator takes its inputs and leaves its outputs; outputs may be partial."""

    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    strategy: Strategy | None = None


@dataclass(frozen=True)
class ShardingRule:
    """An operator's equation and global shapes, equal for all operators that can be placed alike."""

    equation: Equation
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]

    def extents(self) -> dict[str, int]:
        """Return the number of elements of each label."""
        found: dict[str, int] = {}
        for labels, shape in zip(self.equation.inputs + self.equation.outputs, self.inputs + self.outputs, strict=True):
            found.update((label, extent) for label, extent in zip(labels, shape, strict=True) if label is not None)
        return found


@dataclass(frozen=True)
class Operands:
    """An operator's name and rule: what a placement is made from."""

    name: str
    rule: ShardingRule

    @property
    def equation(self) -> Equation:
        """Which dims are cut together."""
        return self.rule.equation


def place_by_strategy(operands: Operands, strategy: Strategy, devices: DeviceMatrix) -> OperatorPlacement:
    """Return the placement that a strategy asks for; raise StrategyError, naming operator, input, dim and cut.

    The device matrix has one axis for each label that is cut, in the order of the labels. If the cuts use fewer devices
    than there are, one more axis is for repeated calculation. It is the last, or the first where the rule says so. That
    is MindSpore's order, so equal strategies give equal slices.
    """
    cuts = read_strategy(operands, strategy)
    needed = prod(cuts.values())
    if needed > devices.size:
        raise StrategyError(
            f"{operands.name}: strategy {strategy} cuts into {needed} parts, but there are {devices.size} devices; "
            f"make the product of the cuts at most {devices.size}"
        )
    if devices.size % needed:
        raise StrategyError(
            f"{operands.name}: strategy {strategy} cuts into {needed} parts, which does not divide the "
            f"{devices.size} devices; "
            f"choose cuts whose product divides {devices.size}"
        )
    return _place(operands, cuts, devices, strategy)


def read_strategy(operands: Operands, strategy: Strategy) -> dict[str, int]:
    """Return into how many parts each label is cut; raise StrategyError where a strategy does not fit the operator."""
    spoken = operands.equation.strategy_inputs
    if len(strategy) != len(spoken):
        raise StrategyError(
            f"{operands.name}: strategy {strategy} has {len(strategy)} entries for {len(spoken)} inputs; give "
            "each input one, "
            f"for example {tuple((1,) * len(labels) for labels in spoken)}"
        )
    cuts: dict[str, int] = {}
    seen: dict[str, str] = {}
    for index, (given, labels) in enumerate(zip(strategy, spoken, strict=True)):
        if len(given) != len(labels):
            raise StrategyError(
                f"{operands.name}: input {index} has {len(labels)} dims, but its strategy {given} has {len(given)} "
                "cuts; "
                "give each dim one"
            )
        for dim, (cut, label) in enumerate(zip(given, labels, strict=True)):
            place = f"dim {dim} of input {index}"
            _check_cut(operands, label, cut, place)
            if label is None:
                continue
            if cuts.setdefault(label, cut) != cut:
                raise StrategyError(
                    f"{operands.name}: {seen[label]} is cut {cuts[label]} ways and {place} {cut} ways, but they go "
                    "together and must be cut alike"
                )
            seen.setdefault(label, place)
    return cuts


def _check_cut(operands: Operands, label: str | None, cut: int, place: str) -> None:
    if cut == 1:
        return
    if label is None or label in operands.equation.whole:
        raise StrategyError(f"{operands.name}: {place} must stay whole, but is cut {cut} ways; give it cut 1")
    wanted = [len(sizes) for (_, named), sizes in operands.equation.sizes.items() if named == label]
    if any(count != cut for count in wanted):
        raise StrategyError(
            f"{operands.name}: {place} is split by hand into {wanted[0]} parts, but is cut {cut} ways; give it cut "
            f"{wanted[0]} or 1"
        )
    if operands.equation.divisors.get(label, 0) % cut:
        raise StrategyError(
            f"{operands.name}: {place} can be cut only into a number of parts that divides "
            f"{operands.equation.divisors[label]}, not {cut}"
        )


def place_by_batch(operands: Operands, devices: DeviceMatrix) -> OperatorPlacement:
    """Return the placement with the batch cut into gcd(batch, devices) parts, all else whole: MindSpore's default."""
    return _placed_by_batch(operands.rule, devices)


@lru_cache(_PLACEMENTS_KEPT)
def _placed_by_batch(rule: ShardingRule, devices: DeviceMatrix) -> OperatorPlacement:
    batch = rule.equation.batch
    cuts: dict[str, int] = {}
    if batch is not None and batch not in rule.equation.whole:
        cuts[batch] = gcd(rule.extents()[batch], devices.size)
    return _placed_by_cuts(rule, tuple(cuts.items()), devices, None)


def axis_order(equation: Equation, cuts: Mapping[str, int]) -> list[str | None]:
    """Return the labels whose cuts are the axes of a device matrix, in order; None stands for repeated calculation."""
    labels = [label for label in equation.labels if cuts.get(label, 1) > 1]
    return [None, *labels] if equation.repeats_first & set(labels) else [*labels, None]


def axis_extents(order: Sequence[str | None], cuts: Mapping[str, int], devices: int) -> tuple[int, ...]:
    """Return how many devices are on each axis of ``order``, ``devices`` in all."""
    parts = prod(cuts[label] for label in order if label is not None)
    return tuple(devices // parts if label is None else cuts[label] for label in order)


def _place(
    operands: Operands, cuts: Mapping[str, int], devices: DeviceMatrix, strategy: Strategy | None
) -> OperatorPlacement:
    return _placed_by_cuts(operands.rule, tuple(cuts.items()), devices, strategy)


@lru_cache(_PLACEMENTS_KEPT)
def _placed_by_cuts(
    rule: ShardingRule, given: tuple[tuple[str, int], ...], devices: DeviceMatrix, strategy: Strategy | None
) -> OperatorPlacement:
    cuts = dict(given)
    order = axis_order(rule.equation, cuts)
    extents = axis_extents(order, cuts, devices.size)
    used = [(label, extent) for label, extent in zip(order, extents, strict=True) if extent > 1]
    axes = {label: (axis,) for axis, (label, _) in enumerate(used) if label is not None}
    made = lay_out(rule, axes, devices.reshaped(tuple(extent for _, extent in used)))
    if strategy is None:
        spoken = rule.equation.strategy_inputs
        strategy = tuple(tuple(cuts.get(label, 1) if label else 1 for label in labels) for labels in spoken)
    return OperatorPlacement(made.inputs, made.outputs, strategy)


def lay_out(rule: ShardingRule, axes: Mapping[str, tuple[int, ...]], matrix: DeviceMatrix) -> OperatorPlacement:
    """Return the placement in which each label is cut by its axes."""
    equation = rule.equation

    def tensor_map(labels: Labels) -> tuple[tuple[int, ...], ...]:
        return tuple(axes.get(label, ()) if label is not None else () for label in labels)

    def bounds(place: int, labels: Labels) -> tuple[Bounds, ...]:
        if not equation.sizes:
            return ()
        given = tuple(
            bounds_of(equation.sizes.get((place, label), ()) if label in axes else ()) for label in map(str, labels)
        )
        return given if any(given) else ()

    consumed = {label for labels in equation.inputs for label in labels if label is not None}
    outputs = []
    for place, (labels, shape) in enumerate(zip(equation.outputs, rule.outputs, strict=True), len(equation.inputs)):
        reduced = tuple(sorted(axis for label in consumed - set(labels) for axis in axes.get(label, ())))
        told = bounds(place, labels)
        outputs.append(Layout(shape, matrix, tensor_map(labels), reduced, equation.reduction, bounds=told))
    inputs = [
        Layout(shape, matrix, tensor_map(labels), bounds=bounds(place, labels))
        for place, (labels, shape) in enumerate(zip(equation.inputs, rule.inputs, strict=True))
    ]
    return OperatorPlacement(tuple(inputs), tuple(outputs))


def place_by_inputs(
    operands: Operands,
    given: Sequence[Layout | None],
    first: Collection[int] = (),
    wanted: Sequence[Layout | None] = (),
) -> OperatorPlacement:
    """Return the placement that keeps the inputs where they are, as far as the rule allows.

    A label takes the cut of the first input that cuts it; the inputs ``first`` come before the others. Inputs that are
    cut otherwise have to be redistributed. One that no input has, those left out that can be anywhere (None), takes its
    cut from where the outputs are ``wanted``. At least one layout is given.
    """
    return _placed_by_inputs(operands.rule, tuple(given), tuple(first), tuple(wanted))


@lru_cache(_PLACEMENTS_KEPT)
def _placed_by_inputs(
    rule: ShardingRule, given: tuple[Layout | None, ...], first: tuple[int, ...], wanted: tuple[Layout | None, ...]
) -> OperatorPlacement:
    equation = rule.equation
    order = sorted(range(len(given)), key=lambda index: index not in first)
    told = [(equation.inputs[index], layout) for index in order if (layout := given[index]) is not None]
    read = {label for labels, _ in told for label in labels}
    for labels, layout in zip(equation.outputs, wanted, strict=False):
        if layout is not None:
            told.append((tuple(None if label in read else label for label in labels), layout))
    matrix, layouts = on_common_devices([layout.reduced() for _, layout in told])
    axes: dict[str, tuple[int, ...]] = {}
    taken: set[int] = set()
    for (labels, _), layout in zip(told, layouts, strict=True):
        for label, cutting in zip(labels, layout.cutting_axes, strict=True):
            parts = prod(matrix.shape[axis] for axis in cutting)
            if not cutting or label is None or label in axes or taken & set(cutting):
                continue
            if equation.allows(label, parts):
                axes[label] = cutting
                taken |= set(cutting)
    return lay_out(rule, axes, matrix)


def on_common_devices(layouts: Sequence[Layout]) -> tuple[DeviceMatrix, list[Layout]]:
    """Return the layouts over one device matrix; those that do not fit the first ones' become replicated there."""
    devices = layouts[0].devices
    shape = devices.shape
    fitting = []
    for layout in layouts:
        same = layout.devices.members == devices.members
        refined = common_refinement(shape, layout.devices.shape) if same else None
        fitting.append(refined is not None)
        shape = refined if refined is not None else shape
    matrix = devices.reshaped(shape)
    return matrix, [
        layout.reshaped_devices(shape) if fits else Layout.replicated(layout.global_shape, matrix)
        for layout, fits in zip(layouts, fitting, strict=True)
    ]
