"""What killed daemons of Open MPI leave of a job: a later daemon with the same process number cannot start."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from mpiparallel.cluster.flight.process_state import state_of

# The folders of mpirun and of the daemons that it starts on other hosts.
_SESSION = re.compile(r"(?:ompi|prted?)\.(\d+)")


def remove_left_sessions(folder: Path | None = None, host: str | None = None) -> list[Path]:
    """Delete the session folders of this user in ``folder`` whose daemon on ``host`` has ended; return which.

    They are in the folder for temporary files, and the host is this one, unless they are given. A daemon that has ended
    well has deleted its own. One that was killed leaves a file that names its number. While it is there, PMIx refuses
    to start another with that number: "The PMIx server's listener thread failed to start" (openpmix issue 4022). A
    folder that names another host is left alone, as it may be shared with it.
    """
    name = os.uname().nodename if host is None else host
    with suppress(OSError):
        sessions = Path(tempfile.gettempdir()) if folder is None else folder
        with os.scandir(sessions) as entries:
            found = sorted((entry.path, int(one[1])) for entry in entries if (one := _SESSION.fullmatch(entry.name)))
        daemons = [(Path(path), daemon) for path, daemon in found]
        return [path for path, daemon in daemons if _is_left(path, daemon, name) and _is_deleted(path)]
    return []


def _is_left(path: Path, daemon: int, host: str) -> bool:
    if state_of(daemon) != "dead":
        return False
    with suppress(OSError):
        status = path.lstat()
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        return is_own and (path / f"pmix.{host}.tool.{daemon}").exists()
    return False


def _is_deleted(path: Path) -> bool:
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()
