"""What all commands share: parsers, checked arguments, progress, files that the user named."""
