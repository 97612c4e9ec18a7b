"""The exceptions of mpiparallel.

::

    MpiParallelError
    |- ConfigurationError   (ValueError, TypeError)  an option, an environment variable or a context parameter is wrong
    |- RankTableError       (ValueError)    a rank table or a hostfile is malformed, or does not fit the job
    |- LayoutError          (ValueError)    a layout does not fit its tensor or its devices
    |- StrategyError        (ValueError, TypeError, RuntimeError)  a sharding strategy does not fit its operator
    |- ScheduleError        (ValueError)    a schedule of a pipeline is incomplete, out of order, or would never end
    |- ShapeError           (ValueError, TypeError)  shapes or dtypes of an operator's inputs do not fit together
    |- TraceError           (TypeError)     a network cannot be traced to a graph
    |- GradientError        (TypeError)     a gradient is asked for that is not defined
    |- CommunicationError   (RuntimeError)  a collective failed or was called wrongly
    |  `- RankFailureError                   a rank that it needs has died
    |- ReshardError         (RuntimeError)  state could not be moved
    |- CheckpointError      (RuntimeError, ValueError)  a checkpoint is damaged, incomplete or does not fit
    |  `- TransformError                     it cannot be converted for another strategy
    |- StrategyFileError    (ValueError, TypeError)  a strategy or group file cannot be read
    |- NonFiniteError       (ArithmeticError) a loss or a gradient is infinite or no number
    |- DatasetError         (ValueError, TypeError, RuntimeError)  input data are missing or malformed
    |- LaunchError          (RuntimeError)  a job could not be started, or ended badly

Where MindSpore raises one of several built-in exceptions for what is one mistake here, the error is each of them. So a
program that was written for MindSpore catches it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar


class MpiParallelError(Exception):
    """Anything that mpiparallel refuses or that failed in it."""


def reason(error: Exception) -> str:
    """Return why a file could not be used, without its path, which the message that quotes this names.

    >>> reason(FileNotFoundError(2, "No such file or directory", "net.ckpt"))
    'No such file or directory'
    """
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class ConfigurationError(MpiParallelError, ValueError, TypeError):
    """An option, an environment variable or a context parameter is wrong."""


class RankTableError(MpiParallelError, ValueError):
    """A rank table or a hostfile is malformed, or does not fit the job."""


class LayoutError(MpiParallelError, ValueError):
    """A layout does not fit its tensor or its devices."""


class StrategyError(MpiParallelError, ValueError, TypeError, RuntimeError):
    """A sharding strategy does not fit its operator."""


class ScheduleError(MpiParallelError, ValueError):
    """A schedule of a pipeline is incomplete, out of order, or would never end."""


class ShapeError(MpiParallelError, ValueError, TypeError):
    """Shapes or dtypes of an operator's inputs do not fit together."""


class TraceError(MpiParallelError, TypeError):
    """A network cannot be traced to a graph."""


class GradientError(MpiParallelError, TypeError):
    """A gradient is asked for that is not defined."""


class CommunicationError(MpiParallelError, RuntimeError):
    """A collective failed or was called wrongly."""


MISMATCH = "ranks make different calls"
"""How the message of a CommunicationError begins that all ranks raise together, because of nobody's end."""


class RankFailureError(CommunicationError):
    """A rank that a collective needs has died, and the MPI library lets the others go on (ULFM)."""


class CaptureError(MpiParallelError, RuntimeError):
    """A device's work cannot be recorded, to be done again: the host has a part in it."""


class DeviceMemoryError(MpiParallelError, MemoryError):
    """A GPU has no memory left for what is wanted."""


class ReshardError(MpiParallelError, RuntimeError):
    """State could not be moved."""


class CheckpointError(MpiParallelError, RuntimeError, ValueError):
    """A checkpoint is damaged, incomplete or does not fit."""


class TransformError(CheckpointError):
    """Files cannot be converted: one is missing, or it does not fit the strategy that it should have."""


class StrategyFileError(MpiParallelError, ValueError, TypeError):
    """A strategy file or a group file cannot be read."""


class NonFiniteError(MpiParallelError, ArithmeticError):
    """A loss or a gradient is infinite or no number."""


class DatasetError(MpiParallelError, ValueError, TypeError, RuntimeError):
    """Input data are missing, malformed or of the wrong size."""


class LaunchError(MpiParallelError, RuntimeError):
    """A job could not be started, or ended badly."""


@contextmanager
def about(subject: str) -> Iterator[None]:
    """Put ``subject`` before the message of an error about a strategy file or a conversion."""
    try:
        yield
    except (StrategyFileError, TransformError) as error:
        raise type(error)(f"{subject}: {error}") from error


_ORIGINS = "origins"
_ACTION = "action"
Raised = TypeVar("Raised", bound=Exception)


def name_origins(error: Raised, ranks: Sequence[int]) -> Raised:
    """Return ``error``, which many ranks raise, with the ``ranks`` whose problem it tells."""
    setattr(error, _ORIGINS, tuple(ranks))
    return error


def origins_of(error: BaseException) -> tuple[int, ...]:
    """Return the ranks whose problem ``error``, or an error that caused it, tells; none of one rank's own error.

    >>> origins_of(name_origins(ReshardError("rank 1: no memory"), [1])), origins_of(ValueError())
    ((1,), ())
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        found = getattr(cause, _ORIGINS, ())
        if found:
            return tuple(found)
        cause = cause.__cause__
    return ()


def name_action(error: Exception, action: str) -> None:
    """Note with ``error`` what its rank was doing in a stage of a pipeline, unless that is known."""
    if not getattr(error, _ACTION, ""):
        with suppress(AttributeError):
            setattr(error, _ACTION, action)


def action_of(error: BaseException) -> str:
    """Return the action of a pipeline's stage in which a rank raised ``error``; ``""`` where that is not known.

    >>> error = ValueError()
    >>> name_action(error, "stage 1's update")
    >>> action_of(error)
    "stage 1's update"
    """
    found = getattr(error, _ACTION, "")
    return found if isinstance(found, str) else ""
