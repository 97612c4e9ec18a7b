"""Files are written in memory: what a disk does with them is played, or asked of a disk made for it."""

from tests.conformance.memory_folder import tmp_path as tmp_path
