"""Why operators are cut as they are: which of them are asked about, and the answers in words."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from fnmatch import fnmatchcase

from mpiparallel.context.simulation import CompiledNetwork
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Node
from mpiparallel.launch.command_line.nearest import nearest
from mpiparallel.launch.plan.report import amount, duration
from mpiparallel.launch.simulate.report import cuts_text, table
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.forecast.reason import Alternative, Reason, Reasons
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.problem.clock import Clock

_NUMBER = re.compile(r"(?<![^/])\d+(?=/)")
_MOST_SHOWN = 8


def alike(name: str) -> str:
    """Return the name of an operator without the numbers of its layers.

    >>> alike("network/3/mlp/MatMul-1")
    'network/*/mlp/MatMul-1'
    """
    return _NUMBER.sub("*", name)


def asked(network: CompiledNetwork, names: Sequence[str]) -> list[Node]:
    """Return the operators that ``names`` mean: whole names, their ends, or patterns with a star.

    Of layers that are alike the first stands for all. Raises ConfigurationError where a name means none.
    """
    nodes = {node.name: node for node in operators(network)}
    found: dict[str, Node] = {}
    for name in names:
        meant = [one for one in nodes if one == name] or [
            one for one in nodes if one.endswith(f"/{name}") or fnmatchcase(one, name) or fnmatchcase(one, f"*/{name}")
        ]
        if not meant:
            like = nearest(name.rpartition("/")[2], [one.rpartition("/")[2] for one in nodes])
            guess = next((one for one in nodes if like and one.endswith(like)), next(iter(nodes), "none"))
            raise ConfigurationError(f"--why {name}: the network has no such operator; it has {guess}, for one")
        for one in meant:
            found.setdefault(alike(one), nodes[one])
    return list(found.values())


def operators(network: CompiledNetwork) -> Iterator[Node]:
    """Yield the operators of the network itself, those without gradients and updates."""
    for stage in network.staged.stages:
        yield from (node for node in stage.graph.nodes if node.is_forward and node.operator.kind != "communication")


def heaviest(network: CompiledNetwork) -> list[Node]:
    """Return the operators on weights, one of each kind of layer, those on the largest first."""
    found: dict[str, Node] = {}
    for node in operators(network):
        if _largest_weight(node):
            found.setdefault(alike(node.name), node)
    return sorted(found.values(), key=_largest_weight, reverse=True)


def _largest_weight(node: Node) -> int:
    """Return how many elements the largest parameter of a node has that is more than a vector; 0 without one."""
    weights = [value.spec for value in node.inputs if value.parameter is not None and len(value.spec.shape) > 1]
    return max((spec.size for spec in weights), default=0)


def reasons_of(network: CompiledNetwork, nodes: Sequence[Node], machine: Machine, seconds: float) -> list[Reason]:
    """Return why these operators are cut as they are; after so many seconds without alternatives."""
    clock = Clock(seconds)
    reasons = Reasons(network.graph, network.staged, network.configuration, Prices(machine), network.lay_out)
    with redirect_stdout(sys.stderr):
        return [reasons.of(node, clock.has_time) for node in nodes]


def reason_words(reason: Reason) -> str:
    """Return in a sentence or two what decided on an operator, and what the next best would cost."""
    words = f"{reason.rule[0].upper()}{reason.rule[1:]}."
    if not reason.alternatives:
        if not reason.tried:
            return words
        return f"{words} None of the {reason.tried} alternatives that were tried can be beside the others."
    best = reason.alternatives[0]
    change = best.seconds - reason.seconds
    if abs(change) <= 1e-9 * reason.seconds:
        how = "takes as long"
    else:
        percent = abs(change) / reason.seconds * 100
        # Two digits of a hundred would be written with an exponent.
        much = f"{duration(abs(change))} ({f'{percent:.2g}' if percent < 99.5 else f'{percent:,.0f}'} %)"
        how = f"makes a step {much} {'quicker' if change < 0 else 'slower'}"
    tried = "" if reason.tried == reason.possible else f" Of {reason.possible} alternatives {reason.tried} were tried."
    return f"{words} The best alternative, {way_text(best)}, {how}, all else as it is.{tried}"


def reason_text(reason: Reason) -> str:
    """Return the answer to ``--why`` for one operator."""
    lines = [f"{reason.operator}: {cuts_text(reason.strategy) or 'no strategy'}", f"  {reason_words(reason)}"]
    if reason.alternatives:
        rows = [("  strategy", "step", "against this", "a rank keeps")]
        rows.append((f"  {cuts_text(reason.strategy) or 'none'} (this)", *_figures(reason.seconds, reason.kept_bytes)))
        for one in reason.alternatives[:_MOST_SHOWN]:
            kept = amount(one.kept_bytes)
            change = f"{(one.seconds / reason.seconds - 1) * 100:+.2f} %"
            rows.append((f"  {way_text(one)}", duration(one.seconds), change, kept))
        lines += table(rows, "<>>>")
        left = len(reason.alternatives) - _MOST_SHOWN
        lines += [f"  and {left} dearer ones"] if left > 0 else []
    return "\n".join(lines)


def way_text(alternative: Alternative) -> str:
    """Return how an operator would be cut otherwise.

    >>> way_text(Alternative(((8, 1), (1, 1)), 1.0, 1, "in semi_auto_parallel"))
    '(8,1) (1,1) in semi_auto_parallel'
    """
    return " ".join(filter(None, (cuts_text(alternative.strategy), alternative.how)))


def _figures(seconds: float, kept: int) -> tuple[str, str, str]:
    return duration(seconds), "", amount(kept)
