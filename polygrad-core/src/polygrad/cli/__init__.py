"""The command line, `polygrad`: what is installed, and what is in a file."""
