"""A reshard as a transaction: at any time every rank knows one consistent state."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.communication.agreement import failing_together, raise_together
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ReshardError
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.agreement import agree_on_dtypes, agree_on_layouts, misfit
from mpiparallel.reshard.array_space import ArraySpace, HostSpace
from mpiparallel.reshard.bound_plan import Arrays, BoundPlan, bind
from mpiparallel.reshard.executors.executor import Executor
from mpiparallel.reshard.executors.traffic_shape import PieceBytes, agree_on_shape
from mpiparallel.reshard.options import ReshardOptions
from mpiparallel.reshard.planning.plan import LayoutPair, ReshardPlan
from mpiparallel.reshard.planning.plan_cache import PlanCache
from mpiparallel.reshard.report import ReshardReport
from mpiparallel.reshard.tensor_digest import changed, digests
from mpiparallel.reshard.verification import verify
from mpiparallel.reshard.waves import waves

LiveArrays = MutableMapping[str, NDArray[Any]]


class Movement:
    """Live state on its way from one set of layouts to another; all ranks make it and call it together.

    ``arrays`` and ``layouts`` say at any time, also after an error, what this rank holds and where each tensor is. All
    ranks then agree on that state. In safe mode it is the source or the target. In bounded mode the given mapping is
    itself kept up to date, so no reference keeps old arrays alive. There an error may leave some tensors moved and the
    others not: ``forward`` goes on from there, ``back`` returns to the source.

    Parameters
    ----------
    arrays : dict of str to array
        This rank's box of each tensor that it holds by ``source``, and nothing else; the arrays are never written.
    source, target : dict of str to Layout
        Where each tensor is, and where it is to be.
    communicator : Communicator
        It has all ranks of both.
    options : ReshardOptions, optional
        How it is carried out.
    plans : optional
        Plans are taken from there, and kept there.
    absent : sequence of int
        Ranks of the source that have died: who holds the same gives it, and there is no way back.
    space : ArraySpace, optional
        Where the arrays are, on every rank; by default in the host's memory.

    Raises
    ------
    ReshardError
        On every rank, before a byte moves, when ranks disagree on layouts, options or dtypes, or an array does not fit
        its layout.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel.communication.threads import run_world
    >>> from mpiparallel.layout import DeviceMatrix, Layout
    >>> here, there = (Layout((2,), DeviceMatrix((1,), rank), ((),)) for rank in (0, 1))
    >>> def move(communicator):
    ...     arrays = {"x": np.array([1, 2])} if communicator.rank == 0 else {}
    ...     movement = Movement(arrays, {"x": here}, {"x": there}, communicator)
    ...     _ = movement.forward()
    ...     return {name: array.tolist() for name, array in movement.arrays.items()}
    >>> run_world(2, move)
    [{}, {'x': [1, 2]}]
    """

    def __init__(
        self,
        arrays: LiveArrays,
        source: Mapping[str, Layout],
        target: Mapping[str, Layout],
        communicator: Communicator,
        options: ReshardOptions | None = None,
        plans: PlanCache | None = None,
        absent: Collection[int] = (),
        space: ArraySpace | None = None,
    ) -> None:
        self._communicator = communicator
        self._absent = frozenset(absent)
        self._rank = communicator.ranks[communicator.rank]
        self._options = options or ReshardOptions()
        self._plans = plans or PlanCache()
        raise_together(_unlike_names(source, target), communicator, ReshardError)
        pairs = {tensor: (layout, target[tensor]) for tensor, layout in source.items()}
        agree_on_layouts(pairs, self._options, communicator, self._absent)
        self._space: ArraySpace = space or HostSpace(self._options, communicator)
        problem = _unchangeable(arrays, self._options) or misfit(arrays, pairs, self._rank, self._space.problem)
        raise_together(problem, communicator, ReshardError)
        self._dtypes = agree_on_dtypes(arrays, sorted(pairs), communicator)
        self._itemsizes = {tensor: dtype.itemsize for tensor, dtype in self._dtypes.items()}
        self._hosts = _hosts(communicator)
        self._source, self._target = dict(source), dict(target)
        self.layouts = dict(source)
        self.arrays: LiveArrays = arrays if self._options.mode == "bounded" else dict(arrays)

    def forward(self) -> ReshardReport:
        """Move every tensor that is not there yet to its target layout.

        Raises ReshardError on every rank when one of them runs out of memory or bytes arrive damaged.
        """
        return self._move(self._target)

    def back(self) -> ReshardReport:
        """Move every tensor that has moved back to its source layout; it raises what ``forward`` raises."""
        return self._move(self._source)

    def _move(self, goal: Mapping[str, Layout]) -> ReshardReport:
        pairs = {tensor: (layout, goal[tensor]) for tensor, layout in self.layouts.items() if layout != goal[tensor]}
        if pairs:
            # Once for an MPI library, so it is no part of what this move takes.
            self._space.get_ready()
        started = time.perf_counter()
        done = _Totals()
        for wave in self._waves(pairs):
            with self._telling_where_things_are(goal):
                self._move_wave({tensor: pairs[tensor] for tensor in wave}, done)
        kept = sum(array.nbytes for array in self.arrays.values()) - done.bytes_received
        return done.report(kept, time.perf_counter() - started, self._communicator)

    def _waves(self, pairs: Mapping[str, LayoutPair]) -> list[list[str]]:
        if self._options.mode == "safe":
            return [sorted(pairs)] if pairs else []
        return waves(pairs, self._itemsizes, self._options.wave_bytes)

    @contextmanager
    def _telling_where_things_are(self, goal: Mapping[str, Layout]) -> Iterator[None]:
        try:
            yield
        except ReshardError as error:
            there = sum(layout == goal[tensor] for tensor, layout in self.layouts.items())
            moved = f"{there} of {len(goal)} tensors are in their new layout" if there else "nothing was moved"
            raise ReshardError(f"{error}\n{moved}, the old state of all others is intact") from error

    def _move_wave(self, pairs: Mapping[str, LayoutPair], done: _Totals) -> None:
        """Fill new arrays, have every rank verify them, and only then let them take the place of the old ones."""
        before = self._digests(self.arrays, pairs, 0)
        prepared = self._prepare(pairs)
        self._carry_out(prepared.executor)
        self._compare(before, prepared.targets, pairs)
        for tensor, (_, layout) in pairs.items():
            self.layouts[tensor] = layout
            if tensor in prepared.targets:
                self.arrays[tensor] = prepared.targets[tensor]
            else:
                self.arrays.pop(tensor, None)
        done.add(prepared.bound, prepared.name)

    def _prepare(self, pairs: Mapping[str, LayoutPair]) -> _Prepared:
        """Plan, allocate and bind; on every rank or on none."""
        communicator, options = self._communicator, self._options
        with failing_together(communicator, ReshardError):
            sizes = {tensor: self._itemsizes[tensor] for tensor in pairs}
            plan = self._plans.plan(pairs, self._rank, sizes, self._hosts, absent=self._absent)
        # What checksums need is taken from the windows.
        for_windows = options.scratch_bytes - self._space.checksum_bytes
        shape = agree_on_shape(_piece_bytes(plan, self._itemsizes), communicator, for_windows)
        kept = set(plan.kept)
        name, targets = self._space.targets(self._space.choose(shape), _side(pairs, 1), self._dtypes, kept)
        targets.arrays.update({tensor: self.arrays[tensor] for tensor in kept})
        with failing_together(communicator, ReshardError):
            bound = bind(plan, pairs, self.arrays, targets.arrays, communicator)
            executor = self._space.executor(name, bound, shape, targets)
        return _Prepared(name, executor, bound, targets.arrays)

    def _digests(self, arrays: Arrays, pairs: Mapping[str, LayoutPair], side: int) -> dict[str, int]:
        if not self._options.digest:
            return {}
        return digests(arrays, _side(pairs, side), self._communicator, self._space.digest)

    def _compare(self, before: Mapping[str, int], targets: Arrays, pairs: Mapping[str, LayoutPair]) -> None:
        """Raise ReshardError on every rank if a digest has changed."""
        try:
            after = self._digests(targets, pairs, 1)
        except ReshardError as error:
            raise ReshardError(f"what has arrived differs from rank to rank: {error}") from error
        for tensor in changed(before, after)[:1]:
            raise ReshardError(f"{tensor}: its digest is another after it was moved")

    def _carry_out(self, executor: Executor) -> None:
        try:
            executor.connect()
            checked = executor.run()
        finally:
            executor.free()
        if self._options.verify:
            verify(checked, self._communicator)


class _Prepared(NamedTuple):
    """A wave that is ready to be carried out."""

    name: str
    executor: Executor
    bound: BoundPlan
    targets: Arrays


class _Totals:
    """What the waves of one movement did on this rank."""

    def __init__(self) -> None:
        self.bytes_received = 0
        self._bytes_sent = 0
        self._messages = 0
        self._waves = 0
        self._executors: set[str] = set()

    def add(self, bound: BoundPlan, executor: str) -> None:
        """Count a wave."""
        self.bytes_received += bound.bytes_received
        self._bytes_sent += bound.bytes_sent
        self._messages += len(bound.outgoing)
        self._waves += 1
        self._executors.add(executor)

    def report(self, bytes_kept: int, seconds: float, communicator: Communicator) -> ReshardReport:
        """Return what all ranks did together."""
        sums = np.array([self._bytes_sent, bytes_kept, self._messages], np.int64)
        communicator.all_reduce(sums)
        slowest = np.array(seconds)
        communicator.all_reduce(slowest, "max")
        moved, kept, messages = sums.tolist()
        return ReshardReport(moved, kept, float(slowest), messages, self._waves, tuple(sorted(self._executors)))


def _side(pairs: Mapping[str, LayoutPair], side: int) -> dict[str, Layout]:
    return {tensor: pair[side] for tensor, pair in pairs.items()}


def _unlike_names(source: Mapping[str, Layout], target: Mapping[str, Layout]) -> str | None:
    unlike = sorted(source.keys() ^ target.keys())
    if not unlike:
        return None
    return f"{unlike[0]}: give every tensor a source layout and a target layout; {len(unlike)} have only one"


def _unchangeable(arrays: LiveArrays, options: ReshardOptions) -> str | None:
    if options.mode == "safe" or isinstance(arrays, MutableMapping):
        return None
    return f"bounded mode keeps the given arrays up to date, a {type(arrays).__name__} cannot be changed; give a dict"


def _hosts(communicator: Communicator) -> Hosts:
    """Return the host of each rank; numbers of ranks that are not members mean nothing."""
    numbers = [0] * (max(communicator.ranks) + 1)
    for rank, host in zip(communicator.ranks, communicator.hosts, strict=True):
        numbers[rank] = host
    return Hosts(tuple(numbers))


def _piece_bytes(plan: ReshardPlan, itemsizes: Mapping[str, int]) -> PieceBytes:
    sends, receives = (
        [[size * itemsizes[tensor] for tensor, size in stream] for stream in side] for side in plan.piece_sizes
    )
    return sends, receives
