"""The ways to carry out a bound plan. All of them give the same bytes."""
