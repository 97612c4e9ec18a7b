"""Where a process comes from, by which two jobs with one rank table are told apart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError


@dataclass(frozen=True)
class Origin:
    """The host of a process, the session it belongs to (setsid(2)), its folder, and its number.

    >>> Origin("vm", 7, "/a/device1", 1).is_related(Origin("vm", 8, "/a/device2", 2))
    True
    >>> Origin("vm", 7, "/a/device1", 1).is_related(Origin("vm", 8, "/b/device1", 2))
    False
    """

    host: str
    session: int
    folder: str
    process: int

    @classmethod
    def own(cls) -> Origin:
        """Return that of this process."""
        return cls(os.uname().nodename, os.getsid(0), str(Path.cwd()), os.getpid())

    @classmethod
    def of(cls, fields: Any) -> Origin:
        """Return the origin that ``fields`` describe; raise LaunchError where they describe none."""
        try:
            return cls(str(fields["host"]), int(fields["session"]), str(fields["folder"]), int(fields["process"]))
        except (KeyError, TypeError, ValueError) as error:
            raise LaunchError("what calls does not say where it was started; use one version of mpiparallel") from error

    def is_related(self, other: Origin) -> bool:
        """Tell whether both may be of one job: of another host, or of one session, or in one folder or beside it."""
        if self.host != other.host or self.session == other.session:
            return True
        own, its = Path(self.folder), Path(other.folder)
        return own == its or own.parent == its.parent or own in its.parents or its in own.parents
