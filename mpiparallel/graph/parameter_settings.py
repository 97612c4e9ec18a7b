"""What users say of a parameter beside its values, and what changes nothing here."""

from __future__ import annotations

from typing import Any, NoReturn

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.compatibility.remark import remark
from mpiparallel.errors import ConfigurationError


class ParameterSettings:
    """The settings of a parameter that MindSpore's planner or its parameter servers read."""

    name: str
    comm_fusion: int = 1
    """Which fused collective its gradient is to travel in; small ones travel together anyway."""
    cache_enable = False
    """Whether a parameter server caches it: there is none."""
    parallel_optimizer_comm_recompute = False
    """Whether it is gathered anew for its gradient; ``Cell.recompute`` says so for the parameters of a cell."""

    @property
    def sliced(self) -> bool:
        """Whether this rank holds a slice of it, or all of it, of its own: it has been laid out."""
        return getattr(self, "layout", None) is not None

    @property
    def inited_param(self) -> ParameterSettings:
        """The parameter itself, which is filled where it is."""
        return self

    def set_param_ps(self, init_in_server: bool = False) -> NoReturn:
        """Raise ConfigurationError: there are no parameter servers."""
        raise ConfigurationError(
            f"parameter {self.name!r}: set_param_ps needs parameter servers, which are not offered; cut it by a "
            "strategy or by the parallel optimizer"
        )

    def add_pipeline_stage(self, stage: int) -> None:
        """Take note of nothing: a parameter is in the stages of the cells that use it."""
        remark(
            f"parameter {self.name!r}: add_pipeline_stage({stage}) has no effect here: it is in the stages of the "
            "cells that use it"
        )

    def _check_init(self, layout: Any, set_sliced: bool) -> None:
        where = f"parameter {self.name!r}: init_data"
        no_effect(where, "set_sliced", set_sliced, "a parameter knows which part of it this rank holds", default=False)
        if layout is not None:
            raise ConfigurationError(
                f"parameter {self.name!r}: init_data(layout) is not offered; each rank fills its slice when the "
                "network is compiled, so call init_data() or nothing"
            )
