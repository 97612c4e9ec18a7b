"""Stages of a pipeline that lie on several hosts, though the hosts could take each of them whole."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel.cluster.flight.recorder import spans
from mpiparallel.compatibility.remark import remark


def remark_split_stages(stages: Sequence[Sequence[int]], hosts: Sequence[int]) -> None:
    """Say once which stages are split over hosts, and ranks for all stages that would split none, if there are such.

    ``stages`` are the ranks of each stage; ``hosts`` gives each rank the lowest one on its host.
    """
    split = [number for number, ranks in enumerate(stages) if len({hosts[rank] for rank in ranks}) > 1]
    whole = unsplit(stages, hosts) if split else None
    if whole is not None:
        told = ", ".join(f"stage {number} (ranks {spans(stages[number])})" for number in split)
        remark(
            f"pipeline_stages: {told} {'is' if len(split) == 1 else 'are'} split over hosts, so what ranks of a stage "
            f"exchange crosses the network; pipeline_stages={whole} has each stage on one host, as has a launcher that "
            "fills one host after another"
        )


def unsplit(stages: Sequence[Sequence[int]], hosts: Sequence[int]) -> list[list[int]] | None:
    """Return ranks for all stages, as many in each, so that each is on one host; None where none are found.

    The largest stages choose first, each the first host that has room.

    >>> unsplit([[0, 1], [2, 3]], [0, 1, 0, 1])
    [[0, 2], [1, 3]]
    >>> unsplit([[0], [1, 2, 3]], [0, 0, 0, 3])
    [[3], [0, 1, 2]]
    >>> unsplit([[0, 1], [2, 3]], [0, 1, 1, 1]) is None
    True
    """
    free: dict[int, list[int]] = {}
    for rank in sorted(rank for ranks in stages for rank in ranks):
        free.setdefault(hosts[rank], []).append(rank)
    found: list[list[int]] = [[] for _ in stages]
    for number in sorted(range(len(stages)), key=lambda one: -len(stages[one])):
        size = len(stages[number])
        room = next((ranks for ranks in free.values() if len(ranks) >= size), None)
        if room is None:
            return None
        found[number], room[:size] = room[:size], []
    return found
