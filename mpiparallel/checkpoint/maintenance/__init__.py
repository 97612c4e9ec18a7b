"""What is done with checkpoints that are there: verified, made whole, compared, converted, exported, pruned."""
