"""Operators that normalise: by batch and by layer."""
