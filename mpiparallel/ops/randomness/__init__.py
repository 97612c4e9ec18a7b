"""Dropout, and the place of its draws."""
