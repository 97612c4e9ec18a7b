"""Fault injection: faults of ranks on purpose, at exact numbers of their collectives: ``mpiparallel run --chaos``."""

from mpiparallel.communication.fault_injection.fault_schedule import FaultSchedule as FaultSchedule

__all__ = ["FaultSchedule"]
