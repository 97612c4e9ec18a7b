"""Parameters with their own learning rate and weight decay, group by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter

_KEYS: Final = ("params", "lr", "weight_decay", "order_params")


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are trained alike; None stands for the optimizer's own learning rate or weight decay."""

    parameters: tuple[Parameter, ...]
    learning_rate: Any = None
    weight_decay: float | None = None


@dataclass(frozen=True)
class TrainedParameters:
    """The parameters of an optimizer in the order in which it takes their gradients, and their groups.

    ``grouped`` says that groups were given; else all parameters are one.
    """

    parameters: tuple[Parameter, ...]
    groups: tuple[ParameterGroup, ...]
    grouped: bool

    @property
    def group_indices(self) -> list[int]:
        """The index of the group that each parameter belongs to."""
        indices = {id(member): index for index, group in enumerate(self.groups) for member in group.parameters}
        return [indices[id(parameter)] for parameter in self.parameters]


def read_parameters(who: str, given: Iterable[Any]) -> TrainedParameters:
    """Return the parameters that ``given`` asks for: parameters, or groups of them as dicts.

    A group has ``params`` and perhaps ``lr`` and ``weight_decay``; a dict with only ``order_params`` gives the order of
    all. Raises ConfigurationError for no parameters, an unknown key, a parameter or a name given twice, or an order of
    other parameters.
    """
    items = [given] if isinstance(given, (Parameter, Mapping)) else list(given)
    if not any(isinstance(item, Mapping) for item in items):
        members = _checked_parameters(who, items)
        _check_unique(who, members)
        return TrainedParameters(members, (ParameterGroup(members),), False)
    orders = [_read_order(who, item) for item in items if isinstance(item, Mapping) and "order_params" in item]
    groups = tuple(
        _read_group(who, index, item)
        for index, item in enumerate(items)
        if not (isinstance(item, Mapping) and "order_params" in item)
    )
    members = tuple(parameter for group in groups for parameter in group.parameters)
    _check_unique(who, members)
    return TrainedParameters(_ordered(who, members, orders), groups, True)


def _read_group(who: str, index: int, item: Any) -> ParameterGroup:
    if not isinstance(item, Mapping):
        raise ConfigurationError(
            f"{who}: element {index} is a {type(item).__name__} beside groups; give parameters or dicts, not both"
        )
    if item.get("grad_centralization"):
        raise ConfigurationError(
            f"{who}: group {index} has grad_centralization=True, which is not implemented; leave it out, and centre "
            "the gradients in TrainOneStepCell.prepared"
        )
    for key in item:
        if key not in _KEYS and key != "grad_centralization":
            raise ConfigurationError(f"{who}: group {index} has the key {key!r}; known are {', '.join(_KEYS)}")
    if "params" not in item:
        raise ConfigurationError(f"{who}: group {index} has no 'params'; give it a list of parameters")
    decay = item.get("weight_decay")
    if decay is not None and (not isinstance(decay, (int, float)) or decay < 0):
        raise ConfigurationError(f"{who}: group {index} has weight_decay {decay!r}; give a number of at least 0")
    members = _checked_parameters(f"{who}: group {index}", list(item["params"]))
    return ParameterGroup(members, item.get("lr"), None if decay is None else float(decay))


def _read_order(who: str, item: Mapping[str, Any]) -> list[Any]:
    if len(item) != 1:
        others = sorted(set(item) - {"order_params"})
        raise ConfigurationError(f"{who}: 'order_params' stands beside {others}; give it alone")
    return list(item["order_params"])


def _ordered(who: str, members: tuple[Parameter, ...], orders: Sequence[list[Any]]) -> tuple[Parameter, ...]:
    if not orders:
        return members
    if len(orders) > 1:
        raise ConfigurationError(f"{who}: 'order_params' is given {len(orders)} times; give it once")
    order = _checked_parameters(f"{who}: order_params", orders[0])
    if sorted(map(id, order)) != sorted(map(id, members)):
        odd = {parameter.name for parameter in members} ^ {parameter.name for parameter in order}
        raise ConfigurationError(
            f"{who}: 'order_params' must hold each parameter of the groups once; it differs in "
            f"{sorted(odd) or 'repetitions'}"
        )
    return order


def _checked_parameters(who: str, items: Sequence[Any]) -> tuple[Parameter, ...]:
    if not items:
        raise ConfigurationError(f"{who}: there are no parameters; give network.trainable_params()")
    for index, item in enumerate(items):
        if not isinstance(item, Parameter):
            raise ConfigurationError(f"{who}: element {index} is a {type(item).__name__}; give Parameters")
    return tuple(items)


def _check_unique(who: str, members: Sequence[Parameter]) -> None:
    seen: dict[str, Parameter] = {}
    for parameter in members:
        known = seen.setdefault(parameter.name, parameter)
        if known is not parameter:
            raise ConfigurationError(f"{who}: two parameters are named {parameter.name!r}; give each its own name")
    if len(members) != len(seen):
        twice = next(name for name in seen if sum(parameter.name == name for parameter in members) > 1)
        raise ConfigurationError(f"{who}: parameter {twice!r} is given twice; give it once, in one group")
