"""Showing what ranks print while they print it."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel.launch.job.console import Console
from mpiparallel.launch.job.growing_log import GrowingLog
from mpiparallel.launch.job.output_selection import OutputSelection
from mpiparallel.launch.job.rank_folder import RankFolder


class Tee:
    """Shows the growing logs of ranks on ``console``: one rank's as it is, several line by line behind ``[rank]``."""

    def __init__(self, shown: OutputSelection, folders: Sequence[RankFolder], console: Console) -> None:
        self._console = console
        self._logs = [
            GrowingLog(folders[rank].log, f"[{rank}] ".encode() if shown.is_prefixed else b"") for rank in shown.ranks
        ]

    def follow(self, folder: RankFolder) -> None:
        """Show the log of one more rank, as it is, from now on."""
        log = GrowingLog(folder.log, b"")
        log.skip()
        self._logs.append(log)

    def show(self, is_last: bool = False) -> None:
        """Show what was added to the logs since the last call; with ``is_last`` also lines without an end."""
        content = b"".join([log.added(is_last) for log in self._logs])
        if content:
            self._console.show(content)
