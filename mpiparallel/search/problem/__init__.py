"""All placements of a graph at once: each operator's options, and what they cost together."""
