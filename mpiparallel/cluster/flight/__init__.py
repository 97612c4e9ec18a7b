"""What a rank is doing, kept where others can read it when it cannot say so itself: a flight recorder, its readers."""
