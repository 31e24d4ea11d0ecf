"""How a device's name becomes a device, and every text when it does not."""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import os
import pickle
import sys
import threading
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from polygrad import Context, Tensor, device, errors, metadata, plugin, registry, settings
from polygrad.testing import isolated_registry

MACHINE = """
from polygrad.device.interp import InterpDevice as Machine
from polygrad.plugin import Probe
def probe(): return Probe(True, count=1)
"""
ABSENT = """
from polygrad.plugin import Probe
def probe(): return Probe(False, detail="libacme.so.3 not found", hint="install the driver")
"""


def text(error: pytest.ExceptionInfo[errors.PolygradError]) -> str:
    return str(error.value)


# ---- names


def test_a_name_is_case_insensitive_and_index_zero_is_left_out() -> None:
    assert device.get("INTERP:0") is device.get("interp")
    assert device.get("Interp:1").name == "interp:1"


def test_an_opened_device_is_kept() -> None:
    assert device.get("interp") is device.get("interp")


def test_a_device_that_is_known_but_absent_names_its_install_command() -> None:
    with pytest.raises(errors.DeviceNotInstalled) as error:
        device.get("cuda")
    assert text(error) == (
        "device 'cuda' is not installed. Run: pip install \"polygrad[cuda]\"."
        " Installed: cpu, interp."
    )


def test_a_misspelt_device_gets_the_nearest_name() -> None:
    with pytest.raises(errors.DeviceUnknown) as error:
        device.get("cdua")
    assert text(error) == (
        "no device named 'cdua'. Did you mean 'cuda'? Installed: cpu, interp. See: polygrad devices"
    )


def test_a_name_like_nothing_gets_no_guess() -> None:
    with pytest.raises(errors.DeviceUnknown) as error:
        device.get("quantum")
    assert text(error) == (
        "no device named 'quantum'. Installed: cpu, interp. See: polygrad devices"
    )


def test_a_number_beyond_the_count_is_refused(install) -> None:
    install("acme-npu", "1.2.0", code=MACHINE.replace("count=1", "count=2"))
    assert device.get("acme:1").name == "acme:1"
    reason = "device 'acme' (acme-npu 1.2.0) cannot be used: there is no number 7, it counts 2."
    hint = " Hint: use 'acme' to 'acme:1'."
    for name in ("acme:7", "ACME:2"):
        with pytest.raises(errors.DeviceUnavailable, match="there is no number [27], it counts 2"):
            device.get(name)
    with pytest.raises(errors.DeviceUnavailable) as error:
        Tensor([1.0], device="acme:7")
    assert text(error) == reason + hint
    with Context(POLY_DEV="acme:7"), pytest.raises(errors.DeviceUnavailable) as error:
        device.default()
    assert text(error).startswith(reason + hint + " POLY_DEV=acme:7 was explicit")
    with pytest.raises(errors.DeviceUnavailable, match="no number 7, it counts 1. Hint: use 'cpu'"):
        Tensor([1.0], device="cpu:7")


def test_an_index_must_be_a_number() -> None:
    with pytest.raises(errors.ArgumentError) as error:
        device.get("cpu:x")
    assert text(error) == "device 'cpu:x': what follows ':' must be a number, as in 'cpu:1'."


def test_a_device_is_named_by_text() -> None:
    with pytest.raises(errors.ArgumentError) as error:
        device.get(3)  # type: ignore[arg-type]
    assert text(error) == "a device is a name such as 'cpu' or 'cuda:1', not 3."


def test_an_alias_in_a_descriptor_names_its_device(install) -> None:
    code = MACHINE + "\nplugin = DevicePlugin(name='acme', api=(1, 0), device='acme_npu:Machine',"
    install("acme-npu", code=code + " probe='acme_npu:probe', aliases=('npu',))")
    assert device.canonical("npu:1") == "acme:1"


# ---- broken packages harm only those who name them


def test_asking_whether_a_device_is_there_opens_nothing(install) -> None:
    """F188."""
    install("acme-npu", code=ABSENT)
    assert device.available("interp") and device.available("INTERP:3")
    assert not device.available("acme") and not device.available("wasm")
    with pytest.raises(errors.DeviceUnknown, match="Did you mean 'interp'"):
        device.available("intrp")
    assert not device.opened.usable()


