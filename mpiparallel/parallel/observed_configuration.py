"""A configuration that records which of its settings are read, so that a result can be used again where these are the
same.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from mpiparallel.parallel.configuration import ParallelConfiguration

_FIELDS: Final = frozenset(field.name for field in fields(ParallelConfiguration))


class ObservedConfiguration(ParallelConfiguration):
    """The same configuration; ``read`` are the names of the fields that anybody has asked for.

    >>> observed = ObservedConfiguration.of(ParallelConfiguration(device_num=4))
    >>> observed.device_num, observed.batch_pieces, sorted(observed.read)
    (4, 1, ['device_num', 'full_batch', 'input_cuts'])
    """

    read: set[str]

    @classmethod
    def of(cls, configuration: ParallelConfiguration) -> ObservedConfiguration:
        """Return a configuration of which nothing has been read yet."""
        observed = cls(**vars(configuration))
        object.__setattr__(observed, "read", set())
        return observed

    def read_all(self) -> None:
        """Note that more has been asked than is told apart."""
        self.read.update(_FIELDS)

    def __getattribute__(self, name: str) -> Any:
        if name in _FIELDS:
            object.__getattribute__(self, "read").add(name)
        return object.__getattribute__(self, name)
