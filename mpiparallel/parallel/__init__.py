"""How a graph is cut over ranks: placement, redistribution, and the local graph of each rank."""
