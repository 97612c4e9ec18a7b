"""Kernels of a GPU that terms cannot say: CUDA C by hand, without headers, with places for types and sizes."""
