"""What a program is told once, in one line: something that it asks for changes nothing here, or means something else.

A remark goes to the logger "mpiparallel" as a warning, which Python writes to stderr where a program has not set up
logging. Of the ranks that a launcher has started, rank 0 alone speaks.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from mpiparallel.cluster.environment import Environment
from mpiparallel.errors import ConfigurationError

LOGGER: Final = "mpiparallel"


class _EachLineOnce(logging.Filter):
    """Lets each line through once in a process, whichever of its threads says it first."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the line of ``record`` is new."""
        line = record.getMessage()
        with self._lock:
            is_new = line not in self._said
            self._said.add(line)
        return is_new


def remark(line: str) -> None:
    """Say ``line``, unless this process has said it, or another rank of the job says it.

    >>> remark("set_context: device_target 'Ascend' is the CPU of this rank")
    """
    if _speaks():
        logger = logging.getLogger(f"{LOGGER}.remark")
        if not any(isinstance(present, _EachLineOnce) for present in logger.filters):
            logger.addFilter(_EachLineOnce())
        logger.warning("mpiparallel: %s", line)


def forget_remarks() -> None:
    """Let each line be said once more, as in a new process."""
    logger = logging.getLogger(f"{LOGGER}.remark")
    for present in list(logger.filters):
        logger.removeFilter(present)


def _speaks() -> bool:
    try:
        return Environment.read().rank == 0
    except ConfigurationError:
        return True
