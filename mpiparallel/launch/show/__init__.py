"""``mpiparallel show``: the network of a program with its cuts, or a schedule of pipeline stages, to be looked at."""
