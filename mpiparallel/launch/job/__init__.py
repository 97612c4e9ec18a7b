"""A job as it is described: script, places to run and to write, what follows a failure, and the words for mpirun."""
