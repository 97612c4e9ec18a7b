"""Items made ahead of their use, in a thread of their own."""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Given = TypeVar("Given", covariant=True)

# A source that blocks for ever is left to its thread, which does not keep the interpreter from ending.
_SECONDS_TO_STOP = 2.0
# A signal that the kernel gives to another thread is handled only when the main thread runs.
_SECONDS_TO_SIGNAL = 0.5


class ClosableIterator(Protocol[Given]):
    """An iterator that can be told that no more items are wanted."""

    def __iter__(self) -> Iterator[Given]: ...

    def __next__(self) -> Given: ...

    def close(self) -> None: ...


class ReadAhead(Generic[Item]):
    """Iterates what ``start()`` returns, of which a thread makes up to ``size`` (1 or more) items ahead.

    The items and their order are the same. An error of the thread is raised in place of its item. The thread starts
    with the first item. It reads ahead from the second item on, because many callers look at one item only. It ends
    when the iterator is closed, used up or dropped: no item is made after that.

    >>> list(ReadAhead(lambda: iter(range(3)), size=2))
    [0, 1, 2]
    """

    def __init__(self, start: Callable[[], Iterator[Item]], size: int) -> None:
        self._shelf = _Shelf(start, size)
        # Also when the interpreter ends: the thread must not run on while modules are torn down.
        self.close = weakref.finalize(self, self._shelf.close)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        return self._shelf.take()


class _Shelf(Generic[Item]):
    """Where the thread puts items, and the user takes them from. It does not know the iterator: that may be dropped."""

    def __init__(self, start: Callable[[], Iterator[Item]], size: int) -> None:
        self._start = start
        self._size = size
        self._items: deque[Item] = deque()
        self._asked = self._made = 0
        self._closed = self._ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        # The settings of a program are context variables.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._fill,), name="dataset read ahead", daemon=True)

    def take(self) -> Item:
        """Return the next item; raise what the thread raised in its place, StopIteration after the last."""
        with self._changed:
            if self._thread.ident is None and not self._closed:
                self._thread.start()
            self._asked += 1
            self._changed.notify_all()
            while not (self._items or self._ended or self._closed):
                self._changed.wait(_SECONDS_TO_SIGNAL)
            if self._items:
                return self._items.popleft()
            error, self._error = self._error, None
        try:
            raise StopIteration if error is None else error
        finally:
            # The error's traceback holds this frame, which must not hold the error.
            del error

    def close(self) -> None:
        """Let the thread end, and wait until it no longer uses the source."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._error = None
            self._changed.notify_all()
        # Garbage may be collected, and this called, in the thread itself.
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_SECONDS_TO_STOP)

    def _fill(self) -> None:
        error: BaseException | None = None
        try:
            self._put_all()
        except BaseException as raised:
            # Whatever it is, the user's thread is told, or it would wait for ever.
            error = raised
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()
        del error

    def _put_all(self) -> None:
        items = self._start()
        while self._is_wanted():
            try:
                item = next(items)
            except StopIteration:
                return
            with self._changed:
                if not self._closed:
                    self._items.append(item)
                    self._made += 1
                    self._changed.notify_all()
            del item

    def _is_wanted(self) -> bool:
        """Wait until one more item may be made; return False when the iterator has been closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._made < self._allowed())
            return not self._closed

    def _allowed(self) -> int:
        return self._asked + (self._size if self._asked > 1 else 0)
