"""The traceback of a script's error, without the frames of what runs the script."""

from __future__ import annotations

import runpy
import traceback
from pathlib import Path
from types import TracebackType

from mpiparallel.errors import MpiParallelError

_PACKAGE = str(Path(__file__).parents[2])
_RUNNERS = (str(Path(__file__).parents[1] / name) for name in ("rank/worker.py", "job/script.py"))
_LAUNCHING_FILES = frozenset({*_RUNNERS, runpy.__file__, "<frozen runpy>"})


def report(error: BaseException, debug: bool) -> str:
    """Return the traceback of ``error``; of what mpiparallel refuses only the user's own lines, unless ``debug``."""
    told = traceback.TracebackException(type(error), error, _script_frames(error.__traceback__))
    if isinstance(error, MpiParallelError) and not debug:
        own = [frame for frame in told.stack if not frame.filename.startswith(_PACKAGE)]
        told.stack = traceback.StackSummary.from_list(own)
        told.__cause__ = told.__context__ = None
    return "".join(told.format())


def _script_frames(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename in _LAUNCHING_FILES:
        frames = frames.tb_next
    return frames
