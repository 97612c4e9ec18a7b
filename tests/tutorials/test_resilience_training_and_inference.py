"""Resilience: trained on 8 ranks, converted in both ways, trained on by 4, and used for inference by 4."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mpiparallel as ms
from tests.tutorials.reader import Reader, losses
from tests.tutorials.translation import NETWORK, script, write_sentences

pytestmark = pytest.mark.mpi
listings = partial(pytest.mark.tutorial, "resilience_training_and_inference")

# The listing that goes on loads weights, not the states of the optimizer.
GO_ON = """
print("what comes next", flush=True)
again = ms.Model(net, optimizer=Momentum(learning_rate=0.01, momentum=0.9, params=net.get_parameters()))
again.train(2, dataset, callbacks=[LossMonitor()], dataset_sink_mode=True)
"""
# The network without loss, of source and target ids in one array.
PREDICTION = """
from mpiparallel import ops

class Prediction(TranslationNetwork):
    def construct(self, ids):
        source = ops.cast(ids, ms.int32)
        positions = ops.zeros_like(source)
        ones = ops.cast(ops.ones_like(ids), ms.float32)
        mask = ops.tile(ops.expand_dims(ones, 1), (1, 6, 1))
        encoded = self.source_embedding(source, positions)
        decoded = self.target_embedding(source, positions)
        return self.head(self.transformer(encoded, mask, decoded, self.attention_mask(ones), mask)[0])

