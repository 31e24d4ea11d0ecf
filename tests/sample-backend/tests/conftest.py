pytest_plugins = ["polygrad.testing.pytest_plugin"]
