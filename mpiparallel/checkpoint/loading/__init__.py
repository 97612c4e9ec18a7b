"""Loading a state from files onto any number of ranks: each byte is read once, and passed on."""