def test_an_unusable_device_says_why_and_what_to_do(install) -> None:
    install("acme-npu", "1.2.0", code=ABSENT)
    with pytest.raises(errors.DeviceUnavailable) as error:
        device.get("acme")
    assert text(error) == (
        "device 'acme' (acme-npu 1.2.0) cannot be used: libacme.so.3 not found."
        " Hint: install the driver."
    )


def test_an_explicit_device_that_fails_is_never_replaced(install) -> None:
    install("acme-npu", "1.2.0", code=ABSENT)
    with Context(POLY_DEV="acme"), pytest.raises(errors.DeviceUnavailable) as error:
        device.default()
    assert text(error) == (
        "device 'acme' (acme-npu 1.2.0) cannot be used: libacme.so.3 not found."
        " Hint: install the driver. POLY_DEV=acme was explicit, so polygrad does not fall back;"
        " use POLY_DEV=auto to allow it."
    )


def test_a_device_asked_for_by_name_imports_no_other(install, tmp_path) -> None:
    """Strangers' devices, and hooks, formats and families that nobody asked for."""
    for number, group in enumerate(registry.GROUPS[:3]):
        install(f"acme-{number}", name=f"acme{number}", code=MACHINE, group=group)
    out = _python(
        "import sys\nfrom polygrad import Tensor\n(Tensor([1.0]) + 1).tolist()\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules if m.startswith(('acme_',"
        " 'polygrad_', 'pluggy'))}))",
        PYTHONPATH=os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))),
        POLY_DEV="cpu",
    )
    assert out == "polygrad_backend_cpu"


def test_a_broken_import_is_told_with_its_package_and_chained(install) -> None:
    install("acme-npu", "1.2.0", code="raise ImportError('libacme.so.3: cannot open it')")
    with pytest.raises(errors.PluginLoadError) as error:
        device.get("acme")
    assert text(error) == (
        "device 'acme' (acme-npu 1.2.0, acme_npu:plugin) failed to load: ImportError:"
        " libacme.so.3: cannot open it. Disable: POLY_PLUGINS=-acme"
    )
    assert isinstance(error.value.__cause__, ImportError)
    assert device.get("interp").name == "interp"


def test_a_plugin_that_exits_at_import_is_an_error(install) -> None:
    install("acme-npu", code="raise SystemExit(3)")
    with pytest.raises(errors.PluginLoadError, match=r"failed to load: SystemExit: 3\."):
        device.get("acme")


def test_a_failure_is_remembered_until_refresh(install, tmp_path) -> None:
    install("acme-npu", code="raise ImportError('not yet')")
    for _ in range(2):
        with pytest.raises(errors.PluginLoadError):
            device.get("acme")
    (tmp_path / "acme_npu.py").write_text(
        (tmp_path / "acme_npu.py").read_text().replace("raise ImportError('not yet')", MACHINE)
    )
    with pytest.raises(errors.PluginLoadError):
        device.get("acme")
    sys.modules.pop("acme_npu", None)
    registry.refresh()
    assert device.get("acme").name == "acme"


def test_a_probe_that_raises_is_an_answer(install) -> None:
    install("acme-npu", code="def probe(): raise OSError('no such bus')")
    with pytest.raises(errors.DeviceUnavailable) as error:
        device.get("acme")
    assert text(error) == (
        "device 'acme' (acme-npu 1.0) cannot be used: its probe raised OSError: no such bus."
    )


def test_a_driver_that_fails_at_open_is_told(install) -> None:
    code = MACHINE.replace("as Machine", "as Base") + (
        "\nclass Machine(Base):"
        "\n    @classmethod"
        "\n    def open(cls, index, options): raise OSError('device busy')"
    )
    install("acme-npu", code=code)
    with pytest.raises(errors.DeviceUnavailable) as error:
        device.get("acme")
    assert text(error) == ("device 'acme' (acme-npu 1.0) cannot be used: OSError: device busy.")


def test_a_newer_api_is_refused_with_both_versions(install) -> None:
    install("acme-npu", "1.2.0", code=MACHINE, api=(2, 0))
    with pytest.raises(errors.PluginIncompatible) as error:
        device.get("acme")
    assert text(error) == (
        "acme-npu 1.2.0 needs plugin API 2.0; polygrad-core 0.1.0 offers 1.0."
        ' Run: pip install -U polygrad-core, or pip install "acme-npu<1.2".'
    )


