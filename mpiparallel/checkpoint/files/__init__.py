"""Files of arrays, written safely, and the folders that they are in."""
