"""Graphs bound to memory and run."""
