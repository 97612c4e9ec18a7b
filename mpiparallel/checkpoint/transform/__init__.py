"""Files of one set of ranks made from those of another: MindSpore's ``transform_checkpoints`` and its kin."""
