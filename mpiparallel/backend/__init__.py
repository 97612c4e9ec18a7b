"""Which array library a rank computes with."""
