"""Namespaces in which a changed package can neither write beside its folder nor see another process.

One change of a drawn sample made the package take every folder of the temporary folder for its own, and delete them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

_IS_ENCLOSED = "MPIPARALLEL_MUTANTS_ENCLOSED"
_ENCLOSE = """
set -e
folder=$1; shift
findmnt -rno TARGET | grep -Ev '^/(proc|sys|dev)(/|$)' | while read -r place; do
    mount -o remount,bind,ro "$place" 2>/dev/null || test "$place" != /
done
mount --bind "$folder" "$folder"
mount -o remount,bind,rw "$folder"
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
mkdir /tmp/home
HOME=/tmp/home exec "$@"
"""


def enclose(folder: Path, words: Sequence[str]) -> None:
    """Begin this program anew, called by ``words``, where only ``folder`` can be written, and a /tmp of its own.

    Returns if it runs there already. Ends the program where the system has no such namespaces for this user.
    """
    if os.environ.get(_IS_ENCLOSED):
        return
    unshare = shutil.which("unshare")
    if unshare is None or folder.is_relative_to("/tmp"):
        raise SystemExit(
            "make mutants: a changed package may delete anything; it needs unshare, and a checkout outside of /tmp"
        )
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid():
        options.append("--map-root-user")
    enclosing = [unshare, *options, "sh", "-c", _ENCLOSE, "sh", str(folder)]
    os.execve(unshare, [*enclosing, sys.executable, *words], {**os.environ, _IS_ENCLOSED: "1"})