def test_two_packages_with_one_name_conflict_when_it_is_used(install) -> None:
    install("acme-npu", "0.1.0", code=MACHINE)
    install("dup-npu", "0.1.0", code=MACHINE)
    with pytest.raises(errors.PluginConflict) as error:
        device.get("acme")
    assert text(error) == (
        "two packages provide the device 'acme': acme-npu 0.1.0 (acme_npu:plugin),"
        " dup-npu 0.1.0 (dup_npu:plugin). Uninstall one, or set POLY_PLUGIN_PREFER=acme=acme-npu."
    )
    with Context(POLY_PLUGIN_PREFER="acme=dup-npu"):
        assert device.get("acme").name == "acme"
        found = registry.find(registry.DEVICES, "acme")
    assert found is not None
    assert found.dist == "dup-npu"


def test_one_package_seen_twice_is_one(install, tmp_path) -> None:
    install("acme-npu", code=MACHINE)
    twin = tmp_path / "acme_npu.egg-info"
    twin.mkdir()
    (twin / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: acme-npu\nVersion: 1.0\n")
    (twin / "entry_points.txt").write_text("[polygrad.devices]\nacme = acme_npu:plugin\n")
    registry.refresh()
    assert device.get("acme").name == "acme"


def test_other_packages_may_have_any_metadata(install, tmp_path) -> None:
    info = tmp_path / "größe-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: größe\nAuthor: 名前\n", encoding="utf-8")
    (tmp_path / "empty-2.0.dist-info").mkdir()
    install("acme-npu", code=MACHINE)
    assert "acme" in device.names()


def test_metadata_is_read_as_the_standard_library_reads_it(install, tmp_path) -> None:
    install("acme-npu", "1.5", code=MACHINE)
    (tmp_path / "acme_npu-1.5.dist-info" / "entry_points.txt").write_text(
        "# a comment\n[console_scripts]\nacme = acme_npu:main\n\n"
        "  [polygrad.devices]\n acme=acme_npu : plugin [extra] \n[polygrad.devices.more]\nb = c:d\n"
    )
    folder = tmp_path / "Old.Acme.egg" / "EGG-INFO"
    folder.mkdir(parents=True)
    (folder / "PKG-INFO").write_text("Name: Old.Acme\nVersion: 3\n\nName: nobody\n")
    (folder / "entry_points.txt").write_text("[polygrad.plugins]\nold = acme_npu\n")
    sys.path.append(str(folder.parent))
    groups = ("polygrad.devices", "polygrad.plugins")
    expected = {
        (e.group, e.name, e.value, *metadata.label(dist))
        for dist in importlib.metadata.distributions() for e in dist.entry_points
        if e.group in groups
    }  # fmt: skip
    found = metadata.entry_points(groups)
    sys.path.remove(str(folder.parent))
    assert {tuple(e) for e in found} == expected
    assert {"acme", "old"} <= {e.name for e in found}
    (old,) = (e for e in found if e.name == "old")
    assert (old.dist, old.version, old.load().__name__) == ("Old.Acme", "3", "acme_npu")


def test_an_archive_and_a_finder_of_others_have_distributions_too(
    install, tmp_path, monkeypatch
) -> None:
    install("acme-npu", code=MACHINE)
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("packed-1.0.dist-info/METADATA", "Name: packed\nVersion: 1.0\n")
        file.writestr(
            "packed-1.0.dist-info/entry_points.txt", "[polygrad.devices]\npacked = acme_npu:plugin"
        )
    monkeypatch.syspath_prepend(archive)

    class Finder:
        def find_spec(self, *arguments: object) -> None:
            return None

        def find_distributions(self, context: object) -> list[importlib.metadata.Distribution]:
            other = tmp_path / "elsewhere" / "other-2.0.dist-info"
            return [importlib.metadata.PathDistribution(other)]

    (tmp_path / "elsewhere" / "other-2.0.dist-info").mkdir(parents=True)
    (tmp_path / "elsewhere" / "other-2.0.dist-info" / "entry_points.txt").write_text(
        "[polygrad.devices]\nother = acme_npu:plugin\n"
    )
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    registry.refresh()
    assert {"acme", "packed", "other"} <= set(device.names())


