"""How much a file may ask for, before a byte of it is believed.

Every reader takes one `Limits` object. Sizes are checked against the file's own length first (a
declared size larger than the file is refused whatever the limits say); the limits bound what is
left: memory for headers, counts, nesting.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds for readers; raise one with `Limits(nodes=10_000_000)`."""

    header_bytes: int = 100 << 20  # of a safetensors header, a manifest
    graph_bytes: int = 1 << 30  # of graph.json
    members: int = 4096  # of an archive
    name_bytes: int = 1024  # of any name inside a file
    tensors: int = 1_000_000
    nodes: int = 4_000_000  # of a graph
    nesting: int = 64  # of JSON
    rank: int = 64
    elements: int = 1 << 48  # of one tensor


DEFAULT = Limits()
