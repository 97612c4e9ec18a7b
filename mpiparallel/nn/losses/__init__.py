"""Losses as cells."""