def test_a_distribution_that_cannot_be_read_harms_no_other(install, tmp_path) -> None:
    install("acme-npu", code=MACHINE)
    info = tmp_path / "torn-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_bytes(b"[polygrad.devices]\ntorn\n")
    registry.refresh()
    assert "acme" in device.names()
    assert "'torn' has no name and value" in metadata.unreadable[str(info)]


def test_an_entry_point_must_give_a_descriptor(install) -> None:
    install("acme-npu", code="import sys as other", attribute="other")
    with pytest.raises(errors.PluginInvalid) as error:
        device.get("acme")
    assert text(error) == "acme_npu:other is a module, expected DevicePlugin."


def test_kinds_have_their_article(install) -> None:
    install("acme-npu", code="other = 5", attribute="other")
    with pytest.raises(errors.PluginInvalid, match=r"^acme_npu:other is an int, expected"):
        device.get("acme")


def test_a_descriptor_must_carry_the_name_of_its_entry_point(install) -> None:
    install("acme-npu", code=MACHINE + "\nplugin = DevicePlugin(name='npu', api=(1, 0),"
            " device='acme_npu:Machine', probe='acme_npu:probe')")  # fmt: skip
    with pytest.raises(errors.PluginInvalid) as error:
        device.get("acme")
    assert text(error) == ("acme_npu:plugin calls itself 'npu', its entry point says 'acme'.")


def test_a_reserved_name_from_a_stranger_is_refused_alone(install) -> None:
    install("evil-pkg", "0.1", name="cuda", code=MACHINE)
    with pytest.raises(errors.PluginReserved) as error:
        device.get("cuda")
    assert text(error) == (
        "evil-pkg 0.1 may not provide the device 'cuda':"
        " that name belongs to polygrad-backend-cuda."
    )


def test_a_stranger_cannot_replace_a_first_party_device(install) -> None:
    install("evil-pkg", "0.1", name="interp", code="raise SystemExit('I ran')")
    assert type(device.get("interp")).__module__ == "polygrad.device.interp"


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        ("class Machine(Device): pass", "lacks load(), open()"),
        ("class Machine: pass", "is no Device"),
        (
            "class Machine(Device):\n    @classmethod\n    def open(cls, index, options):"
            " return cls()\n    def load(self, binary): return {}",
            "lacks target, allocator, renderer, compiler",
        ),
    ],
)
def test_a_half_written_device_is_named_with_what_it_lacks(install, body, lacks) -> None:
    code = "from polygrad.plugin import Device, Probe\ndef probe(): return Probe(True)\n" + body
    install("acme-npu", code=code)
    with pytest.raises(errors.DeviceContractError) as error:
        device.get("acme")
    assert text(error) == f"Machine {lacks}; see polygrad conformance acme"


def test_a_machine_below_the_least_one_is_refused_at_open(install) -> None:
    code = MACHINE.replace("as Machine", "as Base") + (
        "\nfrom dataclasses import replace"
        "\nfrom polygrad.uop.ops import Ops"
        "\nclass Machine(Base):"
        "\n    @classmethod"
        "\n    def open(cls, index, options):"
        "\n        device = super().open(index, options)"
        "\n        ops = {k: v for k, v in device.target.ops.items() if k is not Ops.WHERE}"
        "\n        device.target = replace(device.target, ops=ops, max_buffers=3)"
        "\n        return device"
    )
    install("acme-npu", code=code)
    with pytest.raises(errors.DeviceContractError) as error:
        device.get("acme")
    assert text(error) == (
        "Machine lacks WHERE of float32, WHERE of int32, 4 buffers of one kernel;"
        " see polygrad conformance acme"
    )


# ---- switches


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("none", ["interp"]),
        ("cpu", ["cpu", "interp"]),
        ("-acme", ["cpu", "interp"]),
        ("-cpu,-acme", ["interp"]),
        ("", ["acme", "cpu", "interp"]),
    ],
)
def test_poly_plugins_says_what_may_load(install, rules, expected) -> None:
    install("acme-npu", code=MACHINE)
    with Context(POLY_PLUGINS=rules):
        assert list(device.names()) == expected


