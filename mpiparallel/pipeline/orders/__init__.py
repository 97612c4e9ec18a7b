"""In which order each stage computes: one function a schedule, pure; messages are added later."""
