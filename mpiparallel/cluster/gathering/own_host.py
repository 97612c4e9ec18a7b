"""Whether a name or an address is that of this host."""

from __future__ import annotations

import socket


def host_problem(name: str) -> str | None:
    """Return why ``name`` is not this host, or None if it is: its own name, or an address that one can listen at here.

    >>> host_problem("127.0.0.1") is None
    True
    """
    own = socket.gethostname()
    if name in (own, own.partition(".")[0]):
        return None
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return f"which cannot be resolved on {own} ({error.strerror or error})"
    if any(_is_own(family, address) for family, _, _, _, address in found):
        return None
    return f"which is not this host ({own})"


def _is_own(family: int, address: object) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(address)  # type: ignore[arg-type]  # as getaddrinfo gives it
        except OSError:
            return False
    return True