def test_a_switched_off_device_says_so(install) -> None:
    install("acme-npu", "1.2.0", code=MACHINE)
    with Context(POLY_PLUGINS="-acme"), pytest.raises(errors.DeviceUnavailable) as error:
        device.get("acme")
    assert text(error) == ("device 'acme' (acme-npu 1.2.0) is switched off by POLY_PLUGINS=-acme.")


def test_a_descriptor_can_be_registered_in_code() -> None:
    acme = plugin.DevicePlugin(
        name="acme",
        api=(1, 0),
        device="polygrad.device.interp:InterpDevice",
        probe="polygrad.device.interp_plugin:probe",
    )
    with isolated_registry(acme):
        assert device.names() == ("acme",)
        assert device.get("acme").name == "acme"
    assert "acme" not in device.names()


def test_a_static_module_registers_in_a_new_process(install, tmp_path) -> None:
    install("acme-npu", name="other", code=MACHINE)
    (tmp_path / "frozen.py").write_text(
        "import acme_npu, polygrad.plugin as p\n"
        "def hook():\n"
        "    p.register(p.DevicePlugin(name='frozen', api=(1, 0), device='acme_npu:Machine',"
        " probe='acme_npu:probe'))\n"
    )
    out = _python(
        "from polygrad import device; print(device.get('frozen').name)",
        PYTHONPATH=str(tmp_path),
        POLY_PLUGIN_STATIC="frozen:hook",
    )
    assert out == "frozen"


# ---- the choice


def test_dev_is_read_when_poly_dev_is_not_set(monkeypatch) -> None:
    monkeypatch.setenv("DEV", "INTERP")
    monkeypatch.delenv("POLY_DEV", raising=False)
    assert device.default() == "interp"
    monkeypatch.setenv("POLY_DEV", "interp:1")
    assert device.default() == "interp:1"


def test_several_devices_are_all_chosen_in_order() -> None:
    with Context(POLY_DEV="interp:1,interp"):
        assert device.chosen() == ("interp:1", "interp")


def test_a_stranger_is_chosen_by_auto_only_if_the_user_lists_it(install) -> None:
    install("acme-npu", code=MACHINE)
    with Context(POLY_DEV="auto"):
        assert device.default() == "cpu"
    with Context(POLY_DEV="auto", POLY_DEV_ORDER="acme,interp"):
        assert device.default() == "acme"


def test_a_better_device_that_is_broken_is_worth_one_warning(install) -> None:
    install("acme-npu", code=ABSENT)
    with Context(POLY_DEV="auto", POLY_DEV_ORDER="acme,interp"):
        with pytest.warns(errors.DeviceFallbackWarning) as caught:
            assert device.default() == "interp"
        assert device.default() == "interp"
    (warning,) = caught
    assert str(warning.message) == (
        "using 'interp': 'acme' is installed but failed (libacme.so.3 not found)."
        " POLY_DEV=interp silences this; polygrad doctor explains it."
    )
    assert warning.filename == __file__


def test_strict_makes_that_warning_an_error(install) -> None:
    install("acme-npu", code=ABSENT)
    with Context(POLY_DEV="auto", POLY_DEV_ORDER="acme,interp", POLY_STRICT=1):
        with pytest.raises(errors.DeviceUnavailable) as error:
            device.default()
    assert text(error) == (
        "'acme' is installed but failed (libacme.so.3 not found). POLY_STRICT=1 allows no fallback"
        " to 'interp'; POLY_DEV=interp chooses it. See: polygrad doctor"
    )


def test_a_machine_without_the_hardware_is_skipped_in_silence(install) -> None:
    install("acme-npu", code=ABSENT.replace("False, ", "False, hardware=False, "))
    with Context(POLY_DEV="auto", POLY_DEV_ORDER="acme,interp"):
        assert device.default() == "interp"


def test_nothing_that_works_is_an_error(install) -> None:
    with Context(POLY_DEV="auto", POLY_DEV_ORDER="cuda"):
        with pytest.raises(errors.DeviceUnavailable) as error:
            device.default()
    assert text(error) == (
        "none of POLY_DEV_ORDER=cuda works here. Installed: cpu, interp. See: polygrad devices"
    )


