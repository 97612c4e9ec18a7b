"""Showing what ranks print while they print it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mpiparallel.launch.job.growing_log import GrowingLog
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.job.shown import Shown


class Tee:
    """Copies the growing logs of ranks to stdout: one rank's as it is, several line by line behind ``[rank]``."""

    def __init__(self, shown: Shown, folders: Sequence[RankFolder]) -> None:
        self._logs = [
            GrowingLog(folders[rank].log, f"[{rank}] ".encode() if shown.is_prefixed else b"") for rank in shown.ranks
        ]

    def follow(self, folder: RankFolder) -> None:
        """Show the log of one more rank, as it is, from now on."""
        log = GrowingLog(folder.log, b"")
        log.skip()
        self._logs.append(log)

    def show(self, is_last: bool = False) -> None:
        """Write what was added to the logs since the last call; with ``is_last`` also lines without an end."""
        # As bytes: a terminal that cannot show a character must not end the job.
        content = b"".join([log.added(is_last) for log in self._logs])
        if not content:
            return
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # Who read it has gone, as head does; the job goes on, and its logs have it all.
            self._logs.clear()
