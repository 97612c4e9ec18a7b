"""Ranks, sizes and groups by name, under MindSpore's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mpiparallel.communication import world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError


class GlobalComm:
    """The names of the group of all ranks; both mean the same.

    Attributes
    ----------
    WORLD_COMM_GROUP, NCCL_WORLD_COMM_GROUP
        MindSpore's two names.

    Examples
    --------
    >>> GlobalComm.WORLD_COMM_GROUP
    'hccl_world_group'
    """

    WORLD_COMM_GROUP: Final = "hccl_world_group"
    NCCL_WORLD_COMM_GROUP: Final = "nccl_world_group"


def get_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the rank of this process in ``group``.

    Parameters
    ----------
    group : str
        A name given by ``create_group``; by default all ranks.

    Returns
    -------
    int
        From 0 on.

    Raises
    ------
    ConfigurationError
        When there is no such group on this rank.

    Examples
    --------
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(3, lambda communicator: get_rank())
    [0, 1, 2]
    """
    return _named(group).rank


def get_group_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the number of ranks in ``group``.

    Parameters
    ----------
    group : str
        A name given by ``create_group``; by default all ranks.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    ConfigurationError
        When there is no such group on this rank.

    Examples
    --------
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(3, lambda communicator: get_group_size())
    [3, 3, 3]
    """
    return _named(group).size


def get_local_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the position of this process among the ranks of ``group`` on its host.

    Parameters
    ----------
    group : str
        A name given by ``create_group``; by default all ranks.

    Returns
    -------
    int
        From 0 on, on each host.

    Raises
    ------
    ConfigurationError
        When there is no such group on this rank.

    Examples
    --------
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(3, lambda communicator: get_local_rank())
    [0, 1, 2]
    """
    communicator = _named(group)
    return communicator.host_ranks.index(communicator.ranks[communicator.rank])


def get_local_rank_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the number of ranks of ``group`` on the host of this process.

    Parameters
    ----------
    group : str
        A name given by ``create_group``; by default all ranks.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    ConfigurationError
        When there is no such group on this rank.

    Examples
    --------
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(3, lambda communicator: get_local_rank_size())
    [3, 3, 3]
    """
    return len(_named(group).host_ranks)


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """Return the world rank of the member ``group_rank_id`` of ``group``.

    Parameters
    ----------
    group : str
        A name given by ``create_group``, or that of all ranks.
    group_rank_id : int
        From 0 on.

    Returns
    -------
    int
        A rank of the world.

    Raises
    ------
    ConfigurationError
        When there is no such group on this rank, or no such member.

    Examples
    --------
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(2, lambda communicator: get_world_rank_from_group_rank(GlobalComm.WORLD_COMM_GROUP, 1))
    [1, 1]
    """
    ranks = _named(group).ranks
    if not 0 <= group_rank_id < len(ranks):
        raise ConfigurationError(f'group "{group}": no member {group_rank_id}; members are 0 to {len(ranks) - 1}')
    return ranks[group_rank_id]


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """Return which member of ``group`` the world rank ``world_rank_id`` is.

    Parameters
    ----------
    world_rank_id : int
        A rank of the world.
    group : str
        A name given by ``create_group``, or that of all ranks.

    Returns
    -------
    int
        From 0 on.

    Raises
    ------
    ConfigurationError
        When there is no such group on this rank, or the rank is not in it.

    Examples
    --------
    >>> from mpiparallel.communication.threads import run_world
    >>> run_world(2, lambda communicator: get_group_rank_from_world_rank(1, GlobalComm.WORLD_COMM_GROUP))
    [1, 1]
    """
    ranks = _named(group).ranks
    if world_rank_id not in ranks:
        raise ConfigurationError(f'group "{group}": rank {world_rank_id} is not one of its ranks {list(ranks)}')
    return ranks.index(world_rank_id)


def create_group(group: str, rank_ids: Sequence[int], options: object = None) -> None:
    """Name a group of world ranks; exactly these ranks call it. Making the same group again does nothing.

    Parameters
    ----------
    group : str
        A name that is not that of all ranks.
    rank_ids : sequence of int
        World ranks; the members are in ascending order.
    options : object, optional
        MindSpore's; changes nothing, as a remark says.

    Raises
    ------
    ConfigurationError
        When the name stands for other ranks already.

    Examples
    --------
    >>> from mpiparallel.communication.threads import run_world
    >>> def program(communicator):
    ...     if get_rank() == 0:
    ...         return None
    ...     create_group("late", [1, 2])
    ...     return get_rank("late"), get_group_size("late")
    >>> run_world(3, program)
    [None, (0, 2), (1, 2)]
    """
    no_effect("create_group", "options", options, "they tune a library of collectives that is not used")
    groups = world.named_groups()
    known = groups.get(group)
    if group in (GlobalComm.WORLD_COMM_GROUP, GlobalComm.NCCL_WORLD_COMM_GROUP):
        raise ConfigurationError(f'create_group: "{group}" is the name of the group of all ranks; choose another')
    if known is not None and known.ranks != tuple(sorted(rank_ids)):
        raise ConfigurationError(
            f'create_group: "{group}" already names the ranks {list(known.ranks)}; '
            f"call destroy_group before it names {list(rank_ids)}"
        )
    groups[group] = known or world.current().group(rank_ids)


def destroy_group(group: str) -> None:
    """Forget the name of a group. What the group holds is given back by ``release``.

    Parameters
    ----------
    group : str
        A name given by ``create_group``.

    Raises
    ------
    ConfigurationError
        When there is no such group on this rank.

    Examples
    --------
    >>> from mpiparallel.communication.threads import run_world
    >>> def program(communicator):
    ...     create_group("all", [0, 1])
    ...     destroy_group("all")
    >>> run_world(2, program)
    [None, None]
    """
    if world.named_groups().pop(group, None) is None:
        raise ConfigurationError(f'destroy_group: there is no group "{group}"; {_known_names()}')


def _named(group: str) -> Communicator:
    if group in (GlobalComm.WORLD_COMM_GROUP, GlobalComm.NCCL_WORLD_COMM_GROUP):
        return world.current()
    named = world.named_groups().get(group)
    if named is None:
        raise ConfigurationError(f'no group "{group}" on this rank; make it with create_group; {_known_names()}')
    return named


def _known_names() -> str:
    return f"known groups: {', '.join([GlobalComm.WORLD_COMM_GROUP, *world.named_groups()])}"
