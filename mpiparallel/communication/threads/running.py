"""The ways into a world of thread ranks: alone, or several that run one function."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads.communicator import ThreadCommunicator
from mpiparallel.communication.threads.rendezvous import FINISHED, ThreadWorld
from mpiparallel.communication.world import use
from mpiparallel.errors import CommunicationError

Result = TypeVar("Result")

_LONGEST_TICK = 0.5
# Whoever gets less of a processor does not want it.
_LEAST_SHARE = 0.01


def alone() -> Communicator:
    """Return a world of one rank, which needs no MPI.

    Returns
    -------
    Communicator
        Its collectives return at once.

    Examples
    --------
    >>> alone().size
    1
    """
    return ThreadCommunicator(ThreadWorld(1), (0,), 0)


def run_world(
    size: int,
    function: Callable[..., Result],
    *args: Any,
    timeout: float = 60.0,
    overlaps: bool = False,
    hosts: Sequence[int] | None = None,
) -> list[Result]:
    """Run a function on thread ranks and return what they return, in rank order.

    The communicator is also the current world of its thread. If a rank raises, the others are released and the first
    exception is raised again, with a note that names the rank.

    Parameters
    ----------
    size : int
        How many ranks.
    function : callable
        It is called as ``function(communicator, *args)``.
    *args
        What it is given besides.
    timeout : float
        Seconds that the ranks may take, not counting those for which a busy machine keeps them from computing.
    overlaps : bool
        Whether programs start collectives early; their results then arrive as late as they may.
    hosts : sequence of int, optional
        The host that each rank is to believe it runs on; ranks with equal numbers share one.

    Returns
    -------
    list
        A result for each rank.

    Raises
    ------
    CommunicationError
        If the ranks take longer.

    Examples
    --------
    >>> run_world(3, lambda communicator: communicator.rank)
    [0, 1, 2]
    >>> run_world(3, lambda communicator: communicator.host_ranks, hosts=[7, 8, 7])
    [(0, 2), (1,), (0, 2)]
    """
    world = ThreadWorld(size, overlaps, hosts)
    results: dict[int, Result] = {}
    failures: list[BaseException] = []

    def be_rank(rank: int) -> None:
        how = FINISHED
        try:
            communicator = ThreadCommunicator(world, tuple(range(size)), rank)
            with use(communicator):
                results[rank] = function(communicator, *args)
        except BaseException as error:  # whatever ends a rank must release the others
            vars(error).setdefault("__notes__", []).append(f"raised on rank {rank} of {size}")
            failures.append(error)
            how = f"failed with {type(error).__name__}: {error}"
        finally:
            world.end(rank, how)

    threads = [threading.Thread(target=be_rank, args=(rank,), name=f"rank {rank}", daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    _join(threads, world, timeout)
    if failures:
        raise failures[0]
    return [results[rank] for rank in range(size)]


def _join(threads: list[threading.Thread], world: ThreadWorld, timeout: float) -> None:
    left, used = timeout, time.process_time()
    for thread in threads:
        while thread.is_alive() and left > 0.0:
            begun = time.monotonic()
            thread.join(min(left, _LONGEST_TICK))
            passed, before, used = time.monotonic() - begun, used, time.process_time()
            computed = used - before
            left -= passed if computed < _LEAST_SHARE * passed else min(passed, computed)
    running = [rank for rank, thread in enumerate(threads) if thread.is_alive()]
    if not running:
        return
    activities = {rank: world.activity(rank) for rank in running}
    for rank in running:
        world.end(rank, f"did not end within {timeout:g} s")
    states = [f"rank {rank} " + (f"waits in {what}" if what else "computes") for rank, what in activities.items()]
    raise CommunicationError(
        f"the world of {world.size} thread ranks did not end within {timeout:g} s: {'; '.join(states)}"
    )
