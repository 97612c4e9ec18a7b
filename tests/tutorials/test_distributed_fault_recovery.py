"""Fault recovery: slices saved by 8 ranks, one of them lost, and training that goes on with that of its replica."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import interpreters, library
from tests.tutorials.reader import Reader, losses
from tests.tutorials.translation import NETWORK, script, write_sentences

pytestmark = pytest.mark.mpi
listings = partial(pytest.mark.tutorial, "distributed_fault_recovery")

MODEL = """
from mpiparallel.nn import Adam
D.init()
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL)
net = Net()
model = ms.Model(net, optimizer=Adam(net.trainable_params(), 0.01))
callback = [LossMonitor()]
"""
SAVED = "test-4_8.h5"
# The listing that recovers loads weights, not the states of the optimizer.
GO_ON = """
train()
print("what comes next", flush=True)
again = ms.Model(net, optimizer=Adam(net.trainable_params(), 0.01))
again.train(2, dataset, callbacks=callback, dataset_sink_mode=True)
"""


@pytest.fixture(scope="module", params=interpreters(), ids=library)
def python(request: pytest.FixtureRequest) -> Path:
    """The interpreter of each MPI library."""
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def sentences(folder: Path) -> Path:
    return write_sentences(folder / "output" / "wmt14.fr_en.txt")


@listings("group_info_file", "train_and_save", "run_save")
def test_each_rank_saves_its_slices_and_who_else_has_them(reader: Reader, sentences: Path) -> None:
    reader.types("parallel_save_ckpt_train.py", NETWORK, MODEL, reader.listing("train_and_save"), GO_ON)
    reader.types("run_parallel_save_ckpt.sh", script("parallel_save_ckpt_train.py", 8, "ckpt_dir", ""))
    start = reader.listing("run_save").replace("DATASET_PATH", str(sentences))
    reader.commands(reader.listing("group_info_file") + start, 8)
    folder = reader.folder / "ckpt_dir0"
    assert {"group_info.pb", "train.log0"} <= {path.name for path in folder.iterdir()}
    assert (folder / SAVED).exists()
    told = losses((folder / "train.log0").read_text())
    assert told[-1] < told[0]


@listings("restore_group_info_list")
def test_the_replicas_of_rank_0_are_told(reader: Reader) -> None:
    reader.types("replicas.py", reader.listing("restore_group_info_list"))
    assert "[0, 4]" in reader.runs(0, "replicas.py")


@listings("recover_train", "run_recover")
def test_training_goes_on_where_it_stopped_after_a_shard_was_lost(reader: Reader, sentences: Path) -> None:
    lost, replica = (reader.folder / f"ckpt_dir{rank}" / SAVED for rank in (0, 4))
    lost.unlink()
    shutil.copy(replica, lost)
    reader.types("parallel_recover_train.py", NETWORK, MODEL, reader.listing("recover_train"), "recover_train()")
    options = "--ckpt_file=../ckpt_dir$i/test-4_8.ckpt"
    reader.types("run_parallel_recover_ckpt.sh", script("parallel_recover_train.py", 8, "recover", options))
    reader.commands(reader.listing("run_recover").replace("DATASET_PATH", str(sentences)), 8)
    before = (reader.folder / "ckpt_dir0" / "train.log0").read_text().partition("what comes next")
    after = losses((reader.folder / "recover0" / "train.log0").read_text())
    assert after == losses(before[2])
    assert after[-1] < losses(before[0])[0]
