"""Neighbours that a GPU computes in one kernel: attention, cross entropy with its gradient, products."""
