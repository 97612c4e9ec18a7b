"""What each subcommand of ``mpiparallel ckpt`` does; loaded when it is called, for these need NumPy."""
