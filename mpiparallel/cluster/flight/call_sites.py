"""Where a thread is: the user's own line, not that of the library it has called."""

from __future__ import annotations

import sys
import sysconfig
import threading
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parents[2])
_LIBRARIES = tuple({*sysconfig.get_paths().values()} - {sysconfig.get_path("data"), sysconfig.get_path("scripts")})


def place_of_main_thread() -> str:
    """Return file and line of the user's innermost frame in the main thread, or of the innermost if there is none."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return "" if frame is None else place_of(frame)


def place_of(frame: FrameType) -> str:
    """Return file and line of the innermost frame of the user's own, from ``frame`` outward."""
    own: FrameType | None = frame
    while own is not None and _is_library(own.f_code.co_filename):
        own = own.f_back
    shown = frame if own is None else own
    return f"{_short(shown.f_code.co_filename)}:{shown.f_lineno}"


def _is_library(filename: str) -> bool:
    return filename.startswith((_PACKAGE, "<frozen", *_LIBRARIES))


def _short(filename: str) -> str:
    path = Path(filename)
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return path.name
