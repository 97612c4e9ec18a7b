"""Hostfiles: the hosts of a job and how many ranks each may run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mpiparallel.cluster.text_file import read_text
from mpiparallel.errors import RankTableError

_LINE = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)"
    r"(?::(?P<colon>[0-9]{1,6})|\s+slots\s*=\s*(?P<slots>[0-9]{1,6}))?"
    r"(?:\s+max[_-]slots\s*=\s*[0-9]+)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Host:
    """One host and the number of ranks it may run."""

    name: str
    slots: int

    @property
    def is_local(self) -> bool:
        """Tell whether the name is that of the machine itself: ``localhost`` or a loopback address."""
        return self.name.startswith(("localhost", "127."))


@dataclass(frozen=True, slots=True)
class Hostfile:
    """The hosts of a job in rank order: the first ranks run on the first host.

    Reads what Open MPI and MPICH each call a hostfile: ``name slots=n`` and ``name:n``. A name alone is one slot, a
    repeated name adds to its slots, ``#`` starts a comment.

    Examples
    --------
    >>> hostfile = Hostfile.parse("node1 slots=2\\nnode2:4\\nnode1  # once more", "hosts")
    >>> [(host.name, host.slots) for host in hostfile.hosts]
    [('node1', 3), ('node2', 4)]
    >>> print(hostfile.to_mpich(), end="")
    node1:3
    node2:4
    """

    hosts: tuple[Host, ...]

    @classmethod
    def load(cls, path: str | Path) -> Hostfile:
        """Read the file ``path``; raise `RankTableError` with all its faults if it is malformed."""
        return cls.parse(read_text(path, "hostfile"), str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> Hostfile:
        """Read a hostfile's ``text``; ``source`` names it in the message of a `RankTableError`."""
        slots: dict[str, int] = {}
        faults = []
        for number, line in enumerate(text.splitlines(), start=1):
            content = line.partition("#")[0].strip()
            match = _LINE.fullmatch(content)
            count = int(match["colon"] or match["slots"] or 1) if match else 0
            if match and count:
                slots[match["name"]] = slots.get(match["name"], 0) + count
            elif content:
                faults.append(f'{source}:{number}: "{content[:60]}" is no host; write "name slots=n" or "name:n"')
        if not slots and not faults:
            faults.append(f'{source}: lists no host; write one a line, "name slots=n" or "name:n"')
        if faults:
            raise RankTableError("\n".join(faults))
        return cls(tuple(Host(name, count) for name, count in slots.items()))

    @property
    def slots(self) -> int:
        """The number of ranks that all hosts together may run."""
        return sum(host.slots for host in self.hosts)

    def to_openmpi(self) -> str:
        """Return the text of the hostfile for Open MPI."""
        return "".join(f"{host.name} slots={host.slots}\n" for host in self.hosts)

    def to_mpich(self) -> str:
        """Return the text of the hostfile for MPICH."""
        return "".join(f"{host.name}:{host.slots}\n" for host in self.hosts)
