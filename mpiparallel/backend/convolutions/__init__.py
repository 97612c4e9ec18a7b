"""Convolutions by libraries of a device."""
