"""The stdout of a command, which remembers what kept it from being written to."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class StandardOutput(io.FileIO):
    """Descriptor 1; ``error`` is what first kept it from being written to, whoever has caught that since."""

    def __init__(self) -> None:
        super().__init__(1, "w", closefd=False)
        self.name = "<stdout>"
        self.error: OSError | None = None

    def write(self, content: ReadableBuffer) -> int:
        """Write ``content`` as the descriptor takes it."""
        try:
            return super().write(content)
        except OSError as error:
            self.error = self.error or error
            raise

    @classmethod
    def taken(cls) -> StandardOutput:
        """Return that of this process, which from now on is below `sys.stdout`, unless a program has put its own there.

        Where stdout or stderr was closed, a descriptor to which nothing can be written takes its place. Else the next
        file that is opened would get its number, and all that is printed.
        """
        for number in (0, 1, 2):
            try:
                os.fstat(number)
            except OSError:
                # The lowest free number, so this one.
                os.open(os.devnull, os.O_RDONLY)
        output = cls()
        if sys.stdout is sys.__stdout__:
            like = sys.stdout or io.TextIOWrapper(io.BytesIO(), errors="backslashreplace")
            sys.stdout = io.TextIOWrapper(
                io.BufferedWriter(output), like.encoding, like.errors, line_buffering=like.line_buffering
            )
        if sys.stderr is None:
            sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115
        return output
