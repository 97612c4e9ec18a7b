"""``mpiparallel slurm``: batch scripts."""
