"""The checks of mistakes stand in a module that is no test: pytest shall show their values too."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(f"{__package__}.mistake")
