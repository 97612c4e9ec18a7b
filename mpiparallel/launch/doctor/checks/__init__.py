"""What the doctor looks at: one subject, or a small family, a module."""
