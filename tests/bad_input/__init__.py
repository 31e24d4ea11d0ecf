"""Mistakes: what users write, what they are told, and that nothing is left behind."""
