"""A vector machine that exists only as a program, as a device of polygrad."""
