"""What MindSpore has and is not here, or is elsewhere, or changes nothing."""
