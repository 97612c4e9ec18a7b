"""Where the launcher listens, and the token by which it knows its own ranks."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.private_socket import connect_privately

VARIABLE = "MPIPARALLEL_LINE"

LOCAL = "@"
"""What the folder of a private socket of this machine begins with."""

_MAPPED = "::ffff:"
"""How a socket of both kinds writes an IPv4 address."""
_LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915
_IPV6_ADDRESSES = Path("/proc/net/if_inet6")
_GLOBAL_SCOPE = "00"


@dataclass(frozen=True)
class ControlAddress:
    """The launcher's hosts (addresses, any of which may be reachable), its port, and the job's secret token.

    A host that begins with ``@`` is the folder of a private socket of its machine; it has no port.

    >>> ControlAddress.parse(str(ControlAddress(("@/tmp/a,b", "10.0.0.1", "fd00::1"), 4711, "c0ffee")))
    ControlAddress(hosts=('@/tmp/a,b', '10.0.0.1', 'fd00::1'), port=4711, token='c0ffee')
    """

    hosts: tuple[str, ...]
    port: int
    token: str

    @property
    def is_local(self) -> bool:
        """Whether only ranks of the launcher's own machine can reach it."""
        return all(host.startswith(LOCAL) for host in self.hosts)

    @property
    def nearest_first(self) -> tuple[str, ...]:
        """The hosts in the order to call them: addresses that this host has too are last, as others may listen there.

        A bridge of virtual machines has the same address on many hosts, and loopback on all.
        """
        return tuple(sorted(self.hosts, key=lambda host: not host.startswith(LOCAL) and _is_of_this_host(host)))

    def __str__(self) -> str:
        """Return it as the value of the environment variable that ranks read."""
        return f"{','.join(map(_written, self.hosts))}:{self.port}:{self.token}"

    @classmethod
    def parse(cls, text: str) -> ControlAddress:
        """Return the address that ``text`` gives; raise LaunchError if it gives none."""
        head, _, token = text.rpartition(":")
        hosts, _, port = head.rpartition(":")
        if not (hosts and token and port.isascii() and port.isdigit() and int(port[:6]) < 65536):
            raise LaunchError(f"{VARIABLE} is no address:port:token; start the job with mpiparallel run")
        return cls(tuple(map(_read, hosts.split(","))), int(port), token)


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Return a connection to ``port`` of ``host``; raise OSError where there is none within ``seconds``."""
    if host.startswith(LOCAL):
        return connect_privately(host.removeprefix(LOCAL), seconds)
    return socket.create_connection((host, port), seconds)


def place_of(connection: socket.socket, address: Any) -> str:
    """Return in words where the launcher's end of ``connection`` is, whose ``address`` it is; both ends say the same.

    >>> with socket.socket() as connection:
    ...     place_of(connection, ("::ffff:10.0.0.1", 4711, 0, 0))
    '10.0.0.1 4711'
    """
    if connection.family == socket.AF_UNIX:
        return LOCAL
    return f"{address[0].removeprefix(_MAPPED)} {address[1]}"


def _written(host: str) -> str:
    # A path may hold what stands between hosts.
    return LOCAL + os.fsencode(host.removeprefix(LOCAL)).hex() if host.startswith(LOCAL) else host


def _read(word: str) -> str:
    if not word.startswith(LOCAL):
        return word
    try:
        return LOCAL + os.fsdecode(bytes.fromhex(word.removeprefix(LOCAL)))
    except ValueError as error:
        raise LaunchError(f"{VARIABLE} is no address:port:token; start the job with mpiparallel run") from error


def _is_of_this_host(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def own_addresses() -> tuple[str, ...]:
    """Return the addresses of this host that others may reach, IPv4 first, and loopback last.

    Link-local IPv6 addresses are left out: they mean nothing without the name of an interface of the other host.
    """
    return (*dict.fromkeys([*_ipv4_addresses(), *_ipv6_addresses()]), _LOOPBACK)


def _ipv4_addresses() -> list[str]:
    found = []
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                # The interface has no IPv4 address.
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in found if not address.startswith("127.")]


def _ipv6_addresses() -> list[str]:
    try:
        lines = _IPV6_ADDRESSES.read_text().splitlines()
    except OSError:
        return []
    fields = [line.split() for line in lines]
    return [
        socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0]))
        for words in fields
        if len(words) == 6 and words[3] == _GLOBAL_SCOPE
    ]
