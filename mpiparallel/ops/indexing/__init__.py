"""Operators that pick by index."""