@pytest.mark.parametrize(
    ("setting", "rules", "name", "hint"),
    [
        ("POLY_PLUGINS", "bogus", "bogus", ""),
        ("POLY_PLUGINS", "-acne,-cpu", "acne", " Did you mean 'acme'?"),
        ("POLY_PLUGIN_PREFER", "acne=acme-npu", "acne", " Did you mean 'acme'?"),
        ("POLY_DEV_ORDER", "cudda,cuda,interp", "cudda", " Did you mean 'cuda'?"),
    ],
)
def test_a_name_that_no_package_offers_is_warned_of_once(
    install, monkeypatch, setting, rules, name, hint
) -> None:
    install("acme-npu", code=MACHINE)
    monkeypatch.setattr(settings, "_warned", set())
    for _ in range(2):
        registry.refresh()
        with Context(**{setting: rules}), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            device.default()
        if not _:
            assert [(str(w.message), w.filename) for w in caught] == [
                (f"{setting} names {name!r}, which no package offers.{hint} See: polygrad devices",
                 __file__)
            ]  # fmt: skip
    assert not caught


def test_names_that_are_known_are_not_warned_of(install) -> None:
    """Packages of ours that are not installed; none; and those that are."""
    install("acme-npu", code=MACHINE)
    with Context(POLY_PLUGINS="none,-onnx,-acme", POLY_DEV_ORDER="cuda,webgpu,cpu,interp"):
        assert device.default() == "interp"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes are of Python 3.11")
def test_a_traceback_setting_that_cannot_be_read_is_told(monkeypatch) -> None:
    """By whoever asks for a device; before that, below the error that is on its way."""
    message = "POLY_TRACEBACK=ful cannot be read: expected short or full."
    monkeypatch.setenv("POLY_TRACEBACK", "ful")
    with pytest.raises(errors.ArgumentError) as error:
        Tensor(1.0, device="cpu:x")
    assert error.value.__notes__ == [message]
    registry.refresh()
    with pytest.raises(errors.SettingError) as wrong:
        device.default()
    assert text(wrong) == message
    assert not hasattr(wrong.value, "__notes__")


def test_an_unknown_setting_is_warned_of_once(monkeypatch) -> None:
    monkeypatch.setenv("POLY_DEVICE", "cpu")
    registry.refresh()
    with pytest.warns(errors.SettingWarning) as caught:
        device.default()
    assert [str(w.message) for w in caught] == [
        "POLY_DEVICE is not a setting of polygrad. Did you mean 'POLY_DEV'?"
    ]


# ---- threads and processes


def test_threads_that_ask_at_once_get_one_device() -> None:
    with device.isolated(), ThreadPoolExecutor(8) as pool:
        start = threading.Barrier(8)

        def ask(_: int) -> int:
            start.wait()
            return id(device.get("interp:5"))

        assert len(set(pool.map(ask, range(8)))) == 1


def test_a_device_that_failed_to_open_can_be_tried_again(install, tmp_path) -> None:
    flag = tmp_path / "plugged"
    code = MACHINE.replace("as Machine", "as Base") + (
        "\nimport pathlib"
        "\nclass Machine(Base):"
        "\n    @classmethod"
        "\n    def open(cls, index, options):"
        f"\n        if not pathlib.Path({str(flag)!r}).exists(): raise OSError('unplugged')"
        "\n        return super().open(index, options)"
    )
    install("acme-npu", code=code)
    with pytest.raises(errors.DeviceUnavailable):
        device.get("acme")
    flag.touch()
    assert device.get("acme").name == "acme"


def test_a_device_survives_pickling_by_name() -> None:
    opened = device.get("interp")
    assert pickle.loads(pickle.dumps(opened)) is opened


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_device_opened_before_a_fork_is_refused_in_the_child() -> None:
    device.get("interp")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            device.get("interp")
            os.write(write, b"no error")
        except errors.DeviceForked as error:
            os.write(write, f"{os.getpid()} {error}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    said = os.read(read, 4096).decode()
    assert said == (
        f"{child} device 'interp:0' was opened in process {os.getpid()} and used in its fork"
        f' {child}. Use multiprocessing.get_context("spawn").'
    )
    assert device.get("interp").forked == 0


def test_a_spawned_process_opens_the_device_by_name() -> None:
    device.get("interp")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(device.default) == device.default()


def _python(code: str, **environment: str) -> str:
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
