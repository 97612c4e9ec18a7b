"""Collective operators over a group of ranks, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.management import GlobalComm, get_group_size, get_world_rank_from_group_rank
from mpiparallel.communication.transport.protocol import Transport, TransportCall
from mpiparallel.errors import ConfigurationError, GradientError, ShapeError, StrategyError
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.layout import Reduction
from mpiparallel.parallel.bound_collective import BoundCollective, OnePiece

Tensors = Sequence[Tensor]


class ReduceOp:
    """The reductions of collectives, by MindSpore's names.

    Attributes
    ----------
    SUM, MAX, MIN, PROD
        What ``op`` of a collective may be.

    Examples
    --------
    >>> ReduceOp.SUM
    'sum'
    """

    SUM: Reduction = "sum"
    MAX: Reduction = "max"
    MIN: Reduction = "min"
    PROD: Reduction = "prod"


class Collective(Operator):
    """An operator in which the ranks of ``group`` take part, all in the same order.

    ``group`` is the name of a group of ``mpiparallel.communication``, or a tuple of world ranks.
    """

    kind = "communication"

    def __init__(self, group: str | tuple[int, ...] = GlobalComm.WORLD_COMM_GROUP) -> None:
        self.group = group

    def ranks(self) -> tuple[int, ...]:
        """Return the world ranks of the group, ascending."""
        if isinstance(self.group, tuple):
            return self.group
        return tuple(get_world_rank_from_group_rank(self.group, member) for member in range(get_group_size(self.group)))

    def transport(self, runtime: Runtime) -> Transport:
        """Return how the group moves arrays."""
        return runtime.transport(self.ranks())

    def equation(self, *inputs: TensorSpec) -> Equation:
        raise StrategyError(
            f"{self.scope or self.name}: a collective placed by hand belongs to a network of local shapes (hybrid "
            "parallel); in semi-auto "
            "parallel mode collectives follow from the strategies, so leave it out"
        )


def _checked_reduction(name: str, op: Reduction) -> Reduction:
    if op not in ("sum", "max", "min", "prod"):
        raise ConfigurationError(f"{name}: op {op!r} is not one of 'sum', 'max', 'min', 'prod'")
    return op


def _blocks_of_dim_0(operator: Collective, spec: TensorSpec, parts: int) -> int:
    if not spec.shape or spec.shape[0] % parts:
        raise ShapeError(
            f"{operator.name}: dim 0 of {spec.shape} cannot be cut into {parts} equal blocks for the group"
        )
    return spec.shape[0] // parts


@register
class AllReduce(Collective):
    """The reduction of ``x`` over the group, on each of its ranks.

    Its gradient (for sums) is the AllReduce of the gradients: what each rank's ``x`` adds to every rank's output.

    Parameters
    ----------
    op : {"sum", "max", "min", "prod"}
        The reduction.
    group : str or tuple of int
        The name of a group of ``mpiparallel.communication``, or world ranks.

    Raises
    ------
    ConfigurationError
        For another ``op``.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(2, lambda communicator: AllReduce()(np.array([1.0 + communicator.rank])).tolist())
    [[3.0], [3.0]]
    """

    reuses: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, op: Reduction = "sum", group: str | tuple[int, ...] = GlobalComm.WORLD_COMM_GROUP) -> None:
        super().__init__(group)
        self.op = _checked_reduction(self.name, op)

    def bound(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> BoundCollective:
        """Return the collective on these arrays."""
        xp, source, target = runtime.array_module, inputs[0], outputs[0]
        piece = OnePiece(runtime, target)
        in_place = source is target or bool(source.size and xp.shares_memory(source, target))

        def load() -> None:
            if not in_place:
                xp.copyto(target, source)
            piece.load()

        return BoundCollective(self.transport(runtime).all_reduce(piece.whole, self.op), load, piece.store)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        return self.bound(runtime, inputs, outputs).run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        if self.op != "sum":
            raise GradientError(f"the gradient of AllReduce(op={self.op!r}) is not defined; use op='sum'")
        return (AllReduce("sum", self.group)(gradients[0]),)


class _Moving(Collective):
    """A collective whose kernel fills a second array; subclasses say how."""

    def call(self, transport: Transport, source: Array, target: Array) -> TransportCall:
        """Return what fills ``target`` from ``source``, both in C order."""
        raise NotImplementedError(self.name)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        source, target = OnePiece(runtime, inputs[0]), OnePiece(runtime, outputs[0])
        call = self.call(self.transport(runtime), source.whole, target.whole)
        return BoundCollective(call, source.load, target.store).run


@register
class AllGather(_Moving):
    """The ``x`` of all ranks of the group, one after another along dim 0.

    Parameters
    ----------
    group : str or tuple of int
        The name of a group of ``mpiparallel.communication``, or world ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(2, lambda communicator: AllGather()(np.array([1.0 + communicator.rank])).tolist())
    [[1.0, 2.0], [1.0, 2.0]]
    """

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape = inputs[0].shape
        if not shape:
            raise ShapeError(f"{self.name}: a 0-d tensor has no dim 0 to gather along; reshape it to (1,)")
        return (TensorSpec((shape[0] * len(self.ranks()), *shape[1:]), inputs[0].dtype),)

    def call(self, transport: Transport, source: Array, target: Array) -> TransportCall:
        return transport.all_gather(source, target)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (ReduceScatter("sum", self.group)(gradients[0]),)


@register
class ReduceScatter(_Moving):
    """The reduction of ``x`` over the group; rank ``k`` of it gets block ``k`` of dim 0.

    Parameters
    ----------
    op : {"sum", "max", "min", "prod"}
        The reduction.
    group : str or tuple of int
        The name of a group of ``mpiparallel.communication``, or world ranks.

    Raises
    ------
    ShapeError
        When dim 0 cannot be cut into equal blocks, one a rank.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(2, lambda communicator: ReduceScatter()(np.array([1.0, 2.0])).tolist())
    [[2.0], [4.0]]
    """

    def __init__(self, op: Reduction = "sum", group: str | tuple[int, ...] = GlobalComm.WORLD_COMM_GROUP) -> None:
        super().__init__(group)
        self.op = _checked_reduction(self.name, op)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        rows = _blocks_of_dim_0(self, inputs[0], len(self.ranks()))
        return (TensorSpec((rows, *inputs[0].shape[1:]), inputs[0].dtype),)

    def call(self, transport: Transport, source: Array, target: Array) -> TransportCall:
        return transport.reduce_scatter(source, target, self.op)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        if self.op != "sum":
            raise GradientError(f"the gradient of ReduceScatter(op={self.op!r}) is not defined; use op='sum'")
        return (AllGather(self.group)(gradients[0]),)


@register
class AlltoAll(Collective):
    """Block ``k`` of ``x`` along ``split_dim`` sent to rank ``k``; what arrives, joined along ``concat_dim``.

    Parameters
    ----------
    split_count : int
        The number of ranks.
    split_dim, concat_dim : int
        The dims, each from the left.
    group : str or tuple of int
        The name of a group of ``mpiparallel.communication``, or world ranks.

    Raises
    ------
    ShapeError
        When the dim cannot be cut into so many equal blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(2, lambda communicator: AlltoAll(2, 0, 0)(np.array([1.0, 2.0]) + 10 * communicator.rank).tolist())
    [[1.0, 11.0], [2.0, 12.0]]
    """

    def __init__(
        self,
        split_count: int,
        split_dim: int,
        concat_dim: int,
        group: str | tuple[int, ...] = GlobalComm.WORLD_COMM_GROUP,
    ) -> None:
        super().__init__(group)
        self.split_count, self.split_dim, self.concat_dim = split_count, split_dim, concat_dim

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        shape, count = list(inputs[0].shape), self.split_count
        if count != len(self.ranks()):
            raise ShapeError(f"{self.name}: split_count {count} must be the size of the group, {len(self.ranks())}")
        if shape[self.split_dim] % count:
            raise ShapeError(
                f"{self.name}: dim {self.split_dim} of {inputs[0].shape} cannot be cut into {count} equal blocks"
            )
        shape[self.split_dim] //= count
        shape[self.concat_dim] *= count
        return (TensorSpec(tuple(shape), inputs[0].dtype),)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp = runtime.array_module
        given = xp.split(inputs[0], self.split_count, axis=self.split_dim)
        taken = xp.split(outputs[0], self.split_count, axis=self.concat_dim)
        sent, received = (runtime.memory((self.split_count, *given[0].shape), inputs[0].dtype) for _ in range(2))

        def load() -> None:
            for slot, block in zip(sent, given, strict=True):
                xp.copyto(slot, block)

        def store() -> None:
            for block, slot in zip(taken, received, strict=True):
                xp.copyto(block, slot)

        return BoundCollective(self.transport(runtime).all_to_all(sent, received), load, store).run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (AlltoAll(self.split_count, self.concat_dim, self.split_dim, self.group)(gradients[0]),)


class _Rooted(Collective):
    """A collective with a root: member ``root_rank`` of the group."""

    def __init__(self, root_rank: int, group: str | tuple[int, ...] = GlobalComm.WORLD_COMM_GROUP) -> None:
        super().__init__(group)
        self.root_rank = root_rank

    def call(self, transport: Transport, array: Array) -> TransportCall:
        """Return what turns the input into the output, in place."""
        raise NotImplementedError(self.name)

    def settle(self, runtime: Runtime, array: Array) -> None:
        """Do what is left to do afterwards."""

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, piece = runtime.array_module, OnePiece(runtime, outputs[0])
        call = self.call(self.transport(runtime), piece.whole)

        def run() -> None:
            xp.copyto(piece.whole, inputs[0])
            call.run()
            self.settle(runtime, piece.whole)
            piece.store()

        return run


@register
class Broadcast(_Rooted):
    """The ``x`` of member ``root_rank`` of the group, on all of its ranks.

    Parameters
    ----------
    root_rank : int
        A member of the group.
    group : str or tuple of int
        The name of a group of ``mpiparallel.communication``, or world ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(2, lambda communicator: Broadcast(0)(np.array([1.0 + communicator.rank])).tolist())
    [[1.0], [1.0]]
    """

    def call(self, transport: Transport, array: Array) -> TransportCall:
        return transport.broadcast(array, self.root_rank)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (Reduce(self.root_rank, self.group)(gradients[0]),)


class Reduce(_Rooted):
    """The sum of ``x`` over the group on member ``root_rank``, zeros on the others: the gradient of Broadcast."""

    def call(self, transport: Transport, array: Array) -> TransportCall:
        return transport.reduce(array, self.root_rank)

    def settle(self, runtime: Runtime, array: Array) -> None:
        if runtime.group(self.ranks()).rank != self.root_rank:
            array.fill(0)

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (Broadcast(self.root_rank, self.group)(gradients[0]),)
