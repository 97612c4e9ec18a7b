"""A job while it runs, and how it ended."""
