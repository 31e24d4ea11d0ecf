"""Every check of the conformance kit is a test of this device.

What cannot pass yet goes into conformance.toml beside this file, each with its reason:

    [xfail]
    "memory/many_times" = "the driver leaks, ticket 42"
"""

from polygrad.testing.suite import *  # noqa: F403

DEVICE = "newdevice"
