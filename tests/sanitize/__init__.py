"""Our machine code under a sanitizer of the C compilers: `nox -s tsan`."""
