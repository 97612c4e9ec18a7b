"""What the README says holds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import mpiparallel as ms
from mpiparallel import context
from mpiparallel.communication.threads import run_world

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_network_of_the_readme_runs_on_four_ranks_as_on_one() -> None:
    code = next(code for code in re.findall(r"```python\n(.*?)```", README, re.S) if "class Net(" in code)
    x = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)

    def on_rank(_communicator):
        names = {}
        exec(code, names)
        network = names["network"]
        result = network(ms.Tensor(x)).asnumpy()
        context.reset_auto_parallel_context()
        return result, network.w1.asnumpy().shape

    (alone, whole), *_ = run_world(1, on_rank)
    assert whole == (2, 32)
    for result, slice_shape in run_world(4, on_rank):
        np.testing.assert_allclose(result, alone, rtol=1e-4, atol=1e-6)
        assert slice_shape == (2, 16)


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
