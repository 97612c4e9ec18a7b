"""How processes that a shell has started one by one become the ranks of one job.

Rank 0 starts mpirun. What that starts are stand-ins. Each hands its place in the job over to the process that waits as
its rank, and stays until that ends.
"""

from mpiparallel.communication.gathering.joining import join_hand_started as join_hand_started
from mpiparallel.communication.gathering.tie import Tie as Tie

__all__ = ["Tie", "join_hand_started"]
