"""Where the user's program stands, for what is said of it."""

from __future__ import annotations

import sys
from pathlib import Path

from mpiparallel.errors import TraceError

_PACKAGE = str(Path(__file__).parent.parent)


def user_line() -> str:
    """Return ``file:line`` of the innermost caller outside the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refuse_data_dependence(use: str) -> TraceError:
    """Return the error for a traced network that looks at the values of a tensor."""
    return TraceError(
        f"{user_line()}: construct {use} of a tensor while the network is traced, but a graph holds no data yet; "
        "choose with ops.select or a mask, use shapes (known while tracing), or set_context(mode=PYNATIVE_MODE)"
    )
