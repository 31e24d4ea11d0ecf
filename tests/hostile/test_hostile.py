"""Packages that do what none should, all installed at once beside ours: `nox -s hostile`.

Each gets its message, and whoever does not ask for them by name does not notice that they are
there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest


def _packages() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "hostile_packages", Path(__file__).with_name("packages.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


packages = _packages()
PACKAGES = packages.PACKAGES


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has installed all of them."""
    folder = tmp_path_factory.mktemp("hostile")
    wheels = {wrong: str(packages.wheel(package, folder)) for wrong, package in PACKAGES.items()}
    by_hand = wheels.pop("metadata that are not UTF-8")  # pip refuses it, unzip does not
    target = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    done = subprocess.run(
        [*command, "--target", str(target), *wheels.values()], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(by_hand) as archive:
        archive.extractall(target)
    packages.garble(PACKAGES["entry points that are not UTF-8"], target)
    packages.twin_of(PACKAGES["metadata twin"], target)
    return target


def python(site: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, **settings}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )


USE = """
import warnings
warnings.simplefilter("ignore")
from polygrad import PolygradError, Tensor
try:
    print((Tensor([1.0, 2.0]) * 3).tolist())
except PolygradError as error:
    print(f"{type(error).__name__}: {error}")
"""

WORKS = "[3.0, 6.0]"
# what is wrong -> the last line of what a program prints that asks for the device by name
SAID = {
    "broken import": "PluginLoadError: device 'broken' (broken-npu 1.2.0, broken_npu:plugin) failed"
    " to load: ModuleNotFoundError: No module named 'libbroken'. Disable: POLY_PLUGINS=-broken",
    "SystemExit at import": "PluginLoadError: device 'exits' (exit-npu 1.2.0, exit_npu:plugin)"
    " failed to load: SystemExit: 3. Disable: POLY_PLUGINS=-exits",
    "wrong type": "PluginInvalid: type_npu:plugin is a module, expected DevicePlugin.",
    "wrong name": "PluginInvalid: name_npu:plugin calls itself 'other', its entry point says"
    " 'named'.",
    "API 9.0": "PluginIncompatible: future-npu 1.2.0 needs plugin API 9.0; polygrad-core 0.1.0"
    ' offers 1.0. Run: pip install -U polygrad-core, or pip install "future-npu<1.2".',
    "duplicate": "PluginConflict: two packages provide the device 'dup': dup-one 1.2.0"
    " (dup_one:plugin), dup-two 1.2.0 (dup_two:plugin). Uninstall one, or set"
    " POLY_PLUGIN_PREFER=dup=dup-one.",
    "reserved name": "PluginReserved: evil-pkg 0.1 may not provide the device 'cuda': that name"
    " belongs to polygrad-backend-cuda.",
    "the name of one of ours": WORKS,
    "an exception of its own making": "PluginLoadError: device 'based' (base-npu 1.2.0,"
    " base_npu:plugin) failed to load: Halt: now. Disable: POLY_PLUGINS=-based",
    "an error without a text": "PluginLoadError: device 'mute' (mute-npu 1.2.0, mute_npu:plugin)"
    " failed to load: Mute: (its text cannot be made: AttributeError). Disable:"
    " POLY_PLUGINS=-mute",
    "a field of another type": "PluginLoadError: device 'field' (field-npu 1.2.0, field_npu:plugin)"
    " failed to load: TypeError: DevicePlugin.device is 5, expected text of the form"
    " 'package.module:attribute'. Disable: POLY_PLUGINS=-field",
    "an alias that is ours": WORKS,
    "prints on import": WORKS,
    "non-ASCII metadata": WORKS,
    "metadata that are not UTF-8": WORKS,
    "metadata twin": WORKS,
}


