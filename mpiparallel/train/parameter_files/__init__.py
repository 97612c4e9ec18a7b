"""Parameters in files of their own: saved, loaded into networks that may be cut, exported."""
