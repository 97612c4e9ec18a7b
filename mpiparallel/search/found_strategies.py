"""Strategies for all ranks: the first one searches, the others are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication import world
from mpiparallel.communication.agreement import failing_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone
from mpiparallel.compatibility.remark import remark
from mpiparallel.compile.strategies import Strategies
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.cluster_file import load_machine
from mpiparallel.search.machine.kept import kept_machine
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.methods.answer import Answer
from mpiparallel.search.problem.choices import Choice, choices_of
from mpiparallel.search.problem.task import Task
from mpiparallel.search.search import MODES, search

_BY_RULES = -1


def find_strategies(
    graph: Graph, configuration: ParallelConfiguration, devices: int, held: Mapping[str, Layout]
) -> Strategies:
    """Return the strategies of a graph in auto parallel on so many ``devices``: given ones, and found ones.

    Those that the program and files give stay. Where the configuration is for the ranks of the world they call it
    together. The first of them searches, so that neither clocks nor measurements of hosts make a difference. Raises
    ConfigurationError on all of them where nothing fits into memory, and CommunicationError where their networks
    differ.
    """
    given = Strategies.of(graph, dict(configuration.loaded_strategies))
    ranks = world.current() if world.initialised() else alone()
    together = ranks.size > 1 and ranks.size == configuration.device_num
    if ranks.size > 1 and not together:
        # Each rank plans for itself what others will run: neither clocks nor measurements may make a difference.
        configuration = replace(configuration, search_timeout=inf)
    machine = machine_of(configuration, ranks)
    stages = configuration.pipeline_stages
    own = replace(configuration, device_num=devices, pipeline_stages=1, stage_ranks=())
    task = Task(graph, own, given, held, Prices(machine), stages)
    return given.with_inputs(_decided_by_the_first(task, ranks) if together else _answer(task).strategies)


def machine_of(configuration: ParallelConfiguration, ranks: Communicator) -> Machine:
    """Return the machine that steps are priced for.

    Ranks that plan for others than themselves know of no measurement: each would have its own.
    """
    if ranks.size == 1 or ranks.size == configuration.device_num:
        return _machine(configuration, ranks)
    return _described(configuration) or Machine()


def _machine(configuration: ParallelConfiguration, ranks: Communicator) -> Machine:
    """Return the machine of a cluster file, or the one that was measured with as many ranks a host as there are."""
    measured = _described(configuration) or kept_machine()
    if ranks.size == 1 or configuration.search_machine:
        return measured
    return replace(measured, ranks_per_host=len(ranks.host_ranks))


def _described(configuration: ParallelConfiguration) -> Machine | None:
    return load_machine(configuration.search_machine) if configuration.search_machine else None


def _decided_by_the_first(task: Task, communicator: Communicator) -> dict[Node, Strategy]:
    choices = choices_of(task.graph, task.given, task.configuration.device_num)
    names = ", ".join(choice.node.name for choice in choices)
    communicator.start_step_check(f"strategies are searched for {names}")()
    options = np.full(len(choices), _BY_RULES, np.int64)
    with failing_together(communicator, ConfigurationError):
        if communicator.rank == 0:
            options[:] = _numbers(choices, _answer(task).strategies)
    communicator.broadcast(options, 0)
    pairs = zip(choices, options.tolist(), strict=True)
    decided = ((choice, option) for choice, option in pairs if option != _BY_RULES)
    return {node: choice.options[option] for choice, option in decided for node in choice.nodes}


def _numbers(choices: Sequence[Choice], strategies: Mapping[Node, Strategy]) -> NDArray[np.int64]:
    """Return which option of each choice was found."""
    found = [
        choice.options.index(strategies[choice.node]) if choice.node in strategies else _BY_RULES for choice in choices
    ]
    return np.array(found, np.int64)


def _answer(task: Task) -> Answer:
    """Return what is found, and say how good it is."""
    mode, timeout = task.configuration.search_mode, task.configuration.search_timeout
    # What is beside the strategies is decided where a model is trained.
    mode = mode if mode in MODES else next(iter(MODES))
    answer = search(task, mode, timeout, min(task.prices.machine.memory, task.configuration.search_memory))
    what = "a step takes" if task.stages == 1 else f"a micro-batch takes, on the ranks of one of {task.stages} stages,"
    if not any(choice.is_free for choice in choices_of(task.graph, task.given, task.configuration.device_num)):
        return answer
    ended = f"stopped after {timeout:g} s with" if answer.stopped_early else "found"
    remark(
        f"auto_parallel: {mode} {ended} strategies by which {what} {answer.seconds * 1e3:.3g} ms by the cost "
        f"model, where batch parallelism takes {task.cost({}).seconds * 1e3:.3g} ms and none takes less than "
        f"{answer.bound * 1e3:.3g} ms"
    )
    return answer
