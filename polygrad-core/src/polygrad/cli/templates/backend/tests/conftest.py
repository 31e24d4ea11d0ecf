"""Switches the conformance kit on."""

pytest_plugins = ["polygrad.testing.pytest_plugin"]
