"""Faults that strike ranks on purpose, at exact numbers of their collectives: ``mpiparallel run --chaos``."""

from mpiparallel.communication.chaos.schedule import FaultSchedule as FaultSchedule

__all__ = ["FaultSchedule"]
