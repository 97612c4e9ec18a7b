"""How arrays in the memory of devices travel between ranks: the ways, and the one place that chooses among them."""
