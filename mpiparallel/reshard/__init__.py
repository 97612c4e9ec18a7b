"""Moving a state from one set of layouts to another: a pure plan, and what carries it out."""
