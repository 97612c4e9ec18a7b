"""The benchmark of a training step, on one rank and sizes that take no time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import train_step
from training_step import peer as peer_module
from training_step.costs import graph_costs
from training_step.peer import PeerError, TorchPeer
from training_step.report import summarise, table
from training_step.workloads import WORKLOADS

from mpiparallel.communication.threads import alone
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.context.settings import current_configuration

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


ENCODER = ["--network", "encoder", "--encoder_layers", "2", "--ffn", "24", *SIZES]
RESNET = ["--network", "resnet50", "--batch_size", "2", "--image_size", "32", "--repetitions", "1"]

STAND_IN = """
import json, sys
print(json.dumps({"version": "0", "variants": ["slow", "fast"]}), flush=True)
for line in sys.stdin:
    variant, count = line.split()
    print(json.dumps([{"slow": 2.0, "fast": 1.0}[variant]] * int(count)), flush=True)
"""


def run(arguments, peer=None):
    """Return the report that the benchmark makes on one rank."""
    flags, model, batch, costs = costed(arguments)
    timings = train_step.measure(model, batch, flags, peer)
    return summarise(flags, WORKLOADS[flags.network].heading(flags), timings, costs)


def costed(arguments):
    """Return the flags, the model, its batch, and what a step of it computes, which nothing has run yet."""
    flags = train_step.parse(arguments)
    workload = WORKLOADS[flags.network]
    model, batch = workload.make_model(flags), workload.make_batch(flags, train_step.own_samples(flags))
    costs = graph_costs(local_graph(model.shard(batch).stages[0], current_configuration().rank))
    return flags, model, batch, costs


@pytest.fixture(scope="module")
def report():
    return run(SIZES)


def test_the_shares_of_a_step_add_up_to_all_of_it(report) -> None:
    assert sum(report["shares"].values()) == pytest.approx(1.0)
    assert sum(report["milliseconds"].values()) == pytest.approx(report["profiled_step_ms"])
    assert all(share >= 0 for share in report["shares"].values())


def test_gemm_operations_are_those_of_the_network(report) -> None:
    width, batch, source, target, vocabulary = 16, 2, 3, 4, 12
    rows, memory = batch * target, batch * source
    layers = 6 * memory + (4 + 2 + 2) * rows + 2 * memory
    forward = width * width * layers + rows * width * vocabulary
    scores = 2 * batch * width * (source * source + target * target + target * source)
    assert report["gemm_operations"] == 3 * 2 * (forward + scores)


def test_gemm_operations_of_the_encoder_are_those_of_its_layers() -> None:
    width, hidden, rows, length, vocabulary, layers = 16, 24, 6, 3, 12, 2
    forward = rows * (layers * (4 * width * width + 2 * width * hidden + 2 * length * width) + width * vocabulary)
    assert run(ENCODER)["gemm_operations"] == 3 * 2 * forward


def test_gemm_operations_of_resnet_50_are_three_times_its_published_ones() -> None:
    """4.09 G products for an image of 224 x 224; one of 32 x 32 has 49 times fewer, and images need no gradient."""
    images = 2
    published = 4.089e9 * images / 49
    first = 64 * 16 * 16 * 3 * 49 * images
    assert costed(RESNET)[-1]["gemm_operations"] == pytest.approx(2 * (3 * published - first), rel=0.01)


def test_one_rank_communicates_nothing(report) -> None:
    assert (report["collectives"], report["collective_bytes"]) == (0, 0)


def test_the_table_names_every_kind_and_the_top_operators(report) -> None:
    text = table(report)
    for name in ("GEMM", "other kernels", "communication", "Python", "MatMul"):
        assert name in text
    assert np.isfinite(report["ceiling_gflops"])


@pytest.fixture(name="stand_in")
def make_stand_in(tmp_path, monkeypatch) -> Path:
    """A child process that speaks as the peer does, and needs no PyTorch."""
    monkeypatch.setattr(peer_module, "WORKER", tmp_path / "worker.py")
    peer_module.WORKER.write_text(STAND_IN, encoding="utf-8")
    return peer_module.WORKER


def test_each_variant_of_the_peer_is_reported_beside_our_step(stand_in) -> None:
    peer = TorchPeer(sys.executable, {})
    found = run([*SIZES, "--repetitions", "2", "--block", "3", "--peer", "torch"], peer)
    peer.close()
    assert {name: values["step_ms"] for name, values in found["peers"].items()} == {
        "PyTorch slow": 2000.0,
        "PyTorch fast": 1000.0,
    }
    assert found["peers"]["PyTorch slow"]["ratio"] == pytest.approx(found["step_ms"] / 2000.0)
    assert "PyTorch fast" in table(json.loads(json.dumps(found)))


def test_the_flags_say_what_the_peer_trains(stand_in) -> None:
    stand_in.write_text(STAND_IN.replace('"0"', "sys.argv[1]"), encoding="utf-8")
    peer = train_step.start_peer(
        train_step.parse([*ENCODER, "--peer", "torch", "--peer_python", sys.executable]), alone()
    )
    peer.close()
    told = json.loads(peer.version)
    assert told["sizes"] == {"vocab_size": 12, "width": 16, "heads": 2, "length": 3, "hidden": 24, "layers": 2}
    assert (told["network"], told["batch_size"], told["rank"], told["ranks"]) == ("encoder", 2, 0, 1)


def test_a_peer_that_cannot_be_started_or_ends_is_named(stand_in) -> None:
    with pytest.raises(PeerError, match="give --peer_python"):
        TorchPeer("no-such-python", {})
    stand_in.write_text("raise SystemExit(3)", encoding="utf-8")
    with pytest.raises(PeerError, match=r"exit code 3.*must have torch"):
        TorchPeer(sys.executable, {})
