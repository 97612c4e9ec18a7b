"""What is to be started: the script, where its ranks run, and mpirun's words for it."""
