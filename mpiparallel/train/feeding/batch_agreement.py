"""What the ranks of a training must have alike in their data, or they would wait for one another for ever."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication import world
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError, DatasetError
from mpiparallel.parallel.configuration import ParallelMode
from mpiparallel.train.callback.callback import Callback

_BYTES = 512


def check_batches(steps: int, first_batch: Sequence[TensorSpec], batches_a_step: int = 1) -> None:
    """Raise DatasetError, on all ranks alike, unless the ranks of a training can go together through their batches.

    Each needs a step, and all as many, in an epoch; no batch may be empty. In semi-auto mode, where the ranks feed one
    program, the first batches have to be of the same shapes too. Where ranks have batches of their own, these may be of
    any shapes.
    """
    mode = current_configuration().mode
    own = mode in ParallelMode.OWN_BATCH
    rows = min((spec.shape[0] for spec in first_batch if spec.shape), default=1)
    shapes = " and ".join(f"{spec.dtype} {spec.shape}" for spec in first_batch)
    said = _from_every_rank(f"{steps}|{int(rows == 0)}|{shapes}", mode)
    counts, empty, columns = zip(*(words.split("|", 2) for words in said), strict=True)
    if "0" in counts:
        enough = "no batch" if batches_a_step == 1 else f"fewer than the {batches_a_step} batches of a step"
        raise DatasetError(
            f"Model.train: the dataset has {enough}; use a smaller batch_size, or fewer ranks: {_list('steps', counts)}"
        )
    if "1" in empty:
        raise DatasetError(f"Model.train: a batch has no row: {_list('', columns)}; give every batch at least one")
    if len(set(counts)) > 1:
        raise DatasetError(
            f"Model.train: all ranks take equally many steps an epoch, but {_list('steps', counts)}; give all as many "
            "samples: num_shards and shard_id do"
        )
    if not own and len(set(columns)) > 1:
        raise DatasetError(
            f"Model.train: in {mode} mode all ranks have batches of the same shapes, but {_list('', columns)}; feed "
            "all the same dataset, or equal pieces of each batch with full_batch=False"
        )


def check_callbacks(callbacks: Sequence[Callback]) -> None:
    """Raise ConfigurationError, on all ranks alike, unless all have the same ones of those that act together."""
    words = ", ".join(type(callback).__qualname__ for callback in callbacks if callback.on_all_ranks)
    said = _from_every_rank(words, current_configuration().mode)
    others = [rank for rank, theirs in enumerate(said) if theirs != said[0]]
    if others:
        raise ConfigurationError(
            f"Model.train: rank 0 has callbacks {said[0] or 'none'}, rank {others[0]} {said[others[0]] or 'none'}, of "
            "those in which all ranks take part; give all ranks the same, in the same order"
        )


def _list(unit: str, values: Sequence[str]) -> str:
    return ", ".join(f"rank {rank} has {value} {unit}".rstrip() for rank, value in enumerate(values))


def _from_every_rank(words: str, mode: str) -> list[str]:
    """Return what each rank says."""
    communicator = world.current() if world.initialised() and mode != ParallelMode.STAND_ALONE else None
    if communicator is None or communicator.size == 1:
        return [words]
    own = np.zeros(_BYTES, np.uint8)
    content = words.encode()[:_BYTES]
    own[: len(content)] = np.frombuffer(content, np.uint8)
    everyone = np.zeros((communicator.size, _BYTES), np.uint8)
    communicator.all_gather(own, everyone)
    return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in everyone]
