"""What is run of each sample that the tutorials offer for download, in which order, and what is to be seen."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

AUTO = r"ConfigurationError: .*auto_parallel"
_OTHER_PACKAGE = "mindformers"
PIPELINE = r"Error: .*[Pp]ipeline"
RESNET, TRANSFORMER, RESILIENCE = (
    "distributed_training",
    "distributed_training_transformer",
    "distributed_resilience_training",
)


class Run(NamedTuple):
    """A command in the folder of a sample; {images} and {sentences} are data.

    ``logs`` are the files that it writes, in which either the loss falls or ``refusal`` is said; ``files`` are there
    afterwards. ``changed`` are words of the program that are replaced before, and ``fault`` is the sample's own, with
    which it cannot do more.
    """

    sample: str
    command: str
    logs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    refusal: str = ""
    changed: tuple[tuple[str, str, str], ...] = ()
    fault: str = ""

    @property
    def program(self) -> str:
        """The file that the command starts."""
        return next(word for word in self.command.split() if word.endswith((".sh", ".py")))

    @property
    def steps(self) -> int:
        """The steps of an epoch that the names of files in the sample suppose."""
        return 77 if self.sample == TRANSFORMER else 73

    @property
    def shows(self) -> str:
        """What is to be seen, in words."""
        modes = [f"{old} changed to {new}: " for _, old, new in self.changed]
        seen = f"refused: {self.refusal}" if self.refusal else "the loss falls" if self.logs else "files are there"
        return "".join(modes) + (f"its own fault, {self.fault}" if self.fault else seen)

    def as_in(self, sample: Path) -> Run:
        """Return what is to be seen of the version in ``sample``: one that imports another package can do nothing."""
        if any(_OTHER_PACKAGE in path.read_text(encoding="utf-8") for path in sample.glob("*.py")):
            fault = f"it imports {_OTHER_PACKAGE}, another package"
            return self._replace(refusal=f"No module named '{_OTHER_PACKAGE}'", files=(), fault=fault)
        return self


def _logs(folder: str, count: int) -> tuple[str, ...]:
    return tuple(f"{folder}{rank}/train.log{rank}" for rank in range(count))


_DATA_PARALLEL = (("resnet50_distributed_training.py", "AUTO_PARALLEL", "DATA_PARALLEL"),)
RUNS = (
    Run(RESNET, "bash run.sh {images} 2", _logs("device", 2), refusal=AUTO),
    Run(RESNET, "bash run.sh {images} 2", _logs("device", 2), changed=_DATA_PARALLEL),
    Run(RESNET, "bash run_grad_accu.sh {images} 2", _logs("device", 2), refusal=AUTO),
    Run(RESNET, "bash run_pipeline.sh {images} Ascend", _logs("device", 8), refusal=PIPELINE),
    Run(TRANSFORMER, "bash run.sh {sentences} 2", _logs("device", 2)),
    Run(TRANSFORMER, "bash run_parallel_save_ckpt.sh {sentences}", _logs("ckpt_dir", 8), ("ckpt_dir0/group_info.pb",)),
    Run(
        TRANSFORMER,
        "bash run_parallel_recover_ckpt.sh {sentences}",
        _logs("recover", 8),
        refusal=r"ckpt_dir\d/test-4_77",
        fault="it looks for ./ckpt_dir in the folder recover",
    ),
    Run(
        TRANSFORMER,
        "bash run_parallel_recover_ckpt.sh {sentences}",
        _logs("recover", 8),
        changed=(("run_parallel_recover_ckpt.sh", "=./ckpt_dir", "=../ckpt_dir"),),
    ),
    Run(RESILIENCE, "bash run_train_8p.sh {sentences}", _logs("device", 8), ("src_strategy.ckpt",)),
    Run(RESILIENCE, "bash run_compile_4p.sh {sentences}", files=("dst_strategy.ckpt",)),
    Run(
        RESILIENCE,
        "python transform_checkpoint_dir.py --src_strategy_file=./src_strategy.ckpt "
        "--dst_strategy_file=./dst_strategy.ckpt --src_checkpoints_dir=./src_checkpoints "
        "--dst_checkpoints_dir=./dst_checkpoints",
        files=tuple(f"dst_checkpoints/rank_{rank}" for rank in range(4)),
    ),
    Run(RESILIENCE, "bash run_train_4p.sh {sentences}", _logs("recover", 4)),
    Run(RESILIENCE, "bash run_train_8p_pipeline.sh {sentences}", _logs("device", 8), refusal=PIPELINE),
)
