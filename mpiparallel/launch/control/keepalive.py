"""Noticing that the other host is gone, by the kernel alone: a stopped process and a busy one still answer."""

from __future__ import annotations

import socket

_IDLE_SECONDS = 2
_INTERVAL_SECONDS = 1
_PROBES = 4
_UNANSWERED_MILLISECONDS = 8000
_OPTIONS = {
    "TCP_KEEPIDLE": _IDLE_SECONDS,
    "TCP_KEEPINTVL": _INTERVAL_SECONDS,
    "TCP_KEEPCNT": _PROBES,
    "TCP_USER_TIMEOUT": _UNANSWERED_MILLISECONDS,
    "TCP_NODELAY": 1,
}


def keep_alive(connection: socket.socket) -> None:
    """Let ``connection`` end about 8 s after the network to the other side is cut; within a machine none is."""
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS.items():
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
