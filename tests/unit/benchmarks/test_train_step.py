"""The benchmark of a training step, on one rank and sizes that take no time."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import train_step
from mpiparallel.context.settings import current_configuration
from mpiparallel.parallel.local_graph import local_graph

SIZES = [
    "--d_model",
    "16",
    "--num_heads",
    "2",
    "--batch_size",
    "2",
    "--src_len",
    "3",
    "--tgt_len",
    "4",
    "--vocab_size",
    "12",
    "--repetitions",
    "1",
]


@pytest.fixture(scope="module")
def report():
    flags = train_step.make_parser().parse_args(SIZES)
    model, batch = train_step.make_model(flags), train_step.make_batch(flags)
    costs = train_step.graph_costs(local_graph(model.shard(batch), current_configuration().rank))
    return train_step.summarise(flags, train_step.measure(model, batch, flags.repetitions), costs)


def test_the_shares_of_a_step_add_up_to_all_of_it(report):
    assert sum(report["shares"].values()) == pytest.approx(1.0)
    assert sum(report["milliseconds"].values()) == pytest.approx(report["profiled_step_ms"])
    assert all(share >= 0 for share in report["shares"].values())


def test_gemm_operations_are_those_of_the_network(report):
    width, batch, source, target, vocabulary = 16, 2, 3, 4, 12
    rows, memory = batch * target, batch * source
    layers = 6 * memory + (4 + 2 + 2) * rows + 2 * memory
    forward = width * width * layers + rows * width * vocabulary
    scores = 2 * batch * width * (source * source + target * target + target * source)
    assert report["gemm_operations"] == 3 * 2 * (forward + scores)


def test_one_rank_communicates_nothing(report):
    assert (report["collectives"], report["collective_bytes"]) == (0, 0)


def test_the_table_names_every_kind_and_the_top_operators(report):
    text = train_step.table(report)
    for name in ("GEMM", "other kernels", "communication", "Python", "MatMul"):
        assert name in text
    assert np.isfinite(report["ceiling_gflops"])
