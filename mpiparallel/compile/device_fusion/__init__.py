"""Neighbours that a GPU computes in one kernel: attention, a cross entropy with its gradient, products with what is added."""
