"""Strategy files, which say how each parameter is cut, and group files, which say who holds the same state."""
