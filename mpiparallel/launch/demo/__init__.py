"""``mpiparallel demo``: the main job from end to end, on real text, in about a minute."""
