"""The pass that finds attention in a graph, and computes it without the matrix of scores."""
