"""Whether CUDA texts compile for real GPUs, and leave what a thread computes with in registers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from mpiparallel.backend.nvrtc import OPTIONS, Nvrtc
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.expression.cuda.prelude import PRELUDE
from tests.conformance.cuda_emulator.emulator import KEPT

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
    """Compile texts for an architecture, all at once, and check what their threads spill."""
    log = _said_of(PRELUDE + "".join(text.removeprefix(PRELUDE) for text in texts), architecture)
    spilled = [int(number) for number in re.findall(r"(\d+) bytes spill stores", log)]
    assert len(spilled) >= len(texts) > 0
    assert max(spilled) <= MOST_SPILLED


def _said_of(text: str, architecture: str) -> str:
    """Return what the compiler says of a text; it is kept, as it takes up to half a minute to say the same again."""
    compiler = nvidia_compiler()
    made_of = compiler.version, OPTIONS, architecture, text
    kept = KEPT / f"nvrtc-{sha256(repr(made_of).encode()).hexdigest()[:16]}.log"
    if not kept.exists():
        log = compiler.compile(text, architecture).log
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            written = Path(folder) / "log"
            written.write_text(log)
            written.replace(kept)
    return kept.read_text()
