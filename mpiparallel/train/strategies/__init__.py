"""Strategy files of trainings: written, read, and told as layouts."""
