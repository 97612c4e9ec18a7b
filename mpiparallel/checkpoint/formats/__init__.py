"""The file formats of others: MindSpore's ``.ckpt``, safetensors and NumPy's ``.npz``, each an ``ArrayFile``."""
