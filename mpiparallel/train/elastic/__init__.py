"""Ranks that come and go: who trains, who waits, and the move of a training from some ranks to others."""

from __future__ import annotations
