"""Which rank takes which place, so that most bytes stay."""
