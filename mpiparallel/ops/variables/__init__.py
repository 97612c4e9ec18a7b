"""Operators that overwrite variables: assignment, and the updates of optimizers."""
