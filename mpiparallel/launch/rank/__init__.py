"""What runs on each rank, and what it leaves behind."""
