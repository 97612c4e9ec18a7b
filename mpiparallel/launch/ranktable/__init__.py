"""``mpiparallel ranktable``: making, merging, showing and checking rank tables. Needs no MPI."""
