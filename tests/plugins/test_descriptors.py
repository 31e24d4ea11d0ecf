"""What a descriptor and a probe may hold is looked at where they are made."""

from __future__ import annotations

import pytest

from polygrad import plugin

FIELDS = {
    "device": (5, "text of the form 'package.module:attribute'"),
    "probe": ("no_colon", "text of the form 'package.module:attribute'"),
    "cross": ("no_colon", "text of the form 'package.module:attribute'"),
    "name": (None, "text"),
    "summary": (b"x", "text"),
    "aliases": ("acme2", "a tuple of texts"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_descriptor_of_wrong_fields_is_refused_where_it_is_made(field) -> None:
    fine = {"name": "acme", "api": (1, 0), "device": "a:B", "probe": "a:b"}
    value, expected = FIELDS[field]
    with pytest.raises(TypeError) as error:
        plugin.DevicePlugin(**(fine | {field: value}))
    assert str(error.value) == f"DevicePlugin.{field} is {value!r}, expected {expected}"


def test_formats_and_probes_are_looked_at_as_well() -> None:
    with pytest.raises(TypeError, match=r"FormatPlugin.magic is .* a tuple of \(offset, bytes\)"):
        plugin.FormatPlugin(name="x", api=(1, 0), reader="a:b", magic=((0, "PK"),))
    plugin.FormatPlugin(name="x", api=(1, 0), reader="a:b", magic=((0, b"PK"),), writer=None)
    for wrong in ({"ok": "yes"}, {"count": -1}, {"count": True}, {"arch": 5}, {"detail": None}):
        with pytest.raises(TypeError, match=f"Probe.{next(iter(wrong))} is "):
            plugin.Probe(**({"ok": True} | wrong))
