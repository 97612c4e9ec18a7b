"""A world whose ranks are threads of one process: the reference for every other one, and what tests run on."""

from mpiparallel.communication.threads.communicator import ThreadCommunicator as ThreadCommunicator
from mpiparallel.communication.threads.running import alone as alone
from mpiparallel.communication.threads.running import run_world as run_world

__all__ = ["ThreadCommunicator", "alone", "run_world"]
