"""Names that MindSpore keeps to itself, and that programs which steer its input pipeline and its planner import."""

from __future__ import annotations

from typing import Any, NoReturn

from mpiparallel.compatibility.remark import remark
from mpiparallel.errors import ConfigurationError


def _need_to_full() -> bool:
    """Return False: how a rank's batch lies in the whole is in its layout, and nothing is padded."""
    return False


def _to_full_tensor(elem: Any, global_device_num: int, global_rank: int, scaling_sens: Any = None) -> Any:
    """Return what a rank is fed, as it is."""
    return elem


def init_exec_dataset(*arguments: Any) -> NoReturn:
    """Raise ConfigurationError: batches are fed by the program; none wait in a queue of the device."""
    raise ConfigurationError(
        "init_exec_dataset: batches do not wait in a queue of the device here; train with dataset_sink_mode=False"
    )


class _AutoParallelContext:
    """The planner's settings, beside those of ``set_auto_parallel_context``."""

    def set_all_reduce_fusion_split_indices(self, indices: Any, group: str = "") -> None:
        """Take note of nothing: what is small and ready together travels together."""
        remark(
            f"set_all_reduce_fusion_split_indices({indices!r}) has no effect here: small sums travel together anyway"
        )


def auto_parallel_context() -> _AutoParallelContext:
    """Return the planner's settings."""
    return _AutoParallelContext()
