"""MindSpore's functions of tensors, by what they do."""
