"""The home folder that mpirun asks for: Open MPI starts nothing without one, as in containers and services."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping


def home_setting(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the ``HOME`` that ``variables`` lack: the user's, or the root folder where nobody knows the user.

    >>> home_setting({"HOME": "/home/me"})
    {}
    """
    if "HOME" in variables:
        return {}
    try:
        return {"HOME": pwd.getpwuid(os.getuid()).pw_dir}
    except KeyError:
        return {"HOME": "/"}
