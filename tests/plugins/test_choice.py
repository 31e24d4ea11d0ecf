"""Which devices may load, and which of them is taken where none is named."""

from __future__ import annotations

import sys
import warnings

import pytest

from polygrad import Context, Tensor, device, errors, plugin, registry, settings
from polygrad.testing import isolated_registry

from .strangers import ABSENT, MACHINE, python, text

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
    out = python(
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
