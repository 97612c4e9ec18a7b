"""Operators of losses: softmax and cross entropies, each in one pass."""
