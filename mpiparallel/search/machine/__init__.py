"""The machine that a step is priced for: described in a file, measured, or assumed."""
