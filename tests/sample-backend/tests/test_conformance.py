from polygrad.testing.suite import *  # noqa: F403

DEVICE = "sample"
