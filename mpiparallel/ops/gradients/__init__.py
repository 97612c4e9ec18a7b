"""Gradients of functions, and functions of nested tuples."""
