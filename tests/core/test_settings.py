"""Settings: one typed table, read from the environment or set by a Context."""

from __future__ import annotations

import threading

import pytest

from polygrad import Context, errors, getenv, settings


def test_a_setting_has_its_default(monkeypatch) -> None:
    monkeypatch.delenv("POLY_THREADS", raising=False)
    assert settings.get("POLY_THREADS") == 0


def test_the_environment_is_read_at_each_call(monkeypatch) -> None:
    monkeypatch.setenv("POLY_THREADS", "3")
    assert settings.get("POLY_THREADS") == 3
    monkeypatch.setenv("POLY_THREADS", "4")
    assert settings.get("POLY_THREADS") == 4


def test_a_context_wins_and_ends(monkeypatch) -> None:
    monkeypatch.setenv("POLY_THREADS", "3")
    with Context(POLY_THREADS=5):
        with Context(POLY_THREADS=6):
            assert settings.get("POLY_THREADS") == 6
        assert settings.get("POLY_THREADS") == 5
    assert settings.get("POLY_THREADS") == 3


def test_one_context_can_be_entered_again() -> None:
    training = Context(TRAINING=1)
    with training, training:
        assert settings.get("TRAINING") is True
    assert settings.get("TRAINING") is False


def test_a_context_belongs_to_its_thread() -> None:
    seen = []
    with Context(TRAINING=1):
        thread = threading.Thread(target=lambda: seen.append(settings.get("TRAINING")))
        thread.start()
        thread.join()
    assert seen == [False]


def test_a_context_value_is_not_read_from_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("TRAINING", "1")
    assert settings.get("TRAINING") is False


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("POLY_STRICT", "on", True),
        ("POLY_STRICT", "0", False),
        ("POLY_DEV", " CUDA:1 ", "cuda:1"),
        ("POLY_DEV_ORDER", "cpu, interp,", ("cpu", "interp")),
        ("POLY_PLUGIN_PREFER", "acme=Acme-NPU", (("acme", "Acme-NPU"),)),
        ("POLY_CACHE_DIR", "/tmp/Here", "/tmp/Here"),
        ("POLY_TRACEBACK", "FULL", "full"),
    ],
)
def test_a_value_is_read_by_its_type(monkeypatch, name, text, value) -> None:
    monkeypatch.setenv(name, text)
    assert settings.get(name) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("POLY_STRICT", "maybe", "POLY_STRICT=maybe cannot be read: expected 1 or 0."),
        ("POLY_THREADS", "two", "POLY_THREADS=two cannot be read: expected a whole number."),
        (
            "POLY_THREADS",
            "-1",
            "POLY_THREADS=-1 cannot be read: expected a whole number, 0 or more.",
        ),
        (
            "POLY_TRACEBACK",
            "long",
            "POLY_TRACEBACK=long cannot be read: expected short or full.",
        ),
        (
            "POLY_PLUGIN_PREFER",
            "acme",
            "POLY_PLUGIN_PREFER=acme cannot be read:"
            " expected NAME=PACKAGE, several separated by commas.",
        ),
    ],
)
def test_an_unreadable_value_is_an_error_that_names_it(monkeypatch, name, text, message) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(errors.SettingError) as from_environment:
        settings.get(name)
    with pytest.raises(errors.SettingError) as from_context:
        Context(**{name: text})
    assert str(from_environment.value) == str(from_context.value) == message


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(errors.UnknownName) as error:
        Context(TRAININ=1)
    assert str(error.value) == "no setting named 'TRAININ'. Did you mean 'TRAINING'?"


def test_a_child_process_is_told_what_contexts_set() -> None:
    with Context(POLY_PLUGINS="cpu,-acme", POLY_STRICT=True, TRAINING=1):
        child = settings.for_child()
    assert child["POLY_PLUGINS"] == "cpu,-acme"
    assert child["POLY_STRICT"] == "1"
    assert "TRAINING" not in child


def test_getenv_reads_as_the_default_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_NUMBER", "3")
    assert getenv("MY_NUMBER", 1) == 3
    assert getenv("MY_NUMBER", 1.0) == 3.0
    assert getenv("MY_NUMBER", "") == "3"
    assert getenv("MY_OTHER", "x") == "x"
    monkeypatch.setenv("MY_NUMBER", "three")
    with pytest.raises(errors.SettingError, match="MY_NUMBER=three cannot be read: expected int"):
        getenv("MY_NUMBER", 1)
    with Context(POLY_FUSION=0):
        assert getenv("POLY_FUSION") is False
