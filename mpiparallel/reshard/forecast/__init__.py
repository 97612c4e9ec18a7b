"""What a reshard will cost, for all ranks at once."""
