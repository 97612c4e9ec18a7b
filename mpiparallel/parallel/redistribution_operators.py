"""The operators that redistribute: several steps of one kind in one collective."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.transport.protocol import Transport
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.layout.box import Box
from mpiparallel.parallel.bound_collective import BoundCollective
from mpiparallel.parallel.collective_operators import AllReduce
from mpiparallel.parallel.device_exchange import DeviceExchange
from mpiparallel.parallel.packed_pieces import PackedPieces
from mpiparallel.parallel.redistribution import Redistribution, group_layouts
from mpiparallel.reshard.bound_plan import bind
from mpiparallel.reshard.exchange import Exchange as LiveExchange
from mpiparallel.reshard.planning.plan import plan_reshard


def redistributing_operator(steps: Sequence[Redistribution], rank: int) -> Operator:
    """Return the operator that does steps on ``rank`` in one collective, each with its own input and output.

    They are of one kind and one reduction, among the same ranks; what is summed or gathered has one dtype. A slice,
    which communicates nothing, comes alone.
    """
    first = steps[0]
    if first.kind == "slice":
        return SliceBox(first.source.box(rank), first.target.box(rank))
    if first.kind == "reduce":
        single = AllReduce if len(steps) == 1 else FusedAllReduce
        return single(first.source.reduction, first.ranks(rank))
    kinds = {"reduce_scatter": ReduceScatterBlocks, "gather": GatherBlocks, "exchange": ExchangeBoxes}
    return kinds[first.kind](steps, rank)


class SliceBox(Operator):
    """The part of a local array that a rank keeps when others hold the rest."""

    is_view = True

    def __init__(self, source: Box, target: Box) -> None:
        self.source, self.target = source, target

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(self.target.shape, inputs[0].dtype),)

    def view(self, array: Array) -> Array:
        target = self.target
        if target.empty:
            return array[tuple(slice(0, extent) for extent in target.shape)]
        return array[target.within(self.source)]


class FusedAllReduce(AllReduce):
    """The reductions of several tensors over one group, in one message."""

    reuses: ClassVar[tuple[int, ...]] = ()

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return inputs

    def bound(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> BoundCollective:
        packed = runtime.memory((sum(array.size for array in inputs),), inputs[0].dtype)
        load, store = PackedPieces(runtime, inputs, packed).load, PackedPieces(runtime, outputs, packed).store
        return BoundCollective(self.transport(runtime).all_reduce(packed, self.op), load, store)


class FusedRedistribution(Operator):
    """An operator that does several steps at once, the k-th from input k to output k."""

    kind = "communication"

    def __init__(self, steps: Sequence[Redistribution], rank: int) -> None:
        self.steps, self.rank = tuple(steps), rank

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(step.target.local_shape(self.rank), spec.dtype)
            for step, spec in zip(self.steps, inputs, strict=True)
        )

    def transport(self, runtime: Runtime) -> Transport:
        """Return how the ranks that exchange move arrays."""
        return runtime.transport(self.steps[0].ranks(self.rank))

    def communicator(self, runtime: Runtime) -> Communicator:
        """Return the communicator of the ranks that exchange."""
        return runtime.group(self.steps[0].ranks(self.rank))


class _Blocked(FusedRedistribution):
    """Each tensor's blocks along one dim, one for each rank of the group."""

    def bound(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> BoundCollective:
        """Return the collective on these arrays."""
        raise NotImplementedError(self.name)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return self.bound(runtime, inputs, outputs).run

    def is_contiguous(self, arrays: Sequence[Array]) -> bool:
        """Return whether the blocks lie one after another in memory as they are."""
        one = len(arrays) == 1 and prod(arrays[0].shape[: self.steps[0].blocked_dim]) == 1
        return one and bool(arrays[0].flags.c_contiguous)

    def blocks(self, wholes: Sequence[Array], members: int) -> list[Array]:
        """Return each member's block of each tensor, those of one member beside each other."""
        parts = [np.split(whole, members, step.blocked_dim) for whole, step in zip(wholes, self.steps, strict=True)]
        return [blocks[member] for member in range(members) for blocks in parts]


class ReduceScatterBlocks(_Blocked):
    """The sums of the group's arrays, of which each rank keeps its block of one dim."""

    def bound(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> BoundCollective:
        transport, members = self.transport(runtime), self.communicator(runtime).size
        if self.is_contiguous(inputs) and outputs[0].flags.c_contiguous:
            return BoundCollective(transport.reduce_scatter(inputs[0], outputs[0]))
        packed = runtime.memory((members, sum(array.size for array in outputs)), outputs[0].dtype)
        result = runtime.memory((packed.shape[1],), packed.dtype)
        load = PackedPieces(runtime, self.blocks(inputs, members), packed).load
        store = PackedPieces(runtime, outputs, result).store
        return BoundCollective(transport.reduce_scatter(packed, result), load, store)


class GatherBlocks(_Blocked):
    """The wholes of tensors of which each rank of the group has a block of one dim."""

    def bound(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> BoundCollective:
        transport, members = self.transport(runtime), self.communicator(runtime).size
        if self.is_contiguous(outputs) and inputs[0].flags.c_contiguous:
            return BoundCollective(transport.all_gather(inputs[0], outputs[0]))
        own = runtime.memory((sum(array.size for array in inputs),), inputs[0].dtype)
        packed = runtime.memory((members, own.size), own.dtype)
        load = PackedPieces(runtime, inputs, own).load
        store = PackedPieces(runtime, self.blocks(outputs, members), packed).store
        return BoundCollective(transport.all_gather(own, packed), load, store)


class ExchangeBoxes(FusedRedistribution):
    """Each rank of the group sends the others the boxes that they need, by the planner of resharding."""

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        communicator, xp = self.communicator(runtime), runtime.array_module
        names = [str(index) for index in range(len(self.steps))]
        pairs = {name: group_layouts(step, self.rank) for name, step in zip(names, self.steps, strict=True)}
        sources, targets = dict(zip(names, inputs, strict=True)), dict(zip(names, outputs, strict=True))
        plan, members = plan_reshard(pairs, communicator.rank), range(communicator.size)
        exchange: LiveExchange | DeviceExchange
        if runtime.backend.links is None:
            exchange = LiveExchange(plan, pairs, sources, targets, communicator, ranks=members)
        else:
            bound = bind(plan, pairs, sources, targets, communicator, members)
            exchange = DeviceExchange(runtime, bound, self.transport(runtime))
        # This rank's box stays as it is there, but its peers may need parts of it.
        staying = [(targets[name], sources[name]) for name in plan.kept]

        def run() -> None:
            exchange.run()
            for target, source in staying:
                xp.copyto(target, source)

        return run
