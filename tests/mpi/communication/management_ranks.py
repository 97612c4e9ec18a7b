"""Uses the MindSpore-named front as a user's program does; ``fail`` lets rank 1 raise while the others wait."""

from __future__ import annotations

import sys

import numpy as np

from mpiparallel.communication import (
    create_group,
    destroy_group,
    get_group_rank_from_world_rank,
    get_group_size,
    get_local_rank,
    get_local_rank_size,
    get_rank,
    get_world_rank_from_group_rank,
    init,
    release,
)
from mpiparallel.communication.world import current, initialised, named_groups


def check_groups() -> None:
    rank, size = get_rank(), get_group_size()
    assert (get_local_rank(), get_local_rank_size()) == (rank, size)
    for first in (0, 1):
        members = list(range(first, size, 2))
        if rank in members:
            create_group("stripe", members)
            assert get_rank("stripe") == members.index(rank)
            assert get_group_size("stripe") == len(members)
            assert get_world_rank_from_group_rank("stripe", 0) == first
            assert get_group_rank_from_world_rank(rank, "stripe") == members.index(rank)
            total = np.array(1)
            named_groups()["stripe"].all_reduce(total)
            assert total == len(members)
            destroy_group("stripe")


def main() -> None:
    init()
    if "fail" in sys.argv and get_rank() == 1:
        raise ValueError("this rank has no data")
    current().barrier()
    check_groups()
    rank, size = get_rank(), get_group_size()
    release()
    assert not initialised()
    sys.stdout.write(f"rank {rank} of {size} is through\n")


if __name__ == "__main__":
    main()
