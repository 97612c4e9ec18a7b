"""Processes that a shell has started one by one: which rank each is, and how it is found by what starts the job."""
