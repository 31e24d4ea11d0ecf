"""`python -m polygrad.cli.ask NAME`: probe one device, print one line of JSON.

Run by `polygrad devices` as a child process, so that a probe which hangs or crashes ends only it.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from .. import registry
from ..device.naming import probe
from ..errors import PolygradError


def answer(name: str) -> dict[str, Any]:
    try:
        record = registry.find(registry.DEVICES, name)
    except PolygradError as error:
        return {"state": "broken", "reason": str(error)}
    assert record is not None and record.descriptor is not None, name
    start = time.perf_counter()
    found = probe(record)
    return {
        "state": "ok" if found.ok else "unavailable",
        "count": found.count,
        "arch": found.arch,
        "reason": ". Hint: ".join(filter(None, (found.detail, found.hint))),
        "summary": record.descriptor.summary,
        "descriptor_ms": round(record.load_ms, 3),
        "probe_ms": round((time.perf_counter() - start) * 1e3, 3),
    }


if __name__ == "__main__":
    print("\n" + json.dumps(answer(sys.argv[1])))
