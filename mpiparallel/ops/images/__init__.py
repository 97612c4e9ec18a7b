"""Operators on images: convolution, pooling, padding, and the windows that they share."""
