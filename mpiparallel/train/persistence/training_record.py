"""What a checkpoint says of the training beside its tensors, and what must be alike to go on with it exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mpiparallel.context.seeds import get_seed
from mpiparallel.dataclass import dataclass
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import CheckpointError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.nn.wrap.train_one_step import TrainOneStepCell

_FACTS: Final = {
    "seed": "the seed of the context",
    "data_seeds": "the seeds of the dataset",
    "batch_num": "the steps of an epoch",
    "rows": "the rows of a step of all ranks",
    "accumulation_steps": "the batches of a step",
    "optimizer": "the optimizer",
    "learning_rate": "the learning rate",
}
_COUNTS: Final = ("step", "epoch", "step_in_epoch", "ranks")
_LONGEST_SHOWN: Final = 200
_NO_RECORD: Final = "it does not say where a training stood; ModelCheckpoint saves one that does"


@dataclass(frozen=True)
class TrainingRecord:
    """Where a training stood: ``step`` of all, ``epoch`` and ``step_in_epoch`` from 1 on, on how many ranks.

    ``own`` are the tensors that are each rank's own, and lie in the checkpoint rank after rank; ``appended`` those that
    are none of the training's. ``facts`` is what its next steps depend on besides.
    """

    step: int
    epoch: int
    step_in_epoch: int
    ranks: int
    own: frozenset[str]
    appended: frozenset[str]
    facts: Mapping[str, Any]

    @classmethod
    def of_json(cls, training: Mapping[str, Any]) -> TrainingRecord:
        """Return what a manifest says. Raises CheckpointError where it says nothing of a training, or nonsense."""
        step, epoch, step_in_epoch, ranks = (_count(training, name) for name in _COUNTS)
        names = [training.get(name, []) for name in ("own", "appended")]
        facts = training.get("facts")
        if not isinstance(facts, dict):
            raise CheckpointError(_NO_RECORD)
        if any(not isinstance(listed, list) or any(not isinstance(name, str) for name in listed) for listed in names):
            raise CheckpointError("its lists of tensors are none")
        own, appended = (frozenset(listed) for listed in names)
        return cls(step, epoch, step_in_epoch, ranks, own, appended, facts)

    def as_json(self) -> dict[str, Any]:
        """Return it as the manifest keeps it."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "step_in_epoch": self.step_in_epoch,
            "ranks": self.ranks,
            "own": sorted(self.own),
            "appended": sorted(self.appended),
            "facts": dict(self.facts),
        }

    def differences(self, facts: Mapping[str, Any]) -> list[str]:
        """Return in words what is other here than it was there.

        >>> record = TrainingRecord(4, 1, 4, 2, frozenset(), frozenset(), {"seed": 1, "rows": 8})
        >>> record.differences({"seed": 2, "rows": 8})
        ['the seed of the context: 2 here, 1 there']
        """
        return [
            f"{words}: {_shown(facts.get(name))} here, {_shown(self.facts[name])} there"
            for name, words in _FACTS.items()
            if name in self.facts and facts.get(name) != self.facts[name]
        ]


def facts_of(training: TrainOneStepCell, dataset: Dataset, pieces: int) -> dict[str, Any]:
    """Return what the next steps of a training depend on beside its tensors, as JSON values.

    ``pieces`` is how many ranks feed a part of each batch of their own.
    """
    optimizer, steps = training.optimizer, training.batches_a_step
    return {
        "seed": get_seed(),
        "data_seeds": list(dataset.seeds),
        "batch_num": dataset.get_dataset_size() // steps,
        "rows": dataset.get_batch_size() * steps * pieces,
        "accumulation_steps": steps,
        "optimizer": type(optimizer).__name__,
        "learning_rate": _described(optimizer.learning_rate),
    }


def _count(training: Mapping[str, Any], name: str) -> int:
    count = training.get(name)
    if type(count) is not int or count < 0:
        raise CheckpointError(_NO_RECORD)
    return count


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _described(rate: Any) -> str:
    """Return what kind of learning rate it is; numbers and tables are tensors of the state, and may be changed."""
    if isinstance(rate, Parameter):
        return "a number" if rate.ndim == 0 else f"a table of {rate.size} steps"
    settings = (
        f"{name}={value!r}"
        for name, value in sorted(getattr(rate, "__dict__", {}).items())
        if isinstance(value, (bool, int, float, str)) and not name.startswith("_") and name != "training"
    )
    return f"{type(rate).__name__}({', '.join(settings)})"
