"""Where a launcher says that it can be called."""

from __future__ import annotations

import errno
import fcntl
import socket
from pathlib import Path

import pytest

from mpiparallel.launch.control import address

IPV6 = """fd000000000000000000000000000001 02 40 00 80 eth0
fe800000000000000000000000000001 02 40 20 80 eth0
00000000000000000000000000000001 01 80 10 80 lo
fd000000000000000000000000000001 03 40 00 80 eth1
fd000000000000000000000000000002 00
"""


@pytest.mark.parametrize(("kernel_tells", "last"), [(True, ["fd00::1", "127.0.0.1"]), (False, ["127.0.0.1"])])
def test_addresses_are_told_ipv4_first_each_once_and_loopback_last(
    kernel_tells: bool, last: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {b"lo": "127.0.0.1", b"eth0": "10.0.0.5", b"eth1": "10.0.0.5", b"a_name_of_15_let": "10.0.0.7"}

    def ask(probe: object, number: int, request: bytes) -> bytes:
        assert number == 0x8915
        try:
            return bytes(20) + socket.inet_aton(own[request.rstrip(b"\0")]) + bytes(232)
        except KeyError as error:
            raise OSError(errno.EADDRNOTAVAIL, "none") from error

    names = ("lo", "down", "eth0", "eth1", "a_name_of_15_letters")
    monkeypatch.setattr(socket, "if_nameindex", lambda: list(enumerate(names)))
    monkeypatch.setattr(fcntl, "ioctl", ask)
    monkeypatch.setattr(address, "_IPV6_ADDRESSES", tmp_path / "if_inet6")
    if kernel_tells:
        (tmp_path / "if_inet6").write_text(IPV6)
    assert list(address.own_addresses()) == ["10.0.0.5", *last]
