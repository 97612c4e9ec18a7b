"""Operators that move or repeat elements, and tensors of constants."""
