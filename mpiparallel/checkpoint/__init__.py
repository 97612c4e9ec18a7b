"""Checkpoints: HDF5 shards, manifests, and MindSpore's strategy and group files."""
