"""How further processes of the running program are started, and how they know that they join ranks that are there."""

from __future__ import annotations

import sys
from pathlib import Path

# Options of the interpreter do not show in sys.argv, so the program reads the same arguments.
_OPTION = "mpiparallel_joins"
# As it was when the program began: relative names in its arguments mean this folder.
FOLDER = Path.cwd()


def joined() -> bool:
    """Tell whether ranks that were there before have started this process, so that it must receive its state from them.

    Returns
    -------
    bool
        False for a process that a launcher has started.

    Examples
    --------
    >>> joined()
    False
    """
    return _OPTION in sys._xoptions


def arguments_of_this_program() -> list[str]:
    """Return what the interpreter must be given to run this program with its arguments, as one that joins.

    It finds what the interpreter itself was given: a script, ``-m`` and a module, or ``-c`` and code.
    """
    given = sys.orig_argv[1:]
    return given if joined() else ["-X", _OPTION, *given]
