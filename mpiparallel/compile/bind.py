"""The pass that gives a rank its program: parameters placed, buffers allocated, kernels bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import xxhash

from mpiparallel.backend.freed_memory import give_back_freed_memory
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.compatibility.remark import remark
from mpiparallel.compile.fingerprint import fingerprint_of
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.compile.staging.split_stages import remark_split_stages
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.program import Profile, Program
from mpiparallel.graph.execution.random_stream import next_draw, random_stream, rank_seed
from mpiparallel.graph.execution.runtime import RandomState, Runtime
from mpiparallel.graph.graph import Graph
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode

_SHOWN_DRAWS: Final = 16
_FED_OTHERWISE: Final = (
    "ranks were fed different batches where each is to be fed the whole one (full_batch=True), so the loss is that of "
    "no batch; let all ranks read the same rows in the same order (one seed, no num_shards), or set "
    'dataset_strategy="data_parallel" where each reads rows of its own'
)
_LARGE: Final = 1 << 20
"""Bytes of a parameter from which on what its first values have been drawn in is worth giving back."""


@dataclass(frozen=True)
class CompiledGraph:
    """A sharded graph, what this rank runs of it, and the program of that.

    ``meets`` are all ranks that run it together, by the same ``fingerprint``; None where each may run it for itself.
    ``draws`` says that it has random operators, ``draws_alike`` that all ranks must be at the same draw, ``fed_alike``
    that all are fed the same.
    """

    sharded: ShardedGraph
    local: Graph
    program: Program
    runtime: Runtime
    fingerprint: str | None
    meets: Communicator | None
    draws: bool
    draws_alike: bool
    fed_alike: bool

    def run(self, inputs: Sequence[np.ndarray[Any, Any]], profile: Profile | None = None) -> list[Array]:
        """Run once on this rank's part of each input; ``inputs`` are whole, or by rank, as the configuration says.

        Raises CommunicationError on all ranks, before anything is communicated, where one of them runs something else.
        """
        if self.meets is None or self.fingerprint is None:
            return self._run(inputs, profile)
        flag, compares = self.meets.step_flag, self.fed_alike and not self.runtime.has_run
        self.runtime.has_run = True
        flag.batch = _digest(inputs) if compares else 0
        all_are_here = self.meets.start_step_check(f"{self.fingerprint}{self._shown_draw()}")
        outputs = self._run(inputs, profile)
        all_are_here()
        if compares and flag.batches_differ:
            remark(_FED_OTHERWISE)
        return outputs

    def _shown_draw(self) -> str:
        """Return which draw ranks must be at together; counted round, for texts that are compared are kept."""
        return f", at random draw {random_stream().place % _SHOWN_DRAWS}" if self.draws_alike else ""

    def _run(self, inputs: Sequence[np.ndarray[Any, Any]], profile: Profile | None) -> list[Array]:
        if self.draws:
            self.runtime.random.draw = next_draw()
        if profile is None:
            return self.program.run(inputs)
        return self.program.run_profiled(inputs, profile)


def _digest(inputs: Sequence[np.ndarray[Any, Any]]) -> int:
    """Return a number that tells what is fed, to the bit, from other values; never 0."""
    digest = xxhash.xxh3_64()
    for one in inputs:
        digest.update(np.ascontiguousarray(one).reshape(-1).view(np.uint8).data)
    return digest.intdigest() >> 1 | 1


def make_backend(configuration: ParallelConfiguration) -> Backend:
    """Return the array library that the configuration asks for."""
    if configuration.device_target == "GPU":
        from mpiparallel.backend.cupy_backend import CupyBackend  # slow to load, with kernels of its own

        return CupyBackend(configuration.device_id, configuration.allows_tf32, configuration.convolves_in_tf32)
    return NumpyBackend()


def check_world(staged: StagedGraph, configuration: ParallelConfiguration, communicator: Communicator | None) -> None:
    """Raise ConfigurationError when the layouts are for another number of ranks than the world has.

    A stand-alone network has its layouts for itself on each rank; its world serves the collectives that the user
    placed.
    """
    if configuration.mode == ParallelMode.STAND_ALONE:
        return
    size = 1 if communicator is None else communicator.size
    if staged.rank_count != size:
        raise ConfigurationError(
            f"the network is cut for {staged.rank_count} devices, but the world has {size} ranks; start as many, or "
            "set device_num to it"
        )
    devices = staged.of_rank(configuration.rank).devices
    if configuration.rank not in devices:
        raise ConfigurationError(
            f"global_rank {configuration.rank} is not among ranks {devices.ranks_text}; leave global_rank to "
            "the launcher"
        )


def bind(
    staged: StagedGraph, local: Graph, configuration: ParallelConfiguration, communicator: Communicator | None
) -> CompiledGraph:
    """Place the parameters on this rank, allocate its buffers and bind the kernels of its graph, ``local``.

    Raises CommunicationError on all ranks where one of them has made another network.
    """
    sharded = staged.of_rank(configuration.rank)
    if communicator is not None and len(staged.stages) > 1:
        remark_split_stages([stage.devices.members for stage in staged.stages], communicator.hosts)
    if configuration.save_graphs:
        from mpiparallel.compile.graph_text import save_graphs  # slow to load, and few ask for it

        save_graphs(sharded, local, configuration)
    fingerprint = fingerprint_of(staged, local, configuration)
    if communicator is not None and fingerprint is not None and configuration.mode not in ParallelMode.OWN_BATCH:
        # Before groups are made, which only their members wait for. Batches of one's own may come in new shapes alone.
        communicator.start_step_check(fingerprint)()
    backend = make_backend(configuration)
    if communicator is not None and configuration.parameter_broadcast:
        _broadcast_parameters(staged, sharded, communicator)
    _leave_to_others(staged, sharded, configuration.rank)
    _place_parameters(staged, sharded, configuration.rank, backend)
    if any(value.spec.byte_count >= _LARGE for value in sharded.graph.parameters.values()):
        # First values are drawn in more bytes than they are kept in, and the C library keeps what is freed.
        give_back_freed_memory()
    random, stage = RandomState(_seed(configuration)), staged.stages.index(sharded)
    runtime = Runtime(backend, communicator, random, stage=stage, meets=fingerprint is not None)
    draws = any(node.operator.is_random for stage in staged.stages for node in stage.graph.nodes)
    alike = draws and configuration.mode not in ParallelMode.OWN_BATCH
    program = Program(local, runtime)
    # Of a pipeline some stages read only what they need.
    fed_alike = configuration.full_batch and configuration.mode in ParallelMode.ONE_BATCH and len(staged.stages) == 1
    return CompiledGraph(sharded, local, program, runtime, fingerprint, communicator, draws, alike, fed_alike)


def _broadcast_parameters(staged: StagedGraph, own: ShardedGraph, communicator: Communicator) -> None:
    """Let the parameters that operators use whole, in whichever stage, start from the values of rank 0."""
    cut = {name for stage in staged.stages for name in stage.graph.parameters if not _is_used_whole(stage, name)}
    for name, value in {name: one for stage in staged.stages for name, one in stage.graph.parameters.items()}.items():
        parameter = value.parameter
        if parameter is None or parameter.layout is not None or parameter.is_elsewhere or name in cut:
            continue
        # Whole, though a rank may keep a shard: shards of different values would make one that no rank had.
        whole = np.empty(parameter.shape, parameter.dtype)
        if communicator.rank == 0:
            whole[...] = parameter.asnumpy()
        communicator.broadcast(whole, 0)
        if name in own.graph.parameters:
            parameter.set_data(whole)


def _is_used_whole(stage: ShardedGraph, name: str) -> bool:
    used = stage.used.get(name, stage.stored[name])
    return used.replica_count == used.devices.size


def _place_parameters(staged: StagedGraph, sharded: ShardedGraph, rank: int, backend: Backend) -> None:
    layouts = staged.known_to(rank)
    for name, value in sharded.graph.parameters.items():
        if value.parameter is not None:
            value.parameter.place(layouts[name], rank, backend)


def _leave_to_others(staged: StagedGraph, own: ShardedGraph, rank: int) -> None:
    """Give up what only other stages use: nobody is to take its first values for those that are trained."""
    for name in staged.stored.keys() - own.graph.parameters.keys():
        staged.parameters[name].leave(staged.stored[name], rank)


def _seed(configuration: ParallelConfiguration) -> int:
    """Return the seed of dropout: one for all ranks, but where each has a batch of its own, one for each."""
    if configuration.mode in ParallelMode.OWN_BATCH:
        return rank_seed(configuration.seed, configuration.rank)
    return configuration.seed
