"""Who sends what to whom: pure arithmetic, the same on every rank."""
