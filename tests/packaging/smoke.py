"""What a person does first after `pip install polygrad`: run with the installed wheels alone."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import polygrad
from polygrad import Context, Tensor, device
from polygrad.hooks.trace import timeline

assert "site-packages" in Path(polygrad.__file__).parts, polygrad.__file__
assert device.names() == ("cpu", "interp"), device.names()
assert device.default() == "cpu", device.default()

for name in device.names():
    with Context(POLY_DEV=name):
        assert (Tensor([1.0, 2.0, 3.0]) * 2).tolist() == [2.0, 4.0, 6.0], name

assert not {m for m in sys.modules if m.startswith("polygrad_")} - {
    m for m in sys.modules if m.partition(".")[0] == "polygrad_backend_cpu"
}, "cpu and interp are all that was asked for"


def polygrad_says(*arguments: str) -> dict:
    """What a verb prints; it must be content with this environment."""
    command = [sys.executable, "-m", "polygrad", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


states = {row["name"]: row["state"] for row in polygrad_says("plugins")["plugins"]}
assert states == {"cpu": "loaded", "interp": "loaded"}, states
assert polygrad_says("doctor")["ok"]  # every file is what the wheel's RECORD says
assert polygrad_says("env")["python"]
with tempfile.TemporaryDirectory() as folder:
    with timeline(Path(folder) / "out.json"):
        (Tensor([1.0, 2.0]) + 1).tolist()
    assert json.loads((Path(folder) / "out.json").read_text())
    polygrad_says("new-format", "zzz", "--dir", folder)

listing = subprocess.run(
    [sys.executable, "-m", "polygrad", "devices", "--json"], capture_output=True, check=True
)
assert json.loads(listing.stdout)["default"] == ["cpu"], listing.stdout
print("the installed wheels work")
