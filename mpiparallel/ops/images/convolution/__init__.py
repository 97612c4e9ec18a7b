"""Convolution of images: its operators, and the ways in which their kernels compute."""
