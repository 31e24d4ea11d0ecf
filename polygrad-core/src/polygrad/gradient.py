"""Gradients: a walk from roots to the nodes whose gradients are wanted.

Floor: gradient, above uop and below tensor. In: roots, what flows into them, and targets. Out: one
node per target. What an op hands on to its sources says `gradient_rules.py`; rules build ordinary
nodes, so second and higher derivatives need nothing more. Nothing here recurses: graphs may be of
any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .gradient_rules import CALLS, Joint, filled, rules_of
from .uop.ops import Ops, UOp, toposort
from .uop.provenance import hand_on


def gradient(root: UOp, targets: Sequence[UOp], seed: UOp | None = None) -> list[UOp]:
    """The gradient of `root` times `seed` (of its shape and dtype; ones by default) for each
    target.

    A target that the root does not depend on gets zeros. Raises GradientError where a node on the
    way has a derivative that nobody wrote down.
    """
    found = flows({root: seed}, targets)
    return [filled(t, 0) if g is None else g for t, g in zip(targets, found, strict=True)]


def flows(
    seeds: Mapping[UOp, UOp | None], targets: Sequence[UOp], *, through: bool = True
) -> list[UOp | None]:
    """As `gradient`, for roots with what flows into each, but None for a target that nothing flows
    to. Without `through`, gradients end at targets: what lies below one gets nothing through it."""
    ends = frozenset() if through else frozenset(targets)
    order = between(list(seeds), targets, ends)
    active = set(order)
    flowing = {r: filled(r, 1) if g is None else g for r, g in seeds.items() if r in active}
    calls = _calls(n for n in order if n not in ends)
    for node in reversed(order):
        if node in ends:
            continue
        for source, part in _parts(node, flowing.get(node), active, calls):
            hand_on(node, part)
            old = flowing.get(source)
            flowing[source] = part if old is None else old + part
    return [flowing.get(t) for t in targets]


def _parts(
    node: UOp, g: UOp | None, active: set[UOp], calls: Mapping[Any, _Call]
) -> Iterator[tuple[UOp, UOp]]:
    """Sources of a node and what flows on to them."""
    joint = _joint(node)
    if joint is not None:
        given = calls[_key(node)].given(node, g)
        if any(x is not None for x in given):
            for source, part in zip(node.src, joint(node, given), strict=True):
                if part is not None and source in active and _flows(source):
                    yield source, part
        return
    for source, rule in zip(node.src, rules_of(node), strict=False) if g is not None else ():
        if rule is not None and source in active and _flows(source):
            yield source, rule(node, g)  # type: ignore[arg-type]


def between(
    roots: Sequence[UOp], targets: Sequence[UOp], ends: frozenset[UOp] = frozenset()
) -> list[UOp]:
    """The nodes through which a gradient flows from some root to some target, sources first."""
    active = set(targets)
    order = []
    for node in toposort(roots):
        rules = rules_of(node) if node not in ends else ()
        reaches = any(
            rule is not None and s in active for s, rule in zip(node.src, rules, strict=False)
        )
        if node in active or reaches:
            active.add(node)
            order.append(node)
    return order if any(r in active for r in roots) else []


# ---- calls: nodes that are the values of one kernel or function with a rule of the user's


def _joint(node: UOp) -> Joint | None:
    rule: Joint | None = node.arg.gradient if node.op in CALLS else None
    return rule


class _Call:
    """What flows into the values of one call. All of them come before what they are computed from,
    so the last one that is met asks for all."""

    def __init__(self, count: int) -> None:
        self.waiting, self.flowing = 0, [None] * count

    def given(self, node: UOp, g: Any) -> Sequence[UOp | None]:
        self.waiting -= 1
        self.flowing[node.arg.which] = g
        return () if self.waiting else self.flowing


def _key(node: UOp) -> Any:
    """Equal for the values of one call."""
    return node.src, node.arg._replace(which=0)


def _calls(order: Iterable[UOp]) -> dict[Any, _Call]:
    found: dict[Any, _Call] = {}
    for node in order:
        if _joint(node) is not None:
            found.setdefault(_key(node), _Call(node.arg.total)).waiting += 1
    return found


def _flows(node: UOp) -> bool:
    return node.dtype.is_float or node.op is Ops.STORE