@pytest.mark.parametrize("wrong", SAID)
def test_who_asks_for_it_is_told(site: Path, wrong: str) -> None:
    done = python(site, "-c", USE, POLY_DEV=PACKAGES[wrong].name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == SAID[wrong]


def test_a_name_of_ours_is_nobodys_alias(site: Path) -> None:
    done = python(site, "-c", USE, POLY_DEV="webgpu")
    assert done.stdout.startswith(
        "DeviceNotInstalled: device 'webgpu' is not installed. Run: pip install"
    )


def test_a_name_that_no_package_offers_is_told_whatever_the_others_do(site: Path) -> None:
    done = python(site, "-c", USE, POLY_DEV="upper")
    line = done.stdout.splitlines()[-1]  # one prints when it is asked for its aliases
    assert line.startswith("DeviceUnknown: no device named 'upper'.")


def test_a_crash_or_a_hang_in_a_probe_is_a_row(site: Path) -> None:
    """In the process that asks by name they cannot be caught; `polygrad devices` asks a child."""
    done = python(site, "-m", "polygrad", "devices", "--json", POLY_DEV="cpu")
    rows = {row["name"]: row for row in json.loads(done.stdout)["devices"]}
    assert rows["cpu"]["state"] == rows["interp"]["state"] == "ok"
    assert rows["cpu"]["package"] == "polygrad-backend-cpu 0.1.0"
    assert rows["cpu"]["default"]
    assert (rows["crash"]["state"], rows["crash"]["reason"]) == (
        "crashed",
        "its probe was ended by SIGSEGV",
    )
    assert (rows["hang"]["state"], rows["hang"]["reason"]) == (
        "no answer",
        "its probe gave none in 10 s",
    )
    assert rows["broken"]["state"] == "broken"
    assert rows["loud"]["state"] == "ok"
    assert "BUY ACME" not in done.stdout


def test_plugins_says_how_far_each_comes(site: Path) -> None:
    done = python(site, "-m", "polygrad", "plugins", "--json")
    assert done.returncode == 1
    rows = {(row["name"], row["dist"]): row["state"] for row in json.loads(done.stdout)["plugins"]}
    assert rows == {
        ("broken", "broken-npu"): "failed",
        ("exits", "exit-npu"): "failed",
        ("crash", "crash-npu"): "loaded",  # its descriptor is fine
        ("hang", "hang-npu"): "loaded",
        ("typed", "type-npu"): "invalid",
        ("named", "name-npu"): "invalid",
        ("future", "future-npu"): "incompatible",
        ("based", "base-npu"): "failed",
        ("mute", "mute-npu"): "failed",
        ("field", "field-npu"): "failed",
        ("Upper", "upper-npu"): "invalid",
        ("auto", "auto-npu"): "invalid",
        ("aliased", "alias-npu"): "loaded",
        ("dup", "dup-one"): "conflict",
        ("dup", "dup-two"): "conflict",
        ("cuda", "evil-pkg"): "refused",
        ("cpu", "evil-two"): "refused",
        ("loud", "loud-npu"): "loaded",
        ("umlaut", "umlaut-npu"): "loaded",
        ("latin", "latin-npu"): "loaded",
        ("twin", "twin-npu"): "loaded",
        ("hooked", "hook-npu"): "loaded",
        ("cpu", "polygrad-backend-cpu"): "loaded",
        ("interp", "polygrad-core"): "loaded",
    }


TRAIN = """
import sys
from polygrad import Tensor, nn
x = Tensor.arange(64).reshape(32, 2).float() / 64
y = x @ Tensor([[2.0], [-1.0]]) + 0.5
net = nn.Linear(2, 1)
optimizer = nn.optim.Adam(net.parameters() if hasattr(net, "parameters") else
                          nn.state.get_parameters(net), lr=0.1)
losses = []
with Tensor.train():
    for step in range(60):
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean().backward()
        optimizer.step()
        losses.append(loss.item())
print(losses[-1] < losses[0] / 10, *sorted(m for m in sys.modules if m.endswith(ENDINGS)))
"""


def test_cpu_still_trains_and_imports_none_of_them(site: Path) -> None:
    """Not one line on stderr either, but for the package whose hooks observe: it is warned of."""
    endings = tuple(p.module for p in PACKAGES.values() if p.name != "hooked")
    code = TRAIN.replace("ENDINGS", repr(endings))
    done = python(site, "-W", "error", "-c", code, POLY_DEV="cpu", POLY_PLUGINS="-hooked")
    assert (done.stdout, done.stderr) == ("True\n", "")
    done = python(site, "-c", code, POLY_DEV="cpu")
    assert done.stdout == "True\n"
    assert done.stderr.count("Warning") == 1
    assert (
        "PluginWarning: polygrad_program_ran of 'hooked' (hook-npu 1.2.0) failed: OSError:"
        " observed. This plugin is not called again. Disable: POLY_PLUGINS=-hooked" in done.stderr
    )


def test_auto_passes_them_over(site: Path) -> None:
    done = python(site, "-c", USE + "from polygrad import device\nprint(device.default())",
                  POLY_PLUGINS="-hooked")  # fmt: skip
    assert done.stdout == f"{WORKS}\ncpu\n"


def test_doctor_says_how_to_mend_each(site: Path) -> None:
    # Those would be tried, which is shown elsewhere.
    switch = "-crash,-hang,-loud,-umlaut,-latin,-hooked,-aliased"
    done = python(site, "-m", "polygrad", "doctor", "--json", POLY_DEV="cpu", POLY_PLUGINS=switch)
    assert done.returncode == 1
    checks = json.loads(done.stdout)["checks"]
    wrong = {c["check"]: c for c in checks if not c["ok"]}
    for name in ("broken", "exits", "typed", "named", "future", "dup", "cuda", "Upper", "auto"):
        assert wrong[f"device {name}"]["fix"].startswith("pip uninstall ")
    assert any("garbled_npu" in c and "UnicodeDecodeError" in wrong[c]["detail"] for c in wrong)
    assert "is installed twice" in wrong["package twin-npu 1.2.0"]["detail"]
    fine = {c["check"] for c in checks if c["ok"]}
    assert "device interp" in fine
