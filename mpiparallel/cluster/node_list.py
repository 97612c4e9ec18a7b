"""SLURM's short form of many host names, ``node[01-03,7]``, and of the tasks on each, ``2(x3),1``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from mpiparallel.cluster.host_name import host_problem
from mpiparallel.cluster.json_document import shown
from mpiparallel.errors import RankTableError

MOST_HOSTS = 100_000
_ELEMENT = re.compile(r"(?:[^,\[\]]+|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_TASKS = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?", re.ASCII)
_MOST_NAME_CHARACTERS = 253
_MOST_ADDRESSES = 256

# The ranges of one bracket, each with the number of digits of its numbers; or the text between brackets.
Ranges = Sequence[tuple[range, int]]
Element = Sequence[Ranges | str]


def expand_nodes(text: str) -> list[str]:
    """Return the host names that the node list ``text`` stands for, in its order.

    Raises RankTableError where it is no node list, a name in it is no host name, or it has more than 100,000 hosts. All
    is checked before any name is made, so that a short text cannot take long.

    >>> expand_nodes("node[01-03,7],login")
    ['node01', 'node02', 'node03', 'node7', 'login']
    >>> expand_nodes("rack[1-2]n[1-2]")
    ['rack1n1', 'rack1n2', 'rack2n1', 'rack2n2']
    """
    elements: list[Element] = []
    room = MOST_HOSTS
    for element in _elements(text):
        pieces = _pieces(text, element)
        room -= _count(pieces)
        if room < 0:
            raise _no_list(text, f"it has more than {MOST_HOSTS} hosts")
        _check_names(text, pieces)
        elements.append(pieces)
    return [name for element in elements for name in _names(element)]


def expand_tasks(text: str, nodes: int) -> tuple[int, ...]:
    """Return how many tasks each of ``nodes`` hosts has by ``text``, as SLURM_TASKS_PER_NODE has it.

    One number alone counts for every host. Raises RankTableError where it is no such list or is of other hosts.

    >>> expand_tasks("2(x3),1", 4), expand_tasks("8", 2)
    ((2, 2, 2, 1), (8, 8))
    """
    counts = task_counts(text)
    if len(counts) == 1 and "(" not in text:
        return counts * nodes
    if len(counts) != nodes:
        raise RankTableError(
            f"tasks per node {shown(text)} is of {len(counts)} hosts, the node list of {nodes}; give one count a host"
        )
    return counts


def task_counts(text: str) -> tuple[int, ...]:
    """Return the numbers that ``text`` stands for. Raises RankTableError where it is no such list.

    >>> task_counts("2(x3),1")
    (2, 2, 2, 1)
    """
    counts: list[int] = []
    for part in text.split(",", MOST_HOSTS):
        match = _TASKS.fullmatch(part.strip())
        count, times = (int(match[1]), int(match[2] or 1)) if match else (0, 0)
        if count * times == 0:
            raise RankTableError(f'tasks per node {shown(text)}: {shown(part)} is no count; write it as in "2(x3),1"')
        if len(counts) + times > MOST_HOSTS:
            raise RankTableError(
                f"tasks per node {shown(text)} is of more than {MOST_HOSTS} hosts; give one count a host"
            )
        counts += [count] * times
    return tuple(counts)


def _elements(text: str) -> Iterator[str]:
    position = 0
    while True:
        element = _ELEMENT.match(text, position)
        if element is None:
            raise _no_list(text, "a name is empty, or a bracket has no other")
        yield element.group().strip()
        position = element.end()
        if position == len(text):
            return
        if text[position] != ",":
            raise _no_list(text, "a bracket has no other")
        position += 1


def _pieces(text: str, element: str) -> Element:
    pieces: list[Ranges | str] = []
    length = 0
    for match in _PIECE.finditer(element):
        piece: Ranges | str = match[2] if match[1] is None else _ranges(text, match[1])
        length += len(piece) if isinstance(piece, str) else max(len(str(numbers[-1])) for numbers, _ in piece)
        if length > _MOST_NAME_CHARACTERS:
            raise _no_list(text, f"a name in it has more than {_MOST_NAME_CHARACTERS} characters")
        pieces.append(piece)
    return pieces


def _ranges(text: str, inside: str) -> Ranges:
    found = []
    for part in inside.split(",", MOST_HOSTS):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise _no_list(text, f"{shown(part)} is neither a number nor a range")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise _no_list(text, f"the range {shown(part)} goes backwards")
        found.append((range(first, last + 1), len(match[1])))
    return found


def _check_names(text: str, pieces: Element) -> None:
    """Raise unless all names are host names: if one with a letter is, those of other numbers are."""
    first = "".join(piece if isinstance(piece, str) else f"{piece[0][0][0]:0{piece[0][1]}}" for piece in pieces)
    problem = host_problem(first)
    if problem is not None:
        raise _no_list(text, f"{shown(first)} {problem}")
    if first.strip("0123456789."):
        return
    if _count(pieces) > _MOST_ADDRESSES:
        raise _no_list(text, f"it has more than {_MOST_ADDRESSES} addresses in one element")
    for name in _names(pieces):
        problem = host_problem(name)
        if problem is not None:
            raise _no_list(text, f"{shown(name)} {problem}")


def _count(pieces: Element) -> int:
    return prod(1 if isinstance(piece, str) else sum(len(numbers) for numbers, _ in piece) for piece in pieces)


def _names(pieces: Element) -> Iterator[str]:
    alternatives = [
        (piece,) if isinstance(piece, str) else [f"{number:0{width}}" for numbers, width in piece for number in numbers]
        for piece in pieces
    ]
    return map("".join, product(*alternatives))


def _no_list(text: str, reason: str) -> RankTableError:
    return RankTableError(f'node list {shown(text)}: {reason}; write it as in "node[01-03,7],login"')
