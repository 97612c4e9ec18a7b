"""Functions of one element each, said once: as terms, run in blocks by the array library or as one compiled loop."""
