"""The version of mpiparallel: here that of the next release; a build writes the one that git's tags give."""

VERSION = "0.1.0"
