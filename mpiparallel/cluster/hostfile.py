"""Hostfiles: the hosts of a job and how many ranks each may run."""

from __future__ import annotations

from pathlib import Path

from mpiparallel.cluster.file_problems import FileProblems, refuse
from mpiparallel.cluster.host_name import is_ipv6, is_loopback
from mpiparallel.cluster.hostfile_line import Line, read_line
from mpiparallel.cluster.node_list import MOST_HOSTS
from mpiparallel.cluster.rank_table import RankTable
from mpiparallel.cluster.text_file import read_text
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import RankTableError


@dataclass(frozen=True)
class Host:
    """One host, the number of ranks it may run, and the most it may run where the hostfile limits them."""

    name: str
    slots: int
    max_slots: int | None = None

    @property
    def is_local(self) -> bool:
        """Tell whether the name is that of the machine itself: ``localhost`` or a loopback address."""
        return is_loopback(self.name)


@dataclass(frozen=True)
class Hostfile:
    """The hosts of a job in rank order: the first ranks run on the first host.

    Reads every dialect, in any mixture of lines. Open MPI's is ``name slots=n max_slots=n``, MPICH's ``name:n``; a name
    alone has one slot. SLURM's ``node[01-03,7]`` goes with either; IPv6 addresses are in brackets. A repeated name adds
    to its slots, ``#`` starts a comment. A rank table is a hostfile too: each device of a server is a slot.

    Examples
    --------
    >>> hostfile = Hostfile.parse("node1 slots=2\\nnode[2-3]:4\\nnode1  # once more", "hosts")
    >>> [(host.name, host.slots) for host in hostfile.hosts]
    [('node1', 3), ('node2', 4), ('node3', 4)]
    >>> print(hostfile.to_mpich(), end="")
    node1:3
    node2:4
    node3:4
    """

    hosts: tuple[Host, ...]

    @classmethod
    def load(cls, path: str | Path) -> Hostfile:
        """Read the file ``path``; raise `MalformedFileError` with all its problems if it is malformed."""
        return cls.parse(read_text(path, "hostfile"), str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> Hostfile:
        """Read a hostfile's ``text``; ``source`` names it in the message of a `MalformedFileError`."""
        if text.lstrip().startswith("{"):
            return cls.of_table(RankTable.parse(text, source))
        found: dict[str, Host] = {}
        problems = FileProblems()
        named = 0
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                read = read_line(line)
            except RankTableError as error:
                problems.add("", str(error), number)
                read = None
            if read is not None:
                found.update((name, _joined(found.get(name), name, read)) for name in read.names)
                named += len(read.names)
            if named > MOST_HOSTS or problems.is_full:
                told = f"{MOST_HOSTS} hosts" if named > MOST_HOSTS else f"{len(problems)} problems"
                problems.add("", f"there are more than {told} up to here; is this a hostfile?", number)
                break
        if not found and not problems:
            problems.add("", 'lists no host; write one a line, "name slots=n" or "name:n"')
        refuse(source, problems)
        return cls(tuple(found.values()))

    @classmethod
    def of_table(cls, table: RankTable) -> Hostfile:
        """Return the servers of ``table`` as hosts, in the order of the lowest rank of each.

        Loopback addresses and placeholders, which stand for this machine, are ``localhost``.
        """
        servers = sorted(table.servers, key=lambda server: min(device.rank_id for device in server.devices))
        slots: dict[str, int] = {}
        for server in servers:
            name = "localhost" if server.is_local else server.server_id
            slots[name] = slots.get(name, 0) + len(server.devices)
        return cls(tuple(Host(name, count) for name, count in slots.items()))

    @property
    def slots(self) -> int:
        """The number of ranks that all hosts together may run."""
        return sum(host.slots for host in self.hosts)

    def to_openmpi(self) -> str:
        """Return the text of the hostfile for Open MPI, which wants IPv6 addresses without brackets."""
        return "".join(
            f"{host.name} slots={host.slots}{f' max_slots={host.max_slots}' if host.max_slots else ''}\n"
            for host in self.hosts
        )

    def to_mpich(self) -> str:
        """Return the text of the hostfile for MPICH. Raises RankTableError for an IPv6 address: it reads none."""
        for host in self.hosts:
            if is_ipv6(host.name):
                raise RankTableError(
                    f'host "{host.name}": MPICH reads no IPv6 addresses in hostfiles; give the host a name in '
                    "/etc/hosts or DNS and write that, or use Open MPI"
                )
        return "".join(f"{host.name}:{host.slots}\n" for host in self.hosts)


def _joined(known: Host | None, name: str, line: Line) -> Host:
    """Return the ``known`` host of that name with the slots of one more ``line``."""
    if known is None:
        return Host(name, line.slots, line.max_slots)
    slots = known.slots + line.slots
    limits = [limit for limit in (known.max_slots, line.max_slots) if limit is not None]
    return Host(name, slots, max(sum(limits), slots) if limits else None)
