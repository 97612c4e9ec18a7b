"""Whether CUDA texts compile for real GPUs, and leave what a thread computes with in registers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mpiparallel.backend.nvrtc import Nvrtc
from mpiparallel.graph.expression.cuda.prelude import PRELUDE
from tests.reliability.counts import share

ARCHITECTURES = ("sm_80", "sm_90")
MOST_SPILLED = 32
"""Bytes of registers that a thread may keep in memory."""


def compile_for(architecture: str, texts: Sequence[str], nvrtc: Nvrtc) -> None:
    """Compile texts for an architecture, and check what their threads spill.

    Each is compiled for one architecture in its turn, in make soak for all: that takes as long as thousands of tests.
    """
    chosen = texts if share() else texts[ARCHITECTURES.index(architecture) :: len(ARCHITECTURES)]
    found = nvrtc.compile(PRELUDE + "".join(text.removeprefix(PRELUDE) for text in chosen), architecture)
    spilled = [int(number) for number in re.findall(r"(\d+) bytes spill stores", found.log)]
    assert len(spilled) >= len(chosen) > 0
    assert max(spilled) <= MOST_SPILLED
