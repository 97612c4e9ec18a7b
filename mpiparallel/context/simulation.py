"""A program that is only compiled: the first network that it would train, or run on several ranks, ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.graph import Graph
from mpiparallel.parallel.configuration import ParallelConfiguration


@dataclass(frozen=True)
class CompiledNetwork:
    """What a program has compiled: the network as it was traced, and laid out on its ranks.

    ``lay_out`` does both once more, by another configuration; it needs ``function``, which keeps the network.
    """

    graph: Graph
    staged: StagedGraph
    configuration: ParallelConfiguration
    lay_out: Callable[[ParallelConfiguration], tuple[Graph, StagedGraph]] | None = None
    function: Callable[..., object] | None = None

    @property
    def trains(self) -> bool:
        """Whether it updates parameters."""
        return any(node.operator.updates for node in self.graph.nodes)


class SimulationEndError(BaseException):
    """Ends a simulated program where its ``network`` has been compiled; no handler of errors is to hold it up."""

    def __init__(self, network: CompiledNetwork) -> None:
        super().__init__("the network has been compiled, and a simulation ends here")
        self.network = network


@dataclass(frozen=True)
class Simulation:
    """How a program is simulated: ``inputs`` are the columns of a batch that it is to be given instead of data."""

    inputs: Mapping[str, TensorSpec] = field(default_factory=dict)


_SIMULATION: ContextVar[Simulation | None] = ContextVar("simulation", default=None)


def current_simulation() -> Simulation | None:
    """Return the simulation that the program runs in; None where it is run in earnest."""
    return _SIMULATION.get()


@contextmanager
def simulating(simulation: Simulation) -> Iterator[None]:
    """Simulate what is run within."""
    token = _SIMULATION.set(simulation)
    try:
        yield
    finally:
        _SIMULATION.reset(token)


def end_simulation(network: CompiledNetwork) -> None:
    """Raise SimulationEndError, unless this is a small computation on the way that any process can do for itself."""
    if network.trains or network.configuration.device_num > 1:
        raise SimulationEndError(network)
