"""The device of a rank: which one, what is wrong with it, who has its memory, what it offers to communication."""
