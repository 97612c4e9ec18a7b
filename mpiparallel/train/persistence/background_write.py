"""What a thread writes while a training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context


class BackgroundWrite:
    """Runs ``work`` in a thread of its own, which the interpreter waits for before it ends.

    >>> written = []
    >>> writing = BackgroundWrite(lambda: written.append(1), "doctest")
    >>> writing.wait()
    >>> written, writing.is_running
    ([1], False)
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._error: BaseException | None = None
        # The settings of a program are context variables.
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=name)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether ``work`` has not ended yet."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait until ``work`` has ended, and raise once what it raised."""
        self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # whoever waits is told
            self._error = error
        finally:
            del self._work
