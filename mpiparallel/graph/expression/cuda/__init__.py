"""CUDA texts of expressions, made without CUDA: what a kernel is, how rows are shared out, and how it is bound."""
