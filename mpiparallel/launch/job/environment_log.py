"""What a rank writes down of its environment: only its user may read it, and what looks secret is left out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

LEFT_OUT = "(left out)"
_SECRET_NAME = re.compile(r"AUTH|BEARER|COOKIE|CREDENTIAL|KEY|PASS|PRIVATE|SECRET|TOKEN|_PWD", re.IGNORECASE)
# https://user:password@host
_USER_OF_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def write_environment(path: Path, variables: Mapping[str, str]) -> None:
    """Write ``variables`` to the new file ``path``, mode 0600. Raises ``OSError``, also where something is there."""
    text = "".join(f"{line}\n" for line in told(variables))
    # Not umask's to say: a file that is made private afterwards can be opened before.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def told(variables: Mapping[str, str]) -> list[str]:
    """Return a line for each variable: its value is left out where its name is that of a secret.

    >>> told({"RANK_ID": "0", "HF_TOKEN": "hf_x", "PROXY": "http://me:mine@proxy:80"})
    ['HF_TOKEN=(left out)', 'PROXY=http://(left out)@proxy:80', 'RANK_ID=0']
    """
    return [f"{name}={_shown(name, value)}" for name, value in sorted(variables.items())]


def _shown(name: str, value: str) -> str:
    return LEFT_OUT if value and _SECRET_NAME.search(name) else _USER_OF_URL.sub(LEFT_OUT, value)
