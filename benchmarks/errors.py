"""What can go wrong here, in words for the person who asked."""


class BenchmarkError(Exception):
    """An option that cannot be followed, or a contestant that gave no result."""
