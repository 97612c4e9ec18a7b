"""The image example learns real digits: the claim itself, which takes minutes and so is run by make test-slow."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.conformance import patience

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
SECONDS = 1800


@pytest.mark.parametrize("mode", ["data_parallel", "semi_auto_parallel"])
@pytest.mark.parametrize("network", ["resnet18", "resnet50"])
def test_more_than_95_of_100_unseen_digits_are_read(network, mode, tmp_path) -> None:
    pytest.importorskip("sklearn.datasets", reason="scikit-learn, which has the digits, is not installed")
    words = ["digits", "2", "--digits", "--epochs", "8", "--network", network, "--parallel_mode", mode]
    ended = patience.run(
        ["sh", str(ROOT / "launchers" / "run.sh"), *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        seconds=SECONDS,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    accuracies = re.findall(r"test accuracy is (\S+)", ended.stdout)
    assert len(accuracies) == 8
    assert float(accuracies[-1]) > 0.95, accuracies
