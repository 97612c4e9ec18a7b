"""``mpiparallel ckpt``: looking at checkpoints, mending them and converting them; without MPI and without a GPU."""
