"""Code that is made quickly: plain, by one machine of LLVM for all of it."""

from __future__ import annotations

import pytest

from polygrad import Context
from polygrad_backend_cpu.compile import LlvmCompiler

TEXT = "define void @f() {\n  ret void\n}\n"


def test_quick_code_has_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, made = LlvmCompiler(), []
    create = LlvmCompiler._create
    monkeypatch.setattr(
        LlvmCompiler, "_create", lambda self, level: made.append(level) or create(self, level)
    )
    with Context(POLY_CACHE=0):
        assert compiler.quickly(TEXT) == compiler.quickly(TEXT)
    assert made == [0]
