"""Operators that sum and compare: over dims, along rows, over tensors."""
