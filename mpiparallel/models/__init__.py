"""Networks written with the public API, as a user would."""
