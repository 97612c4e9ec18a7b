"""Where a launcher says that it can be called."""

from __future__ import annotations

import errno
import fcntl
import socket
from pathlib import Path

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control import address
from mpiparallel.launch.control.address import ControlAddress

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


ADDRESSES = [
    (("10.0.0.1",), 4711, "c0ffee"),
    (("@/tmp/a,b:c", "10.0.0.1", "fd00::1"), 0, "t"),
    (("node1",), 65535, "t"),
    (("@/tmp/\udcff",), 1, "t"),
]


@pytest.mark.parametrize(("hosts", "port", "token"), ADDRESSES)
def test_an_address_is_read_as_it_was_written(hosts: tuple[str, ...], port: int, token: str) -> None:
    written = str(ControlAddress(hosts, port, token))
    assert ControlAddress.parse(written) == ControlAddress(hosts, port, token)
    assert written.isascii()


@pytest.mark.parametrize("port", ["65536", "99999", "100000", "6553500", "-1", "1.0", "\u0661", "", " 1"])
def test_a_port_is_a_number_below_65536(port: str) -> None:
    with pytest.raises(LaunchError, match="MPIPARALLEL_LINE is no address:port:token; start the job with mpiparallel"):
        ControlAddress.parse(f"10.0.0.1:{port}:token")


@pytest.mark.parametrize(
    ("hosts", "is_local"), [(("@/tmp/a",), True), (("@/tmp/a", "10.0.0.1"), False), (("10.0.0.1",), False)]
)
def test_an_address_of_private_sockets_alone_is_local(hosts: tuple[str, ...], is_local: bool) -> None:
    assert ControlAddress(hosts, 1, "t").is_local == is_local


def test_both_ends_of_a_connection_say_the_same_place() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with address.connect("127.0.0.1", port, 10.0) as caller, listener.accept()[0] as heard:
            places = [address.place_of(caller, caller.getpeername()), address.place_of(heard, heard.getsockname())]
    assert places == [f"127.0.0.1 {port}"] * 2
    own, other = socket.socketpair()
    with own, other:
        assert address.place_of(own, own.getpeername()) == "@"
