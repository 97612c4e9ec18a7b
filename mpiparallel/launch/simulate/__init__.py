"""``mpiparallel simulate``: what a program would do on many ranks, worked out in one process."""
