"""A network in stages of a pipeline: its name, and what to do without."""

from __future__ import annotations

from typing import Any, NoReturn

from mpiparallel.errors import ConfigurationError
from mpiparallel.nn.cell import Cell


class PipelineCell(Cell):
    """A network fed in ``micro_size`` pieces of a batch; pipelines are not offered yet.

    Parameters
    ----------
    network, micro_size, stage_config, segment_config
        MindSpore's.

    Raises
    ------
    ConfigurationError
        Always, as for ``pipeline_stages=2``.

    Examples
    --------
    >>> from mpiparallel.errors import ConfigurationError
    >>> try:
    ...     PipelineCell(Cell(), 4)
    ... except ConfigurationError:
    ...     print("not yet")
    not yet
    """

    def __init__(
        self, network: Cell, micro_size: int, stage_config: Any = None, segment_config: Any = None
    ) -> NoReturn:
        raise ConfigurationError(
            f"PipelineCell(micro_size={micro_size}): pipeline parallelism is not offered yet; train the network "
            "itself, with pipeline_stages=1, and cut it by strategies or by data parallelism"
        )
