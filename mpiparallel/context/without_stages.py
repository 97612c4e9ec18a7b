"""What pipelines do not offer yet, said before anything is done."""

from __future__ import annotations

from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError


def without_stages(what: str) -> None:
    """Raise ConfigurationError where there are stages of a pipeline, with which ``what`` is not offered.

    >>> without_stages("Model.reshard")
    >>> from mpiparallel import context
    >>> context.set_auto_parallel_context(pipeline_stages=2)
    >>> without_stages("Model.reshard")
    Traceback (most recent call last):
    mpiparallel.errors.ConfigurationError: Model.reshard is not offered with pipeline_stages=2 yet; set it to 1
    >>> context.reset_auto_parallel_context()
    """
    stages = current_configuration().pipeline_stages
    if stages > 1:
        raise ConfigurationError(f"{what} is not offered with pipeline_stages={stages} yet; set it to 1")
