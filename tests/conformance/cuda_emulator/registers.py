"""Whether CUDA texts compile for real GPUs, and leave what a thread computes with in registers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from mpiparallel.backend.nvrtc import OPTIONS, Nvrtc
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.expression.cuda.prelude import PRELUDE
from tests.conformance.cuda_emulator.kept_file import kept_file
from tests.reliability.counts import share

ARCHITECTURES = ("sm_80", "sm_90")
MOST_SPILLED = 32
"""Bytes of registers that a thread may keep in memory."""


def nvidia_compiler() -> Nvrtc:
    """Return NVIDIA's compiler; skip the test where it is not installed."""
    try:
        return Nvrtc()
    except ConfigurationError as error:
        pytest.skip(str(error))


def compile_for(architecture: str, texts: Sequence[str]) -> None:
    """Compile texts for an architecture, all at once, and check what their threads spill.

    Each architecture takes its share of them, one after the other; in ``make soak`` each takes all.
    """
    texts = texts if share() else texts[ARCHITECTURES.index(architecture) :: len(ARCHITECTURES)]
    log = _said_of(PRELUDE + "".join(text.removeprefix(PRELUDE) for text in texts), architecture)
    spilled = [int(number) for number in re.findall(r"(\d+) bytes spill stores", log)]
    assert len(spilled) >= len(texts) > 0
    assert max(spilled) <= MOST_SPILLED


def _said_of(text: str, architecture: str) -> str:
    compiler = nvidia_compiler()
    made_of = compiler.version, OPTIONS, architecture, text
    return kept_file(
        "nvrtc", made_of, lambda path: path.write_text(compiler.compile(text, architecture).log)
    ).read_text()
