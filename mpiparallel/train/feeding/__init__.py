"""What a training is fed: what a dataset must offer, and what all ranks must have alike in it."""