def Net():
    cut = TransformerOpParallelConfig(data_parallel=D.get_group_size() // args_opt.mp, model_parallel=args_opt.mp)
    return Prediction(SIZES, cut)

data_shape = (8, 6)
predict_data = Tensor((np.arange(48).reshape(8, 6) % 40 + 3).astype(np.float32))
ckpt_file = args_opt.ckpt_file.format(D.get_rank()) if args_opt.ckpt_file else ""
"""
ARGUMENTS = """
import argparse
parser = argparse.ArgumentParser()
for name in ("src_strategy_dir", "src_strategy_file", "dst_strategy_file"):
    parser.add_argument("--" + name)
for name in ("src_checkpoints_dir", "dst_checkpoints_dir"):
    parser.add_argument("--" + name)
parser.add_argument("--transform_rank", type=int)
given = parser.parse_args()
src_strategy_file, dst_strategy_file = given.src_strategy_file, given.dst_strategy_file
src_checkpoints_dir, dst_checkpoints_dir = given.src_checkpoints_dir, given.dst_checkpoints_dir
"""
BY_RANK = """
for i in 0 1 2 3; do
    python transform_checkpoint_by_rank.py --transform_rank=$i --src_strategy_file=$1 --dst_strategy_file=$2 \\
        --src_checkpoints_dir=$3 --dst_checkpoints_dir=$4 || exit
done
"""
CONVERTED = "--ckpt_file=../dst_checkpoints/rank_$i/transformed$i.ckpt"


def log(reader: Reader, folder: str) -> str:
    return (reader.folder / folder / f"train.log{folder[-1]}").read_text()


def values(folder: Path, rank: int) -> dict[str, np.ndarray]:
    """What the converted checkpoint of ``rank`` holds."""
    (path,) = (folder / f"rank_{rank}").glob("*.*")
    return {name: parameter.asnumpy() for name, parameter in ms.load_checkpoint(str(path)).items()}


@pytest.fixture(scope="module", autouse=True)
def sentences(folder: Path) -> Path:
    """The translations, where the commands of the text look for them: beside the folder in which they are given."""
    return write_sentences(folder / "output" / "wmt14.en_fr.txt")


@pytest.fixture
def work(reader: Reader) -> Path:
    """The folder in which commands are given."""
    place = reader.folder / "sample"
    place.mkdir(exist_ok=True)
    reader.folder = place
    return place


@listings("train_8p", "run_train_8p")
def test_eight_ranks_save_slices_and_their_strategy(reader: Reader, work: Path) -> None:
    reader.types("train_8p.py", NETWORK, reader.listing("train_8p"), GO_ON)
    reader.types("run_train_8p.sh", script("train_8p.py", 8, "device", "--enable_parallel_optimizer=1"))
    reader.commands(reader.listing("run_train_8p").replace("../output", str(work.parent / "output")), 8)
    told = losses(log(reader, "device0"))
    assert told[-1] < told[0]
    assert (work / "src_strategy.ckpt").exists()
    assert [len(list((work / "src_checkpoints").glob(f"**/rank_{rank}/*-2_8.*"))) for rank in range(8)] == [1] * 8


@listings("compile_4p", "run_compile_4p")
def test_the_target_strategy_comes_of_compiling_for_four_ranks(reader: Reader, work: Path) -> None:
    reader.types("compile_4p.py", NETWORK, reader.listing("compile_4p"))
    reader.types("run_compile_4p.sh", script("compile_4p.py", 4, "compile", ""))
    reader.commands(reader.listing("run_compile_4p").replace("../output", str(work.parent / "output")), 4)
    assert {"src_strategy.ckpt", "dst_strategy.ckpt"} <= {path.name for path in work.iterdir()}


@listings("compile_for_inference")
def test_compiling_for_inference_gives_the_same_strategy_of_weights(reader: Reader, work: Path) -> None:
    of_training = ms.build_searched_strategy(str(work / "dst_strategy.ckpt"))
    (work / "dst_strategy.ckpt").rename(work / "of_training.ckpt")
    reader.types("compile_for_inference.py", "D.init()", NETWORK, PREDICTION, reader.listing("compile_for_inference"))
    (work / "compile_for_inference.py").write_text(
        "import mpiparallel.communication as D\n" + (work / "compile_for_inference.py").read_text()
    )
    reader.types("run_inference.sh", script("compile_for_inference.py", 4, "infer", ""))
    reader.commands(f"bash run_inference.sh {work.parent}/output/wmt14.en_fr.txt", 4)
    found = ms.build_searched_strategy(str(work / "dst_strategy.ckpt"))
    (work / "of_training.ckpt").rename(work / "dst_strategy.ckpt")
    assert set(found) == {name for name in of_training if not name.startswith(("moments.", "accu_grads."))}
    assert all(str(found[name]) == str(of_training[name]) for name in found)


@listings("transform_dir", "run_transform_dir")
def test_a_folder_of_checkpoints_is_converted(reader: Reader, work: Path) -> None:
    reader.types("transform_checkpoint_dir.py", ARGUMENTS, reader.listing("transform_dir"))
    reader.commands(reader.listing("run_transform_dir"), 0)
    assert sorted(path.name for path in (work / "dst_checkpoints").iterdir()) == [f"rank_{rank}" for rank in range(4)]


@listings("transform_by_rank", "run_transform_by_rank")
def test_checkpoints_converted_one_by_one_are_the_same(reader: Reader, work: Path) -> None:
    own = "transform_rank = given.transform_rank\n"
    reader.types("transform_checkpoint_by_rank.py", ARGUMENTS, own, reader.listing("transform_by_rank"))
    reader.types("transform_by_rank.sh", BY_RANK)
    together = (work / "dst_checkpoints").rename(work / "converted_together")
    reader.commands(reader.listing("run_transform_by_rank"), 0)
    for rank in range(4):
        one, other = values(work / "dst_checkpoints", rank), values(together, rank)
        assert set(one) == set(other)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    (work / "dst_checkpoints").rename(work / "converted_one_by_one")
    together.rename(work / "dst_checkpoints")


@listings("train_4p", "run_train_4p")
def test_four_ranks_train_on_where_eight_stopped(reader: Reader, work: Path) -> None:
    own = "ckpt_file, callback = args_opt.ckpt_file, [LossMonitor()]"
    reader.types("train_4p.py", NETWORK, own, reader.listing("train_4p"))
    reader.types("run_train_4p.sh", script("train_4p.py", 4, "recover", CONVERTED))
    reader.commands(reader.listing("run_train_4p").replace("../output", str(work.parent / "output")), 4)
    stayed = losses(log(reader, "device0").partition("what comes next")[2])
    assert losses(log(reader, "recover0")) == pytest.approx(stayed, rel=1e-5)


@listings("infer")
def test_four_ranks_predict_what_one_does(reader: Reader, work: Path) -> None:
    begin = "import mpiparallel.communication as D\nD.init()"
    said = reader.listing("infer").replace("model.predict", "found = model.predict")
    save = "np.save(f'../predicted_{D.get_group_size()}_{D.get_rank()}.npy', found.asnumpy())\n"
    reader.types("infer.py", begin, NETWORK, PREDICTION, said, save)
    reader.types("run_infer.sh", script("infer.py", 4, "infer", CONVERTED))
    reader.commands(f"bash run_infer.sh {work.parent}/output/wmt14.en_fr.txt", 4)
    ms.transform_checkpoints(
        str(work / "src_checkpoints"), str(work / "whole"), "whole", str(work / "src_strategy.ckpt"), None
    )
    reader.types("run_infer_1.sh", script("infer.py", 1, "whole", "--mp=1 --ckpt_file=../whole/rank_0/whole0.ckpt"))
    reader.commands(f"bash run_infer_1.sh {work.parent}/output/wmt14.en_fr.txt", 1)
    whole = np.load(work / "predicted_1_0.npy")
    for rank in range(4):
        np.testing.assert_allclose(np.load(work / f"predicted_4_{rank}.npy"), whole, rtol=1e-4, atol=1e-5)


@pytest.fixture
def stages(reader: Reader) -> Path:
    """The folder in which the commands for pipelines are given."""
    place = reader.folder / "stages"
    place.mkdir(exist_ok=True)
    reader.folder = place
    return place


@listings("train_pipeline", "run_train_pipeline")
def test_eight_ranks_in_two_stages_save_the_slices_and_the_strategies_of_each(reader: Reader, stages: Path) -> None:
    reader.types("train_8p_pipeline.py", NETWORK, reader.listing("train_pipeline"), GO_ON)
    reader.types("run_train_8p_pipeline.sh", script("train_8p_pipeline.py", 8, "pipeline", "--pipeline_stage=2"))
    reader.commands(reader.listing("run_train_pipeline").replace("../output", str(stages.parent / "output")), 8)
    told = losses(log(reader, "pipeline0"))
    assert told[-1] < told[0]
    assert told == losses(log(reader, "pipeline7"))
    assert len(list((stages / "src_pipeline_strategys").glob("src_strategy?.ckpt"))) == 8
    assert [len(list((stages / "src_checkpoints").glob(f"**/rank_{rank}/*-2_8.*"))) for rank in range(8)] == [1] * 8


@listings("compile_4p", "run_compile_after_pipeline", "merge_pipeline", "run_merge_pipeline")
def test_the_strategies_of_two_stages_are_merged_and_their_slices_converted(reader: Reader, stages: Path) -> None:
    reader.types("compile_4p.py", NETWORK, reader.listing("compile_4p"))
    reader.types("run_compile_4p.sh", script("compile_4p.py", 4, "compile", ""))
    compiled = reader.listing("run_compile_after_pipeline").replace("../output", str(stages.parent / "output"))
    reader.commands(compiled, 4)
    own = "src_pipeline_strategys_dir, src_strategy_file = given.src_strategy_dir, './merged.ckpt'\n"
    reader.types("transform_checkpoint_dir_pipeline.py", ARGUMENTS, own, reader.listing("merge_pipeline"))
    reader.commands(reader.listing("run_merge_pipeline"), 0)
    assert sorted(path.name for path in (stages / "dst_checkpoints").iterdir()) == [f"rank_{rank}" for rank in range(4)]


@listings("train_4p", "run_train_after_pipeline")
def test_four_ranks_without_stages_train_on_where_two_stages_stopped(reader: Reader, stages: Path) -> None:
    own = "ckpt_file, callback = args_opt.ckpt_file, [LossMonitor()]"
    reader.types("train_4p.py", NETWORK, own, reader.listing("train_4p"))
    reader.types("run_train_4p.sh", script("train_4p.py", 4, "recover", CONVERTED))
    reader.commands(reader.listing("run_train_after_pipeline").replace("../output", str(stages.parent / "output")), 4)
    stayed = losses(log(reader, "pipeline0").partition("what comes next")[2])
    assert losses(log(reader, "recover0")) == pytest.approx(stayed, rel=1e-5)
