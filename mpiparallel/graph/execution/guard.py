"""What happens only while a flag holds, decided anew in each run of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mpiparallel.graph.graph import Node, Value
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.trace import active_trace


def only_if(flag: Parameter, act: Callable[[], object]) -> None:
    """Do what ``act`` does only while a 0-d parameter is other than 0.

    In a traced network the operators that ``act`` applies, and the communication they need, run or are left out in each
    run. What they compute may be used inside ``act`` only; what lasts are the parameters they overwrite. The flag must
    be the same on all ranks.
    """
    trace = active_trace()
    if trace is None:
        if flag:
            act()
        return
    with trace.guarded_by(trace.value_of(flag)):
        act()


def take_back_updates() -> list[Node]:
    """Take the updates made so far out of the active trace, so that they can wait for a flag; return them in order.

    Those of parameters that are read or overwritten later stay where they are.
    """
    trace = active_trace()
    if trace is None:
        return []
    staying: list[Node] = []
    taken: list[Node] = []
    touched: set[Value] = set()
    overwritten: set[Value] = set()
    for node in reversed(trace.graph.nodes):
        updated = {node.inputs[index] for index in node.operator.updates}
        if updated and not node.notes.guards and not updated & touched and not overwritten & set(node.inputs):
            taken.append(node)
            continue
        touched.update(node.inputs)
        overwritten |= updated
        staying.append(node)
    trace.graph.nodes = staying[::-1]
    return taken[::-1]


def put_back_updates(nodes: list[Node]) -> None:
    """Make the updates that ``take_back_updates`` took now, under the guards that hold here."""
    trace = active_trace()
    if trace is not None:
        for node in nodes:
            node.notes = replace(node.notes, guards=trace.notes.guards, micro_batch=None)
        trace.graph.nodes.extend(nodes)
