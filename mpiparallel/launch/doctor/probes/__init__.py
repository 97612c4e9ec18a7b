"""Programs that the doctor starts as children, because what they try may crash or block."""
