"""Which ranks hold the same slice of a parameter, for each parameter.

The list in ``group_info.pb`` is one for the whole model: a rank that shares all parameters but one with another is not
on it. So ``group_info.parameters.json`` is written beside it, and says the ranks parameter by parameter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mpiparallel.checkpoint.strategy.message_file import path_of, read_content, write_content
from mpiparallel.errors import StrategyFileError, about
from mpiparallel.layout.layout import Layout

_FORMAT: Final = "mpiparallel replica groups 1"
_NOUN: Final = "group file"
_SUFFIX: Final = ".parameters.json"
_MOST_RANKS: Final = 2**31 - 1

Groups = Mapping[str, Sequence[int]]


def parameter_replica_groups(layouts: Mapping[str, Layout], rank: int) -> dict[str, tuple[int, ...]]:
    """Return, for each parameter that ``rank`` has a slice of, the ranks, ascending, that hold the same slice.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> devices = DeviceMatrix((2, 2))
    >>> layouts = {"w": Layout((8, 6), devices, ((1,), ())), "b": Layout((6,), devices, ((),))}
    >>> parameter_replica_groups(layouts, 1)
    {'w': (1, 3), 'b': (0, 1, 2, 3)}
    """
    return {name: layout.replica_group(rank) for name, layout in layouts.items() if rank in layout.devices}


def replica_group_file(group_info_file_name: str | Path) -> Path:
    """Return the name of the file with the replica groups beside a group file.

    >>> str(replica_group_file("device0/group_info.pb"))
    'device0/group_info.parameters.json'
    """
    path = path_of(group_info_file_name, "group_info_file_name", _NOUN)
    return path if path.name.endswith(_SUFFIX) else path.with_suffix(_SUFFIX)


def write_replica_groups(group_info_file_name: str | Path, rank: int, groups: Groups) -> Path:
    """Write the replica groups of ``rank`` beside the group file of that name, and return the path.

    The file is replaced in one step. Raises ``StrategyFileError`` if it cannot be written, or if a group is without
    ``rank``.
    """
    target = replica_group_file(group_info_file_name)
    named: dict[tuple[int, ...], list[str]] = {}
    for name, ranks in groups.items():
        named.setdefault(tuple(sorted(ranks)), []).append(name)
    entries = [{"ranks": list(ranks), "parameters": sorted(names)} for ranks, names in sorted(named.items())]
    content = {"format": _FORMAT, "rank": rank, "groups": entries}
    with about(str(target)):
        _checked(content)
    write_content(target, json.dumps(content, indent=1).encode())
    return target


def restore_parameter_group_info(group_info_file_name: str | Path) -> dict[str, list[int]]:
    """Return, for each parameter, the ranks whose checkpoints have the slice that the rank of the file has.

    Parameters
    ----------
    group_info_file_name : str or Path
        The group file, as for ``restore_group_info_list``, or the file beside it.

    Returns
    -------
    dict of str to list of int
        By the parameter's name.

    Raises
    ------
    StrategyFileError
        A ValueError, if it is not a path or not that of a sound file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_replica_groups(f"{folder}/group_info.pb", 1, {"w": (1, 3)})
    ...     restore_parameter_group_info(f"{folder}/group_info.pb")
    {'w': [1, 3]}
    """
    source = replica_group_file(group_info_file_name)
    text = read_content(source, "file of replica groups", "GROUP_INFO_FILE")
    with about(str(source)):
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise StrategyFileError(f"is no JSON ({error}); write it again") from error
        return _checked(content)


def _checked(content: Any) -> dict[str, list[int]]:
    if not isinstance(content, dict) or set(content) != {"format", "rank", "groups"} or content["format"] != _FORMAT:
        raise StrategyFileError(f'is not of the format "{_FORMAT}"; write it again')
    rank, groups = content["rank"], content["groups"]
    if not isinstance(groups, list):
        raise StrategyFileError("its groups are no list; write it again")
    found: dict[str, list[int]] = {}
    for entry in groups:
        if not isinstance(entry, dict) or set(entry) != {"ranks", "parameters"}:
            raise StrategyFileError("an entry is not one of ranks and parameters; write it again")
        ranks, names = entry["ranks"], entry["parameters"]
        if not _are_ranks(ranks) or rank not in ranks or type(rank) is not int:
            raise StrategyFileError(f"{str(ranks)[:80]} are no ranks, ascending and with rank {rank!r}; write it again")
        if not isinstance(names, list):
            raise StrategyFileError("the parameters of a group are no list; write it again")
        for name in names:
            if not isinstance(name, str) or name in found:
                raise StrategyFileError(f"the name {name!r} of a parameter is no text, or occurs twice; write it again")
            found[name] = list(ranks)
    return found


def _are_ranks(values: Any) -> bool:
    if not isinstance(values, list) or not all(type(value) is int and 0 <= value <= _MOST_RANKS for value in values):
        return False
    return values == sorted(set(values))
