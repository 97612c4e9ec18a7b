"""What is here is run by tests; looking for doctests in a program that begins with ``init()`` would start MPI."""

collect_ignore = ["hand_started_ranks.py"]
