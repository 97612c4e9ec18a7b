"""A connection between hosts notices within seconds that the other is gone; one inside a host has no such timers."""

from __future__ import annotations

import socket

import pytest

from mpiparallel.launch.control.keepalive import keep_alive


@pytest.mark.parametrize(
    ("option", "value"),
    [("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 8000), ("TCP_NODELAY", 1)],
)
def test_a_connection_ends_8_seconds_after_the_network_is_cut_and_sends_small_messages_at_once(
    option: str, value: int
) -> None:
    with socket.socket() as connection:
        keep_alive(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, option)) == value


def test_a_connection_inside_a_host_is_left_as_it_is() -> None:
    own, other = socket.socketpair()
    with own, other:
        keep_alive(own)
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
