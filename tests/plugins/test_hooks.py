"""Packages with hooks: who is called, in which order, and what a bad one does to the others."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from polygrad import Context, Model, Tensor, device, errors, hooks, nn, plugin, registry
from polygrad.hooks import hookimpl, installed
from polygrad.testing import isolated_registry
from polygrad.uop.ops import Ops
from polygrad.uop.rewrite import Rules

HEAD = "from polygrad.hooks import hookimpl\n"
GROUP = "polygrad.plugins"


def text(error: pytest.ExceptionInfo[errors.PolygradError]) -> str:
    return str(error.value)


@pytest.fixture
def add(install):
    """`add("acme", body)`: a distribution `acme-hooks` 1.2 whose module is the plugin `acme`."""

    def add(name: str, body: str) -> None:
        install(f"{name}-hooks", "1.2", name, HEAD + body, group=GROUP, attribute="hooks")
        module = f"{name}_hooks"
        path = Path(sys.path[0]) / f"{module}.py"
        path.write_text(path.read_text() + "\nimport sys\nhooks = sys.modules[__name__]\n")
        registry.refresh()

    return add


def said(caught) -> list[str]:
    return [str(w.message) for w in caught]


# ---- who loads pluggy


def _modules(code: str, **environment: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code + "\nimport sys; print(*sys.modules)"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_nobody_with_hooks_needs_no_pluggy() -> None:
    loaded = _modules("from polygrad import Tensor; (Tensor([1.0]) + 1).tolist()")
    assert "polygrad.hooks.installed" in loaded
    assert not loaded & {"pluggy", "polygrad.hooks.specs", "polygrad.hooks.manager"}


# ---- registration


def test_each_plugin_is_configured_once_late_ones_too() -> None:
    seen = []

    class Plugin:
        @hookimpl
        def polygrad_configure(self, config):
            seen.append((config.version, config.api))

    with isolated_registry():
        hooks.register(Plugin(), "one")
        hooks.register(Plugin(), "two")
        installed.current()
    assert seen == [("0.1.0", plugin.API)] * 2


def test_a_name_is_registered_once() -> None:
    with isolated_registry():
        hooks.register(object(), "one")
        with pytest.raises(
            errors.ArgumentError, match="a plugin named 'one' is registered already"
        ):
            hooks.register(object(), "one")
        hooks.unregister("one")
        with pytest.raises(errors.ArgumentError, match="no plugin named 'one' was registered"):
            hooks.unregister("one")


def test_a_misspelt_hook_is_an_error_with_the_nearest_name() -> None:
    class Plugin:
        @hookimpl
        def polygrad_program_run(self, event): ...

    with isolated_registry():
        with pytest.raises(errors.PluginInvalid) as error:
            hooks.register(Plugin(), "one")
        assert text(error) == (
            "Plugin implements polygrad_program_run, which is no hook. Did you mean"
            " 'polygrad_program_ran'? Needed by registered; disable it: POLY_PLUGINS=-one"
        )
        assert not installed.has("polygrad_program_ran")
        hooks.register(object(), "one")  # the name is free, and the next one is not blamed


def test_an_argument_that_no_hook_has_is_told() -> None:
    class Plugin:
        @hookimpl
        def polygrad_program_ran(self, events): ...

    with isolated_registry(), pytest.raises(errors.PluginInvalid) as error:
        hooks.register(Plugin(), "one")
    assert text(error) == "Plugin: polygrad_program_ran takes 'events'; it can take event."


def test_a_wrapper_is_refused() -> None:
    class Plugin:
        @hookimpl(wrapper=True)
        def polygrad_report(self):
            return (yield)

    with isolated_registry(), pytest.raises(errors.PluginInvalid, match="polygrad_report is a wra"):
        hooks.register(Plugin(), "one")


def test_a_plugin_that_fails_to_start_is_not_there() -> None:
    class Plugin:
        @hookimpl
        def polygrad_configure(self, config):
            raise OSError("no licence")

        @hookimpl
        def polygrad_report(self):
            return {}

    with isolated_registry():
        with pytest.raises(errors.PluginLoadError, match="failed to start: OSError: no licence"):
            hooks.register(Plugin(), "one")
        assert not installed.has("polygrad_report")


# ---- installed packages


def test_an_installed_plugin_is_called(add) -> None:
    add("acme", "@hookimpl\ndef polygrad_report(): return {'acme': '7'}")
    assert [answer for _, answer in installed.answers("polygrad_report")] == [{"acme": "7"}]


def test_plugins_are_called_in_the_order_of_their_names(add) -> None:
    for name in ("beta", "alpha", "gamma"):
        add(name, f"@hookimpl\ndef polygrad_report(): return {{'name': '{name}'}}")
    order = [record.name for record, _ in installed.answers("polygrad_report")]
    assert order == ["alpha", "beta", "gamma"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ImportError('libacme.so.3')",
         "plugin 'acme' (acme-hooks 1.2, acme_hooks:hooks) failed to load: ImportError:"
         " libacme.so.3. Disable: POLY_PLUGINS=-acme"),
        ("raise SystemExit(3)",
         "plugin 'acme' (acme-hooks 1.2, acme_hooks:hooks) failed to load: SystemExit: 3."
         " Disable: POLY_PLUGINS=-acme"),
        ("api = (9, 0)",
         "acme-hooks 1.2 needs plugin API 9.0; polygrad-core 0.1.0 offers 1.0."
         ' Run: pip install -U polygrad-core, or pip install "acme-hooks<1.2".'),
        ("api = 'new'", "acme_hooks:hooks says api='new', expected two integers, as (1, 0)."),
        ("name = 'npu'", "acme_hooks:hooks calls itself 'npu', its entry point says 'acme'."),
        ("@hookimpl\ndef polygrad_reprot(): ...",
         "acme_hooks:hooks implements polygrad_reprot, which is no hook. Did you mean"
         " 'polygrad_report'? Needed by acme-hooks 1.2; disable it: POLY_PLUGINS=-acme"),
    ],
)  # fmt: skip
def test_a_bad_package_is_warned_of_once_and_harms_nobody(add, body, message) -> None:
    add("good", "@hookimpl\ndef polygrad_report(): return {}")
    add("acme", body)
    with pytest.warns(errors.PluginWarning) as caught:
        assert (Tensor([1.0, 2.0]) * 3).tolist() == [3.0, 6.0]
    assert said(caught) == [message]
    assert [r.name for r, _ in installed.answers("polygrad_report")] == ["good"]


def test_a_plugin_is_switched_off_by_its_name(add) -> None:
    add("acme", "raise SystemExit('I ran')")
    with Context(POLY_PLUGINS="-acme"):
        assert installed.current() is None
    with Context(POLY_PLUGINS="none"):
        assert installed.current() is None


def test_a_question_that_fails_is_told_with_the_package(add) -> None:
    add("acme", "@hookimpl\ndef polygrad_report(): return int('x')")
    with pytest.raises(errors.PluginError) as error:
        list(installed.answers("polygrad_report"))
    assert text(error) == (
        "polygrad_report of 'acme' (acme-hooks 1.2) failed: ValueError: invalid literal for int()"
        " with base 10: 'x'. Disable: POLY_PLUGINS=-acme"
    )
    assert isinstance(error.value.__cause__, ValueError)


def test_a_plugin_of_an_older_api_is_warned_of(add, monkeypatch) -> None:
    monkeypatch.setattr(plugin, "API", (2, 0))
    monkeypatch.setattr(plugin, "SUPPORTED", {1: 3, 2: 0})
    add("acme", "api = (1, 2)")
    with pytest.warns(errors.PluginApiDeprecated) as caught:
        assert list(installed.current().records) == ["acme"]
    assert said(caught) == [
        "acme-hooks 1.2 uses plugin API 1.2, which a later polygrad-core will not offer; this one"
        " offers 2.0 as well. Ask its authors for a newer release."
    ]


# ---- the questions


def choosing(answer):
    class Plugin:
        seen = None

        @hookimpl
        def polygrad_select_device(self, requested, candidates):
            self.seen = requested, [c.name for c in candidates]
            return answer

    return Plugin()


def test_a_plugin_may_choose_among_the_devices_that_work() -> None:
    chooser = choosing("interp")
    hooks.register(chooser, "chooser")
    try:
        registry.refresh()
        with Context(POLY_DEV="auto"):
            assert device.default() == "interp"
        assert chooser.seen == ("auto", ["cpu", "interp"])
        registry.refresh()
        with Context(POLY_DEV="cpu"):  # an explicit name is nobody's to change
            assert device.default() == "cpu"
    finally:
        hooks.unregister("chooser")
        registry.refresh()


def test_a_choice_that_does_not_work_is_refused() -> None:
    hooks.register(choosing("cuda"), "chooser")
    try:
        registry.refresh()
        with Context(POLY_DEV="auto"), pytest.raises(errors.PluginInvalid) as error:
            device.default()
    finally:
        hooks.unregister("chooser")
        registry.refresh()
    assert text(error) == (
        "polygrad_select_device of 'chooser' (registered) chose 'cuda', which is none of cpu,"
        " interp. Disable: POLY_PLUGINS=-chooser"
    )


class Addressing:
    def __init__(self, found):
        self.found = found

    @hookimpl
    def polygrad_resolve_source(self, uri):
        return self.found if uri == "hub:net" else None


def test_a_plugin_finds_the_file_behind_an_address(tmp_path) -> None:
    model = Model(nn.Linear(2, 1), inputs={"x": Tensor.empty(1, 2)})
    model.save(tmp_path / "net.pgb")
    with isolated_hook(Addressing(tmp_path / "net.pgb")):
        assert set(Model.load("hub:net").state_dict()) == {"weight", "bias"}
        with pytest.raises(errors.FileMissing, match="hub:other"):
            Model.load("hub:other")
    with pytest.raises(errors.FileMissing, match="hub:net"):
        Model.load("hub:net")


def test_an_address_that_becomes_no_path_is_refused() -> None:
    with isolated_hook(Addressing(5)), pytest.raises(errors.PluginInvalid) as error:
        Model.load("hub:net")
    assert text(error) == (
        "polygrad_resolve_source of 'test' (registered) gave int, expected a path or None."
        " Disable: POLY_PLUGINS=-test"
    )


class isolated_hook:
    def __init__(self, plugin):
        self.plugin = plugin

    def __enter__(self):
        hooks.register(self.plugin, "test")
        return self.plugin

    def __exit__(self, *_):
        hooks.unregister("test")


def test_rules_of_a_plugin_change_kernels_while_it_is_there(device) -> None:
    """A wrong rule shows, and is gone with its plugin."""
    rules = Rules()
    asked = []

    @rules.on(Ops.SIN)
    def wrong(u):
        return u.src[0] * 0.0 + 0.5

    class Plugin:
        @hookimpl
        def polygrad_rewrite_rules(self, stage, target):
            asked.append((stage, target.name))
            return rules

    def sine(n):
        return Tensor([1.0] * n).sin().tolist()

    assert sine(3) == pytest.approx([0.841471] * 3)
    with isolated_hook(Plugin()):
        assert sine(3) == [0.5] * 3
        assert sine(6) == [0.5] * 6
    assert sine(6) == pytest.approx([0.841471] * 6)
    assert asked == [("kernel", device)]


def test_rules_of_another_kind_are_refused() -> None:
    class Plugin:
        @hookimpl
        def polygrad_rewrite_rules(self):
            return {}

    with isolated_hook(Plugin()), pytest.raises(errors.PluginInvalid, match="gave dict, expected"):
        Tensor([1.0] * 11).exp().tolist()
    assert Tensor([0.0] * 11).exp().tolist() == [1.0] * 11


# ---- observers


class Watching:
    def __init__(self):
        self.ran, self.compiled = [], []

    @hookimpl
    def polygrad_program_ran(self, event):
        self.ran.append(event)

    @hookimpl
    def polygrad_kernel_compiled(self, event):
        self.compiled.append(event)


def test_every_launch_and_every_compilation_is_told(device) -> None:
    from polygrad import stats

    with isolated_hook(Watching()) as watching:
        before = stats()["launches"]
        x = Tensor.rand(37, 41)
        (x @ x.T).softmax(1).sum().item()
        launched = stats()["launches"] - before
    assert len(watching.ran) == launched > 1
    names = {name for event in watching.compiled for name in event.programs}
    assert {event.program for event in watching.ran} <= names
    assert all(e.device == device and e.seconds >= 0 for e in watching.ran)
    assert any(e.flops >= 37 * 37 * 41 for e in watching.ran)


def test_an_observer_sees_what_was_compiled_before_it_came(device) -> None:
    from polygrad import jit

    @jit
    def step(x):
        return (x * 2 + 1).sum(0)

    x = Tensor.rand(5, 7).realize()
    expected = [step(x).tolist() for _ in range(3)][-1]
    with isolated_hook(Watching()) as watching:
        assert step(x).tolist() == expected
        assert watching.ran
    seen = len(watching.ran)
    assert step(x).tolist() == expected
    assert len(watching.ran) == seen


def test_an_observer_that_fails_is_told_of_once_and_unplugged(device) -> None:
    class Failing:
        @hookimpl
        def polygrad_program_ran(self, event):
            raise SystemExit("disk full")

    with isolated_hook(Watching()) as watching:
        hooks.register(Failing(), "failing")
        try:
            with pytest.warns(errors.PluginWarning) as caught:
                assert (Tensor([1.0, 2.0, 4.0]) * 3).tolist() == [3.0, 6.0, 12.0]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert (Tensor([1.0, 2.0, 5.0]) * 3).tolist() == [3.0, 6.0, 15.0]
        finally:
            hooks.unregister("failing")
    assert said(caught) == [
        "polygrad_program_ran of 'failing' (registered) failed: SystemExit: disk full. This plugin"
        " is not called again. Disable: POLY_PLUGINS=-failing"
    ]
    assert len(watching.ran) == 2


def calls_of(function) -> list[str]:
    """The Python functions that a call of `function` calls, in order, by file and name."""
    seen: list[str] = []

    def note(frame, event, _):
        if event == "call":
            seen.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen


def test_without_observers_a_run_calls_nothing_more(device) -> None:
    """The device's own executable is called, and no function of the hooks or of pieces.py; after
    an observer has come and gone it is so again."""
    from polygrad import jit
    from polygrad.engine import pieces

    @jit
    def step(x):
        return x * 2 + 1

    x = Tensor.rand(6).realize()
    for _ in range(3):
        step(x)
    plain = calls_of(lambda: step(x))
    files = {call.partition(":")[0] for call in plain}
    ours = {"pieces.py", *(p.name for p in Path(hooks.__file__).parent.glob("*.py"))}
    assert not files & (ours - {"__init__.py"})
    with isolated_hook(Watching()):
        step(x)
        assert "pieces.py" in {c.partition(":")[0] for c in calls_of(lambda: step(x))}
    step(x)
    assert calls_of(lambda: step(x)) == plain
    prepared = [s.executable for s in pieces._prepared if s.executable is not None]
    assert prepared
    assert not [e for e in prepared if isinstance(e, pieces.Observed | pieces.Mixed)]
