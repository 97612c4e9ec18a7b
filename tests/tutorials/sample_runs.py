"""What is run of each sample that the tutorials offer for download, in which order, and what is to be seen."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_OTHER_PACKAGE = "mindformers"
_FEW_STEPS = 8
RESNET, TRANSFORMER, RESILIENCE = (
    "distributed_training",
    "distributed_training_transformer",
    "distributed_resilience_training",
)


class Refusal(NamedTuple):
    """What stops a run: in words, and the expression that its output has then."""

    why: str
    pattern: str


GPU = Refusal("there is no GPU", r"ConfigurationError: .*device_target='GPU' needs")


class Run(NamedTuple):
    """A command in the folder of a sample; {images} and {sentences} are data.

    ``logs`` are the files that it writes, in which either the loss falls or the ``refusal`` is found, which is the
    sample's ``own_fault`` or one of ours; ``files`` are there afterwards. ``changed`` are words of the program that are
    replaced before. An epoch of the sentences has as many ``steps``: those that the names of files suppose, or few.
    Where there is a script ``instead``, a version is run by that.
    """

    sample: str
    command: str
    logs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    refusal: Refusal | None = None
    changed: tuple[tuple[str, str, str], ...] = ()
    own_fault: bool = False
    steps: int = _FEW_STEPS
    instead: str = ""

    @property
    def program(self) -> str:
        """The file that the command starts."""
        return next(word for word in self.command.split() if word.endswith((".sh", ".py")))

    @property
    def shows(self) -> str:
        """What is to be seen, in words."""
        changes = ", ".join(f"`{old}` is `{new}`" if new else f"`{old}` is left out" for _, old, new in self.changed)
        seen = "the loss falls" if self.logs else "files are there"
        if self.refusal:
            seen = f"{'its own fault' if self.own_fault else 'refused'}: {self.refusal.why}"
        return f"where {changes}: {seen}" if changes else seen

    @property
    def can_show(self) -> tuple[str, ...]:
        """What is to be seen of any version, in words."""
        return self.shows, self._of_other_package().shows

    def as_in(self, sample: Path) -> Run:
        """Return what is to be seen of the version in ``sample``: one that imports another package can do nothing."""
        if any(_OTHER_PACKAGE in path.read_text(encoding="utf-8") for path in sample.glob("*.py")):
            return self._of_other_package()
        return self

    def _of_other_package(self) -> Run:
        found = Refusal(f"it imports {_OTHER_PACKAGE}, another package", f"No module named '{_OTHER_PACKAGE}'")
        return self._replace(refusal=found, own_fault=True, files=())


def _logs(folder: str, count: int) -> tuple[str, ...]:
    return tuple(f"{folder}{rank}/train.log{rank}" for rank in range(count))


def _cluster(data: str) -> str:
    """Return the command of each of two servers, which are both this one."""
    return " & ".join(f"bash run_cluster.sh {data} $PWD/rank_table_16pcs.json 16 {first}" for first in (0, 8))


_CLUSTER_LOGS = tuple(f"device_{rank}/train{rank}.log" for rank in range(16))
_WORKERS = tuple(f"device/worker_{rank}.log" for rank in range(8))
_DATA_PARALLEL = ("AUTO_PARALLEL", "DATA_PARALLEL")
_TRAIN, _ACCUMULATE, _SLICE, _STAGED = (
    f"resnet50_distributed_training{kind}.py" for kind in ("", "_grad_accu", "_dataset_slice", "_pipeline")
)
_SMALL = ("= 224", "= 64")
_RESNETS = (
    Run(RESNET, "bash run.sh {images} 2", _logs("device", 2), changed=((_TRAIN, *_SMALL),)),
    Run(RESNET, "bash run.sh {images} 2", _logs("device", 2), changed=((_TRAIN, *_DATA_PARALLEL), (_TRAIN, *_SMALL))),
    Run(
        RESNET,
        "bash run_grad_accu.sh {images} 2",
        _logs("device", 2),
        refusal=Refusal(
            "its cells add up gradients by what MindSpore's planner puts in their place",
            r"ConfigurationError: .*grad_accumulation_step 6 does not change",
        ),
        own_fault=True,
    ),
    Run(
        RESNET,
        "bash run_grad_accu.sh {many_images} 2",
        _logs("device", 2),
        changed=(
            (_ACCUMULATE, "Model_ACCU(wrap_net)", "Model(net, loss, opt)"),
            (_ACCUMULATE, "from model_accu import Model_ACCU", "from mpiparallel import Model"),
            (_ACCUMULATE, *_SMALL),
        ),
    ),
    Run(RESNET, "bash run_gpu.sh {images}", ("device/train.log",), refusal=GPU),
    Run(
        RESNET,
        _cluster("{images}"),
        _CLUSTER_LOGS,
        changed=(
            (_TRAIN, "batch_size=32", "batch_size=4"),
            (_TRAIN, "epoch_size=10", "epoch_size=6"),
            (_TRAIN, *_SMALL),
        ),
    ),
    Run(
        RESNET,
        "bash run_dataset_slice.sh {images} 8",
        _logs("device", 8),
        changed=(
            (_SLICE, "batch_size = 256", "batch_size = 64"),
            (_SLICE, "epoch_size=10", "epoch_size=6"),
            (_SLICE, *_SMALL),
        ),
    ),
    Run(
        RESNET,
        "bash run_pipeline.sh {many_images} Ascend",
        _logs("device", 8),
        changed=((_STAGED, "batch_size=32", "batch_size=16"), (_STAGED, *_SMALL)),
    ),
    Run(RESNET, "bash run_pipeline.sh {images} GPU", ("pipeline_gpu/train.log",), refusal=GPU),
    Run(
        RESNET,
        "DEVICE_ID=0 DATA_PATH={many_images} mpirun -n 2 "
        "pytest -s resnet50_distributed_training_pipeline.py >train.log 2>&1",
        ("train.log",),
        # With full_batch all ranks must read the same: else one stage has the images, another the labels of others.
        changed=(
            (_STAGED, "batch_size=32", "batch_size=16"),
            (_STAGED, *_SMALL),
            (_STAGED, ", num_shards=rank_size, shard_id=rank_id", ""),
        ),
        instead="run_pipeline.sh",
    ),
    Run(
        RESNET,
        "bash run_gpu_cluster.sh {images} $PWD/hostfile.conf",
        refusal=Refusal(
            "`10.*.*.*` is no host, and MPICH has no such options",
            r"parse error in the hostfile|unrecognized argument mca",
        ),
        own_fault=True,
    ),
    Run(RESNET, "bash run_gpu_cluster_recovery.sh {images}", _WORKERS, refusal=GPU),
    Run(
        RESNET,
        "bash run_with_mpi.sh {images}",
        refusal=Refusal("its lines end as on Windows, which bash does not read", r"\$'\\r': command not found"),
        own_fault=True,
    ),
)
_RECOVER = "run_parallel_recover_ckpt.sh"
# What saves comes first: beside checkpoints of another script these would be called test_1.
_TRANSFORMERS = (
    Run(
        TRANSFORMER,
        "bash run_parallel_save_ckpt.sh {sentences}",
        _logs("ckpt_dir", 8),
        ("ckpt_dir0/group_info.pb",),
    ),
    Run(
        TRANSFORMER,
        "bash run_parallel_recover_ckpt.sh {sentences}",
        _logs("recover", 8),
        refusal=Refusal("it looks for ./ckpt_dir in the folder recover", r"ckpt_dir\d/test-4_77"),
        own_fault=True,
    ),
    Run(
        TRANSFORMER,
        "bash run_parallel_recover_ckpt.sh {sentences}",
        _logs("recover", 8),
        changed=((_RECOVER, "=./ckpt_dir", "=../ckpt_dir"), (_RECOVER, "test-4_77", f"test-4_{_FEW_STEPS}")),
    ),
    Run(TRANSFORMER, "bash run.sh {sentences} 2", _logs("device", 2)),
    Run(TRANSFORMER, _cluster("{sentences}"), _CLUSTER_LOGS),
)
_SAVED = 73
_FROM_SAVED = (
    "--src_strategy_file=./src_strategy.ckpt --dst_strategy_file=./dst_strategy.ckpt "
    "--src_checkpoints_dir=./src_checkpoints --dst_checkpoints_dir=./dst_checkpoints"
)
_FROM_STAGES = (
    "--src_strategy_dir=./src_pipeline_strategys --dst_strategy_file=./dst_strategy.ckpt "
    "--src_checkpoints_dir=./src_checkpoints_pipeline --dst_checkpoints_dir=./dst_checkpoints_pipeline"
)
_RESILIENCES = (
    Run(
        RESILIENCE,
        "bash run_train_8p.sh {sentences}",
        _logs("device", 8),
        ("src_strategy.ckpt",),
        steps=_SAVED,
    ),
    Run(RESILIENCE, "bash run_compile_4p.sh {sentences}", files=("dst_strategy.ckpt",), steps=_SAVED),
    Run(
        RESILIENCE,
        f"python transform_checkpoint_dir.py {_FROM_SAVED}",
        files=tuple(f"dst_checkpoints/rank_{rank}" for rank in range(4)),
    ),
    Run(
        RESILIENCE,
        "bash transform_by_rank.sh ./src_strategy.ckpt ./dst_strategy.ckpt ./src_checkpoints ./by_rank",
        files=tuple(f"by_rank/rank_{rank}/transformed{rank}.ckpt" for rank in range(4)),
    ),
    Run(RESILIENCE, "bash run_train_4p.sh {sentences}", _logs("recover", 4), steps=_SAVED),
    Run(
        RESILIENCE,
        "bash run_train_8p_pipeline.sh {sentences}",
        _logs("device", 8),
        tuple(f"src_pipeline_strategys/src_strategy{rank}.ckpt" for rank in range(8)),
    ),
    Run(
        RESILIENCE,
        f"python transform_checkpoint_dir_pipeline.py {_FROM_STAGES}",
        files=tuple(f"dst_checkpoints_pipeline/rank_{rank}" for rank in range(4)),
    ),
    Run(
        RESILIENCE,
        "bash run_train_4p.sh {sentences}",
        _logs("recover", 4),
        changed=(("run_train_4p.sh", "../dst_checkpoints/", "../dst_checkpoints_pipeline/"),),
    ),
)
RUNS = (*_RESNETS, *_TRANSFORMERS, *_RESILIENCES)
