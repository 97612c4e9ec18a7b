"""``mpiparallel plan``: what a reshard would move, before anything is started."""
