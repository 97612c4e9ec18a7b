"""Whether an MPI library was seen to take arrays in a GPU's memory: tried by a child job, once, and kept in a file.

A library that does not take them ends the process, so no job finds out by itself. ``mpiparallel doctor`` starts two
ranks that send such arrays both ways, add them up and compare. What they found is kept for jobs with this library on
this machine.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path

from mpiparallel.backend.cache_folder import cache_folder, keep

_TRIED = "sends_and_reduces"


def verdict_file(library: str) -> Path:
    """Return where it is kept for an MPI ``library``, named as its communicators name it, on this machine."""
    told = f"{library}\x1f{platform.node()}"
    return cache_folder() / f"cuda_aware_{hashlib.blake2b(told.encode(), digest_size=8).hexdigest()}.json"


def proven_cuda_aware(library: str) -> bool:
    """Return whether a child job has moved and reduced arrays of GPUs by this library, and found all of them right."""
    try:
        return bool(json.loads(verdict_file(library).read_text())[_TRIED])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def keep_verdict(library: str, whole: bool) -> bool:
    """Keep what a child job has found; return whether that could be written."""
    return keep(verdict_file(library), json.dumps({"library": library, _TRIED: whole}).encode())
