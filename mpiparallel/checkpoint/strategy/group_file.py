"""Group files: which groups a rank communicates in, and which ranks hold the same state as it does.

MindSpore writes one for each rank where ``GROUP_INFO_FILE`` says; restoring reads the checkpoint of any rank listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mpiparallel.checkpoint.strategy import node_strategy
from mpiparallel.checkpoint.strategy.message_file import new_name, path_of, read_message, write_content
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import StrategyFileError, about

_NOUN = "group file"
_MOST_RANKS = 2**31 - 1


@dataclass(frozen=True)
class GroupRecord:
    """The groups of one rank by name, and the ranks whose state equals its own; none in a file of inference."""

    groups: dict[str, tuple[int, ...]]
    restore_ranks: tuple[int, ...]


def libstdcxx_hash(text: str) -> int:
    """Return what ``std::hash<std::string>`` of GNU's C++ library gives on 64-bit machines: MurmurHash64A.

    >>> libstdcxx_hash("0-1-2-3")
    6301172352641561019
    """
    multiplier, mask = 0xC6A4A7935BD1E995, 2**64 - 1
    data = text.encode()
    result = 0xC70F6907 ^ (len(data) * multiplier & mask)
    for start in range(0, len(data) - 7, 8):
        word = int.from_bytes(data[start : start + 8], "little") * multiplier & mask
        result = (result ^ ((word ^ word >> 47) * multiplier & mask)) * multiplier & mask
    rest = data[len(data) & ~7 :]
    if rest:
        result = (result ^ int.from_bytes(rest, "little")) * multiplier & mask
    result = (result ^ result >> 47) * multiplier & mask
    return result ^ result >> 47


def group_name(ranks: Sequence[int]) -> str:
    """Return the name of the group of ``ranks``: their number and the hash of the ranks, ascending.

    >>> group_name((4, 0))
    '2-16453000547691086251'
    """
    return f"{len(ranks)}-{libstdcxx_hash('-'.join(map(str, sorted(ranks))))}"


def write_group_info(path: str | Path, groups: Sequence[tuple[int, ...]], restore_ranks: Sequence[int]) -> None:
    """Write the groups of one rank, the world left out, and the ranks whose state equals its own.

    The file is replaced in one step. Raises ``StrategyFileError`` if it cannot be written.
    """
    target = Path(path)
    message = node_strategy.ParallelGroupMap()
    for ranks in groups:
        _check_group(ranks, f"{target}: group {list(ranks)}")
        message.parallel_group_item.add(group_name=group_name(ranks)).parallel_group_ranks.dim.extend(sorted(ranks))
    _check_ranks(restore_ranks, f"{target}: restore ranks {list(restore_ranks)}")
    message.ckpt_restore_rank_list.SetInParent()
    message.ckpt_restore_rank_list.dim.extend(restore_ranks)
    write_content(target, message.SerializeToString())


def read_group_info(path: str | Path) -> GroupRecord:
    """Return what the group file ``path`` says. Raises ``StrategyFileError`` if it cannot be read or is damaged."""
    source = Path(path)
    message = read_message(node_strategy.ParallelGroupMap, source, _NOUN, "GROUP_INFO_FILE")
    groups: dict[str, tuple[int, ...]] = {}
    for item in message.parallel_group_item:
        with about(str(source)):
            name = new_name(item.group_name, groups)
        groups[name] = tuple(item.parallel_group_ranks.dim)
        _check_group(groups[name], f'{source}: group "{name}"')
    restore_ranks = tuple(message.ckpt_restore_rank_list.dim)
    _check_ranks(restore_ranks, f"{source}: ckpt_restore_rank_list")
    return GroupRecord(groups, restore_ranks)


def restore_group_info_list(group_info_file_name: str) -> list[int]:
    """Return the ranks whose checkpoints can replace that of the rank that wrote the file.

    As MindSpore's function of that name.

    Parameters
    ----------
    group_info_file_name : str
        A group file, as training writes it where ``GROUP_INFO_FILE`` or ``group_ckpt_save_file`` says.

    Returns
    -------
    list of int
        Empty for a file of inference.

    Raises
    ------
    StrategyFileError
        A ValueError, if it is not a path or not that of a group file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_group_info(f"{folder}/group_info.pb", [(0, 2)], [0, 2])
    ...     restore_group_info_list(f"{folder}/group_info.pb")
    [0, 2]
    """
    return list(read_group_info(path_of(group_info_file_name, "group_info_file_name", _NOUN)).restore_ranks)


def _check_group(ranks: Sequence[int], where: str) -> None:
    if not ranks:
        raise StrategyFileError(f"{where}: has no rank; leave empty groups out")
    _check_ranks(ranks, where)


def _check_ranks(ranks: Sequence[int], where: str) -> None:
    if len(set(ranks)) != len(ranks) or any(not 0 <= rank <= _MOST_RANKS for rank in ranks):
        raise StrategyFileError(f"{where}: names a rank twice, or one that cannot be; name each rank once, from 0")
