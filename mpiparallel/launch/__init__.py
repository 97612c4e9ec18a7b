"""The command line and the launcher: start the ranks of a job, watch them, and say truly how it ended."""
