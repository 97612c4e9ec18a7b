"""The stream of a device that is the host: its work is done when the call that gives it returns."""

from __future__ import annotations


class HostStream:
    """A stream, and any point in it: nobody ever has to wait.

    >>> with HostStream() as stream:
    ...     stream.wait_event(HostStream().record())
    >>> stream.synchronize()
    """

    done = True

    def __enter__(self) -> HostStream:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: no other stream was left."""

    def record(self) -> HostStream:
        """Return the point that has been come to, which is always the last."""
        return self

    def wait_event(self, event: object) -> None:
        """Do nothing: what others were given is done."""

    def synchronize(self) -> None:
        """Do nothing: what was given is done."""
