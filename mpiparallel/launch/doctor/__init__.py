"""``mpiparallel doctor``: what of a machine would hinder a job, and the line that mends it."""
