"""The state of a training in checkpoints: what is saved, by whom, and how a training goes on from it."""
