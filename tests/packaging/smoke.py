"""What a person does first after `pip install polygrad`: run with the installed wheels alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polygrad
from polygrad import Context, Tensor, device

assert "site-packages" in Path(polygrad.__file__).parts, polygrad.__file__
assert device.names() == ("cpu", "interp"), device.names()
assert device.default() == "cpu", device.default()

for name in device.names():
    with Context(POLY_DEV=name):
        assert (Tensor([1.0, 2.0, 3.0]) * 2).tolist() == [2.0, 4.0, 6.0], name

listing = subprocess.run(
    [sys.executable, "-m", "polygrad", "devices", "--json"], capture_output=True, check=True
)
assert json.loads(listing.stdout)["default"] == ["cpu"], listing.stdout
print("the installed wheels work")
