"""Tests against other libraries, which their session installs."""
