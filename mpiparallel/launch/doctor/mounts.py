"""What is mounted where, as Linux's ``/proc/self/mountinfo`` tells it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath, PurePosixPath

from mpiparallel.dataclass import dataclass

_ESCAPE = re.compile(r"\\([0-7]{3})")
_NETWORK = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "panfs", "pvfs2", "smb3")
)
# Those under fuse.* that stay on this machine.
_LOCAL_FUSE = frozenset(("fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.portal", "fuse.squashfuse", "fuse.gocryptfs"))


@dataclass(frozen=True)
class Mount:
    """One mount: where it is (``point``), what part of the file system it shows (``source``), its kind and options."""

    point: str
    source: str
    kind: str
    options: frozenset[str]

    @property
    def is_network(self) -> bool:
        """Tell whether files there come over a network, as far as the kind tells."""
        return self.kind in _NETWORK or (self.kind.startswith("fuse.") and self.kind not in _LOCAL_FUSE)


def mounts(mountinfo: str) -> Iterator[Mount]:
    """Yield what the text of ``mountinfo`` tells, in its order; lines that are none of it are left out.

    >>> text = "36 35 98:0 / /data rw,noatime shared:1 - nfs4 server:/export rw,soft"
    >>> [(mount.point, mount.kind, mount.is_network, "soft" in mount.options) for mount in mounts(text)]
    [('/data', 'nfs4', True, True)]
    """
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, described = before.split(), after.split()
        if dash and len(fields) >= 6 and described:
            options = frozenset(",".join([fields[5], *described[2:3]]).split(","))
            yield Mount(_plain(fields[4]), _plain(fields[3]), described[0], options)


def mount_of(path: PurePath, found: Iterable[Mount]) -> Mount | None:
    """Return the mount that ``path``, absolute and without links, lies in: the last of those with the longest point."""
    best: Mount | None = None
    for mount in found:
        point = PurePosixPath(mount.point)
        if path.is_relative_to(point) and (best is None or len(point.parts) >= len(PurePosixPath(best.point).parts)):
            best = mount
    return best


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
