"""A file in memory whose holes take no room."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

PAGE = 4096


class SparseImage(io.RawIOBase):
    """What a library writes to a file, page by page.

    >>> image = SparseImage()
    >>> image.seek(10**15), image.write(b"end")
    (1000000000000000, 3)
    """

    def __init__(self) -> None:
        super().__init__()
        self._pages: dict[int, bytearray] = {}
        self._position = 0
        self._length = 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}[whence]
        return self._position

    def truncate(self, size: int | None = None) -> int:
        self._length = self._position if size is None else size
        for page in [page for page in self._pages if page * PAGE >= self._length]:
            del self._pages[page]
        last, used = divmod(self._length, PAGE)
        if last in self._pages:
            self._pages[last][used:] = bytes(PAGE - used)
        return self._length

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        end = max(self._position, min(self._position + view.nbytes, self._length))
        for page, start, stop in self._pieces(end):
            here = page * PAGE + start - self._position
            view[here : here + stop - start] = self._pages.get(page, bytes(PAGE))[start:stop]
        count, self._position = end - self._position, end
        return count

    def write(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        end = self._position + view.nbytes
        for page, start, stop in self._pieces(end):
            here = page * PAGE + start - self._position
            self._pages.setdefault(page, bytearray(PAGE))[start:stop] = view[here : here + stop - start]
        if view.nbytes:
            self._position, self._length = end, max(self._length, end)
        return view.nbytes

    def content(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` to ``stop``."""
        first = start // PAGE
        pages = [self._pages.get(page, bytes(PAGE)) for page in range(first, -(-stop // PAGE))]
        return b"".join(pages)[start - first * PAGE : stop - first * PAGE]

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """Give where each page that was written is, and its content; what lies between them are holes."""
        for page, content in sorted(self._pages.items()):
            yield page * PAGE, bytes(content[: self._length - page * PAGE])

    def _pieces(self, end: int) -> list[tuple[int, int, int]]:
        """Return page, start and stop within it, of what lies between the position and ``end``."""
        pages = range(self._position // PAGE, -(-end // PAGE))
        return [(page, max(0, self._position - page * PAGE), min(PAGE, end - page * PAGE)) for page in pages]
