"""Ranks, groups and collectives; ``init`` is the way in, and the names are MindSpore's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.communication.management import GlobalComm as GlobalComm
from mpiparallel.communication.management import create_group as create_group
from mpiparallel.communication.management import destroy_group as destroy_group
from mpiparallel.communication.management import get_group_rank_from_world_rank as get_group_rank_from_world_rank
from mpiparallel.communication.management import get_group_size as get_group_size
from mpiparallel.communication.management import get_local_rank as get_local_rank
from mpiparallel.communication.management import get_local_rank_size as get_local_rank_size
from mpiparallel.communication.management import get_rank as get_rank
from mpiparallel.communication.management import get_world_rank_from_group_rank as get_world_rank_from_group_rank
from mpiparallel.communication.management import init as init
from mpiparallel.communication.management import joined as joined
from mpiparallel.communication.management import release as release
from mpiparallel.compatibility.absent_names import getattr_of

__all__ = [
    "GlobalComm",
    "create_group",
    "destroy_group",
    "get_group_rank_from_world_rank",
    "get_group_size",
    "get_local_rank",
    "get_local_rank_size",
    "get_rank",
    "get_world_rank_from_group_rank",
    "init",
    "joined",
    "release",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__, ("management",))
