"""How options are chosen: exactly, or quickly."""
