"""How a device's name becomes a device, and every text when it does not."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from polygrad import Context, Tensor, device, errors, registry

from .strangers import ABSENT, MACHINE, python, text

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
    out = python(
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


@pytest.mark.parametrize("name", ["UPPER", "a-b", "a.b", "a:b", "9x", "_x", "auto", "none", "é"])
def test_a_name_that_nobody_could_ask_for_is_told(install, name) -> None:
    install("acme-npu", "1.2", name=name, code="raise SystemExit('I ran')")
    assert name not in device.names()
    with pytest.raises(errors.PluginInvalid) as error:
        registry.find(registry.DEVICES, name)
    assert text(error) == (
        f"acme-npu 1.2 offers a device {name!r} (acme_npu:plugin): a name is lower-case letters,"
        " digits and '_', a letter first, not auto or none."
    )


ALIASED = MACHINE + "\nfrom dataclasses import replace\nplugin = replace(plugin, aliases={})"


def test_an_alias_of_two_devices_is_a_conflict(install) -> None:
    for name in ("one", "two"):
        code = ALIASED.format(("both", "cuda"))
        install(f"{name}-npu", name=name, code=code)
    with pytest.raises(errors.PluginConflict) as error:
        device.get("both")
    assert text(error) == (
        "'both' is another name of several devices: 'one' (one-npu 1.0), 'two' (two-npu 1.0). Use"
        " the name of one."
    )
    with pytest.raises(errors.DeviceNotInstalled):  # a name of ours is nobody's alias
        device.get("cuda")


def test_a_stranger_cannot_replace_a_first_party_device(install) -> None:
    install("evil-pkg", "0.1", name="interp", code="raise SystemExit('I ran')")
    assert type(device.get("interp")).__module__ == "polygrad.device.interp"


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        (
            "class Machine(Device): pass",
            "Machine lacks load(), open(); polygrad/plugin.py says what each must do.",
        ),
        ("class Machine: pass", "Machine is no subclass of polygrad.plugin.Device."),
        (
            "class Machine(Device):\n    @classmethod\n    def open(cls, index, options):"
            " return cls()\n    def load(self, binary): return {}",
            "open() gave a Machine without target, allocator, renderer, compiler.",
        ),
        (
            "class Machine(Device):\n    @classmethod\n    def open(cls, index, options):"
            " return 5\n    def load(self, binary): return {}",
            "open() gave an int, expected a Device.",
        ),
    ],
)
def test_a_half_written_device_is_named_with_what_it_lacks(install, body, lacks) -> None:
    code = "from polygrad.plugin import Device, Probe\ndef probe(): return Probe(True)\n" + body
    install("acme-npu", code=code)
    with pytest.raises(errors.DeviceContractError) as error:
        device.get("acme")
    assert text(error) == f"device 'acme' (acme-npu 1.0): {lacks}"


def machine_with(target: str) -> str:
    """A device that works but for its Target, an expression of the `target` that it should have."""
    return MACHINE.replace("as Machine", "as Base") + (
        "\nfrom dataclasses import replace"
        "\nfrom polygrad.dtype import dtypes"
        "\nfrom polygrad.uop.ops import Ops"
        "\nclass Machine(Base):"
        "\n    @classmethod"
        "\n    def open(cls, index, options):"
        "\n        device = super().open(index, options)"
        "\n        target = device.target"
        f"\n        device.target = {target}"
        "\n        return device"
    )


LESS = {
    "numbers": (
        "replace(target, max_buffers=3, align=12)",
        "max_buffers is 3; it must be at least 4; align is 12; it must be a power of two",
    ),
    "an operation": (
        "replace(target, ops={k: v for k, v in target.ops.items() if k is not Ops.DIV})",
        "ops lacks DIV of float32, float64",
    ),
    "half of the long integers": (
        "replace(target, ops={k: v - {dtypes.uint64} for k, v in target.ops.items()})",
        "ops lacks LOAD of uint64; ops lacks STORE of uint64",
    ),
    "vectors without widths": (
        "replace(target, vector_bytes=4, memory_bytes=(4,), ops={**target.ops, Ops.LANES:"
        " target.ops[Ops.ADD]})",
        "memory_bytes is (4,); it must be every power of two from 1 to vector_bytes, where there"
        " are vectors",
    ),
    "vectors that cannot be added up": (
        "replace(target, vector_bytes=2, memory_bytes=(1, 2))",
        "ops lacks LANES of int8, uint8, int16, uint16, int32, uint32, int64, uint64, float32,"
        " float64",
    ),
    "a word for what is exact": (
        "replace(target, exact=frozenset({'nans'}))",
        "exact is frozenset({'nans'}); it must be some of inf_literal, nan, no_contract, subnormal",
    ),
    "no views": (
        "replace(target, views=False)",
        "views is False; it must be True unless the Device overrides prepare(), since the one it"
        " inherits makes views of the arena",
    ),
    "fields of another type": (
        "replace(target, cores=None)",
        "a field has another type than it should: TypeError: '>=' not supported between instances"
        " of 'NoneType' and 'int'",
    ),
}


@pytest.mark.parametrize("less", LESS)
def test_a_machine_below_the_least_one_is_refused_at_open(install, less) -> None:
    target, problems = LESS[less]
    install("acme-npu", code=machine_with(target))
    with pytest.raises(errors.DeviceContractError) as error:
        device.get("acme")
    first, last = text(error).split("\n")
    assert first.startswith(f"device 'acme' (acme-npu 1.0): its Target cannot work: {problems}")
    assert last == "docs/new-backend.md lists what every machine must have."


def test_a_part_of_another_type_is_told(install) -> None:
    install("acme-npu", code=machine_with("None"))
    with pytest.raises(errors.DeviceContractError) as error:
        device.get("acme")
    assert text(error) == (
        "device 'acme' (acme-npu 1.0): target of Machine is a NoneType, expected a polygrad Target."
    )


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
