"""Where the launcher listens, and the token by which it knows its own ranks."""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mpiparallel.errors import LaunchError

VARIABLE = "MPIPARALLEL_LINE"

LOCAL = "@"
"""What the name of a socket of this machine begins with."""

_LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915
_IPV6_ADDRESSES = Path("/proc/net/if_inet6")
_GLOBAL_SCOPE = "00"


@dataclass(frozen=True, slots=True)
class LineAddress:
    """The launcher's hosts (addresses, any of which may be reachable), its port, and the job's secret token.

    A host that begins with ``@`` is the name of a socket of its machine, in Linux's abstract namespace; it has no port.

    >>> LineAddress.parse(str(LineAddress(("10.0.0.1", "fd00::1"), 4711, "c0ffee")))
    LineAddress(hosts=('10.0.0.1', 'fd00::1'), port=4711, token='c0ffee')
    """

    hosts: tuple[str, ...]
    port: int
    token: str

    @property
    def is_local(self) -> bool:
        """Whether only ranks of the launcher's own machine can reach it."""
        return all(host.startswith(LOCAL) for host in self.hosts)

    def __str__(self) -> str:
        """Return it as the value of the environment variable that ranks read."""
        return f"{','.join(self.hosts)}:{self.port}:{self.token}"

    @classmethod
    def parse(cls, text: str) -> LineAddress:
        """Return the address that ``text`` gives; raise LaunchError if it gives none."""
        head, _, token = text.rpartition(":")
        hosts, _, port = head.rpartition(":")
        if not (hosts and token and port.isascii() and port.isdigit() and int(port[:6]) < 65536):
            raise LaunchError(f"{VARIABLE} is no address:port:token; start the job with mpiparallel run")
        return cls(tuple(hosts.split(",")), int(port), token)


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Return a connection to ``port`` of ``host``; raise OSError where there is none within ``seconds``."""
    if not host.startswith(LOCAL):
        return socket.create_connection((host, port), seconds)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(seconds)
        connection.connect(f"\0{host[1:]}")
    except OSError:
        connection.close()
        raise
    return connection


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
