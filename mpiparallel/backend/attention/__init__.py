"""Attention by libraries of a device."""
