"""The full search: stages, micro-batches, schedule, recomputation, optimizer shards and strategies, found together."""
