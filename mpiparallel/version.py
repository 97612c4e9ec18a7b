"""The version of mpiparallel."""

VERSION = "0.1.0"
