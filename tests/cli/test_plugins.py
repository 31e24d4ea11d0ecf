"""`polygrad plugins formats models doctor env`, and verbs that packages bring."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import pytest

from polygrad import Context, errors, formats, registry
from polygrad.cli import child
from polygrad.cli.command import main

FORMAT = """
from polygrad.plugin import FormatPlugin, ModelPlugin
plugin = FormatPlugin(name="{name}", api=(1, 0), reader="{module}:read", suffixes=(".{name}",),
                      magic={magic}, summary="a format")
def read(file, *, options): return file.size, dict(options)
"""


@pytest.fixture
def here(install, tmp_path, monkeypatch):
    """`install`, for child processes too."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return install


@pytest.fixture
def add_format(here):
    def add(name: str, dist: str, magic: tuple = ()) -> None:
        module = dist.replace("-", "_")
        code = FORMAT.format(name=name, module=module, magic=magic)
        here(dist, "1.2", name, code, group="polygrad.formats")

    return add


def printed(capsys, *arguments: str, status: int = 0):
    assert main([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


# ---- plugins


def test_every_record_is_a_row(capsys) -> None:
    rows = {r["name"]: r for r in printed(capsys, "plugins")["plugins"]}
    assert set(rows) == {"cpu", "interp"}
    assert rows["interp"]["state"] == "loaded"
    assert rows["interp"]["api"] == "1.0"
    assert rows["interp"]["dist"] == "polygrad-core"
    assert rows["interp"]["group"] == "polygrad.devices"
    assert rows["interp"]["load_ms"] >= 0


def test_a_row_says_how_far_each_candidate_comes(capsys, here) -> None:
    here("bad-npu", name="bad", code="raise ImportError('libbad.so')")
    here("crash-npu", name="crash", code="import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    here("new-npu", "1.2.0", name="new", api=(9, 0))
    here("one-npu", name="both")
    here("two-npu", name="both")
    here("evil-pkg", name="cuda")
    here("off-npu", name="off")
    here("odd-hooks", name="odd", group="polygrad.plugins", attribute="hooks", code=(
        "from polygrad.hooks import hookimpl\n"
        "class hooks:\n"
        "    @staticmethod\n"
        "    @hookimpl\n"
        "    def polygrad_reprot(): ...\n"))  # fmt: skip
    with Context(POLY_PLUGINS="-off"):
        rows = printed(capsys, "plugins", status=1)["plugins"]
    assert {(r["name"], r["dist"]): r["state"] for r in rows} == {
        ("bad", "bad-npu"): "failed",
        ("both", "one-npu"): "conflict",
        ("both", "two-npu"): "conflict",
        ("cpu", "polygrad-backend-cpu"): "loaded",
        ("crash", "crash-npu"): "crashed",
        ("cuda", "evil-pkg"): "refused",
        ("interp", "polygrad-core"): "loaded",
        ("new", "new-npu"): "incompatible",
        ("odd", "odd-hooks"): "invalid",
        ("off", "off-npu"): "blocked",
    }
    reasons = {r["name"]: r["reason"] for r in rows}
    assert "ImportError: libbad.so" in reasons["bad"]
    assert reasons["crash"] == "loading it was ended by SIGSEGV"
    assert reasons["off"] == "switched off by POLY_PLUGINS"


def test_a_preference_settles_a_conflict(capsys, here) -> None:
    here("one-npu", name="both")
    here("two-npu", name="both")
    with Context(POLY_PLUGIN_PREFER="both=two-npu"):
        rows = printed(capsys, "plugins")["plugins"]
    states = {r["dist"]: r["state"] for r in rows if r["name"] == "both"}
    assert states == {"one-npu": "not preferred", "two-npu": "loaded"}


def test_a_plugin_that_hangs_at_import_is_a_row(capsys, here, monkeypatch) -> None:
    monkeypatch.setattr(child, "SECONDS", 4)
    here("slow-npu", name="slow", code="import time; time.sleep(60)")
    (row,) = [r for r in printed(capsys, "plugins", status=1)["plugins"] if r["name"] == "slow"]
    assert (row["state"], row["reason"]) == ("no answer", "loading it gave none in 4 s")


# ---- formats and models


def test_without_formats_and_models_it_says_so_and_how(capsys) -> None:
    assert main(["formats"]) == 0
    assert capsys.readouterr().out == (
        "No format is installed. A package offers one by an entry point of the group"
        " polygrad.formats; polygrad new-format NAME writes such a package.\n"
    )
    assert printed(capsys, "formats") == {"formats": []}
    assert main(["models"]) == 0
    assert "No model family is installed." in capsys.readouterr().out
    assert printed(capsys, "models") == {"models": []}


def test_formats_are_listed_with_their_suffixes(capsys, add_format) -> None:
    add_format("acme", "acme-formats")
    (row,) = printed(capsys, "formats")["formats"]
    assert (row["name"], row["suffixes"], row["summary"]) == ("acme", [".acme"], "a format")


def test_models_are_listed_with_their_architectures(capsys, here) -> None:
    code = (
        "from polygrad.plugin import ModelPlugin\n"
        "plugin = ModelPlugin(name='tiny', api=(1, 0), build='x:F', architectures=('TinyLM',))"
    )
    here("tiny-models", name="tiny", code=code, group="polygrad.models")
    (row,) = printed(capsys, "models")["models"]
    assert (row["name"], row["architectures"]) == ("tiny", ["TinyLM"])


def test_a_file_is_known_by_its_magic_before_its_suffix(add_format, tmp_path, capsys) -> None:
    add_format("acme", "acme-formats", magic=((0, b"ACME"), (6, b"!")))
    add_format("other", "other-formats")
    file = tmp_path / "x.other"
    file.write_bytes(b"ACME12!tail")
    assert formats.find(file) == "acme"
    assert formats.read(file, mode="r") == (11, {"mode": "r"})
    assert formats.find(file, format="other") == "other"
    assert printed(capsys, "formats", str(file)) == {"file": str(file), "format": "acme"}
    file.write_bytes(b"ACME12?tail")
    assert formats.find(file) == "other"


def test_a_file_that_nobody_knows_is_told_with_its_first_bytes(add_format, tmp_path) -> None:
    add_format("acme", "acme-formats")
    file = tmp_path / "x.bin"
    file.write_bytes(b"\x80\x02\x8a\x0a")
    with pytest.raises(errors.FormatUnknown) as error:
        formats.find(file)
    assert str(error.value) == (
        "cannot tell the format of x.bin (first bytes 80 02 8a). Pass format=. Known: acme."
    )
    file.write_bytes(b"")
    with pytest.raises(errors.FormatUnknown, match=r"of x.bin \(it is empty\)"):
        formats.find(file)
    with pytest.raises(errors.FormatUnknown, match="no format named 'gguf' is installed"):
        formats.find(file, format="gguf")


def test_a_file_that_two_formats_match_is_ambiguous(add_format, tmp_path) -> None:
    add_format("acme", "acme-formats", magic=((0, b"AC"),))
    add_format("myfmt", "my-formats", magic=((0, b"ACME"),))
    file = tmp_path / "x.bin"
    file.write_bytes(b"ACME")
    with pytest.raises(errors.FormatAmbiguous) as error:
        formats.find(file)
    assert str(error.value) == (
        "x.bin matches acme (acme-formats) and myfmt (my-formats). Pass format=."
    )


def test_a_format_that_cannot_be_loaded_harms_no_other(add_format, here, tmp_path) -> None:
    add_format("acme", "acme-formats")
    here("bad-formats", name="bad", code="raise ImportError('no')", group="polygrad.formats")
    file = tmp_path / "x.acme"
    file.write_bytes(b"..")
    with pytest.warns(errors.PluginWarning, match="format 'bad' .* failed to load"):
        assert formats.find(file) == "acme"


# ---- doctor and env


def checks(capsys, *arguments: str, status: int = 0) -> dict[str, dict]:
    return {c["check"]: c for c in printed(capsys, "doctor", *arguments, status=status)["checks"]}


def test_doctor_finds_nothing_wrong_with_a_device_that_works(capsys, device) -> None:
    (found,) = checks(capsys, device).values()
    assert found["ok"] and found["detail"].startswith("works (")


def test_doctor_tells_a_misspelt_setting(capsys, monkeypatch) -> None:
    from polygrad import settings

    monkeypatch.setattr(settings, "_warned", set())
    monkeypatch.setenv("POLY_DEVICE", "cpu")
    found = checks(capsys, status=1)["settings"]
    assert found["detail"] == "POLY_DEVICE is not a setting of polygrad. Did you mean 'POLY_DEV'?"
    assert not found["ok"] and found["fix"]


def test_doctor_tells_a_setting_that_cannot_be_read(capsys, monkeypatch) -> None:
    monkeypatch.setenv("POLY_THREADS", "many")
    found = checks(capsys, status=1)
    assert "POLY_THREADS=many cannot be read" in found["setting POLY_THREADS"]["detail"]


def test_doctor_tells_what_is_wrong_with_plugins_and_devices(capsys, here) -> None:
    here("bad-npu", name="bad", code="raise ImportError('libbad.so')")
    here("absent-npu", "2.0", name="absent", code=(
        "from polygrad.plugin import Probe\n"
        "def probe():\n"
        "    return Probe(False, detail='no driver', hint='install the driver')"))  # fmt: skip
    here("wrong-npu", name="wrong", code=(
        "from polygrad.device.interp import InterpDevice\n"
        "from polygrad.plugin import Probe\n"
        "def probe(): return Probe(True, count=1)\n"
        "class Program:\n"
        "    def __init__(self, p): self.p = p\n"
        "    def __call__(self, *handles, **options):\n"
        "        self.p(*handles, **options)\n"
        "        for handle in handles: handle.memory[0] ^= 1\n"
        "class Machine(InterpDevice):\n"
        "    def load(self, binary):\n"
        "        return {n: Program(p) for n, p in super().load(binary).items()}\n"))  # fmt: skip
    found = checks(capsys, status=1)
    assert found["device bad"]["detail"].startswith("failed: device 'bad' (bad-npu 1.0, bad_npu:pl")
    assert "POLY_PLUGINS=-bad" in found["device bad"]["fix"]
    assert found["device absent"]["detail"] == "unavailable: no driver"
    assert found["device absent"]["fix"] == "install the driver"
    assert found["device wrong"]["detail"].startswith("[1, 2, 3] * 2: gave [")
    assert found["device interp"]["ok"]


def test_doctor_tells_a_package_that_is_there_twice_or_was_changed(capsys, here, tmp_path) -> None:
    here("acme-npu", name="acme")
    record = tmp_path / "acme_npu-1.0.dist-info" / "RECORD"
    record.write_text("acme_npu.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")
    found = checks(capsys, status=1)
    changed = found["package acme-npu 1.0"]
    assert changed["detail"] == "files are not what was installed: acme_npu.py"
    assert changed["fix"] == "pip install --force-reinstall acme-npu==1.0"
    twin = tmp_path / "acme_npu.egg-info"
    twin.mkdir()
    (twin / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: acme-npu\nVersion: 0.9\n")
    (twin / "entry_points.txt").write_text("[polygrad.devices]\nacme = acme_npu:plugin\n")
    registry.refresh()
    rows = printed(capsys, "doctor", status=1)["checks"]
    assert any("is installed twice" in r["detail"] for r in rows)


def test_packages_add_checks_lines_and_verbs(capsys, here) -> None:
    code = """
        from polygrad.hooks import Check, hookimpl
        @hookimpl
        def polygrad_checks():
            return [Check("licence", lambda: "expired", "renew it"), Check("fan", lambda: ""),
                    Check("belt", lambda: 1 // 0)]
        @hookimpl
        def polygrad_report(): return {"serial": 7}
        def greet(arguments): return {"to": arguments.who}, f"hello {arguments.who}", True
        @hookimpl
        def polygrad_commands(commands):
            commands.add("greet", greet, "say hello", [(("who",), {"metavar": "NAME"})])
            commands.add("devices", greet, "not mine to replace")
        import sys
        hooks = sys.modules[__name__]
        """
    here("acme-hooks", "1.2", "tools", code, group="polygrad.plugins", attribute="hooks")
    found = checks(capsys, status=1)
    assert found["licence (tools)"] == {
        "check": "licence (tools)", "ok": False, "detail": "expired", "fix": "renew it"
    }  # fmt: skip
    assert found["fan (tools)"]["ok"]
    assert found["belt (tools)"]["detail"].startswith("it raised ZeroDivisionError")
    assert printed(capsys, "env")["tools serial"] == "7"
    assert printed(capsys, "greet", "you") == {"to": "you"}
    assert main(["greet", "you"]) == 0
    assert capsys.readouterr().out == "hello you\n"
    with pytest.raises(SystemExit):
        main(["--plugins", "none", "greet", "you"])
    capsys.readouterr()
    assert main(["devices"]) == 0


def test_help_loads_no_plugin(here, capsys) -> None:
    here("acme-hooks", "1.2", "tools", "raise SystemExit('I ran')", group="polygrad.plugins",
         attribute="hooks")  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (["--help"], ["devices", "--help"]):
            with pytest.raises(SystemExit) as end:
                main(given)
            assert end.value.code == 0


def test_env_tells_versions_devices_and_settings(capsys, monkeypatch) -> None:
    monkeypatch.setenv("POLY_DEV", "interp")
    data = printed(capsys, "env")
    assert data["polygrad-core"] == "0.1.0"
    assert data["python"].startswith("CPython 3.")
    assert data["device interp"] == "ok (default); python"
    assert data["POLY_DEV"] == "interp"
    assert "package numpy" in data
    main(["env"])
    assert "polygrad-core: 0.1.0\n" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["plugins", "formats", "models", "doctor", "env"])
def test_every_verb_prints_text_too(capsys, verb) -> None:
    assert main([verb]) == 0
    assert capsys.readouterr().out.strip()


def test_the_template_of_a_record_is_what_doctor_reads() -> None:
    """Our own packages as installed here: found once, from where they were installed."""
    from polygrad.cli import dists

    names = [d.name for d in dists.ours()]
    assert names.count("polygrad-core") == 1
    assert all(Path(d.path).is_dir() for d in dists.ours())
