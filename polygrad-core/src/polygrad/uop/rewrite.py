"""The one rewriter: rules per op, applied bottom-up in one pass, each node once, to a fixed point
per node.

Floor: uop. A rule is a plain function `rule(u)` or `rule(u, ctx)` that gives a replacement or
None, put into a `Rules` table under the ops it cares about and tried in the order of registration:

    rules = Rules()

    @rules.on(Ops.ADD)
    def double(u: UOp) -> UOp | None:
        return u.src[0] * 2 if u.src[0] is u.src[1] else None

    new = rewrite(root, rules)

When a rule sees a node, the node's sources are final. What it returns is rewritten in turn (its
new parts too) until no rule fires. Nothing here recurses, so graphs of any depth work, and the
memo makes a pass linear in the number of nodes. The place in the user's program is handed from old
nodes to new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, overload

from ..errors import SpecError
from .ops import COMPARISONS, ELEMENTWISE, Ops, UOp, toposort
from .provenance import hand_on

Rule = Callable[..., "UOp | None"]
MAX_CHAIN = 1000  # replacements of one node by another before we call it a loop


class Rules:
    """A table op -> rules in order. `a + b` tries a's rules first."""

    def __init__(self) -> None:
        self.table: dict[Ops, tuple[Callable[[UOp, Any], UOp | None], ...]] = {}

    def on(self, *ops: Ops) -> Callable[[Rule], Rule]:
        """Register the decorated function for `ops` (several, or a set unpacked)."""

        def register(rule: Rule) -> Rule:
            call = rule if _takes_context(rule) else _without_context(rule)
            for op in ops:
                self.table[op] = (*self.table.get(op, ()), call)
            return rule

        return register

    def apply(self, u: UOp, ctx: Any = None) -> UOp | None:
        """The first replacement that differs from `u`, or None."""
        for rule in self.table.get(u.op, ()):
            new = rule(u, ctx)
            if new is not None and new is not u:
                return new
        return None

    def __add__(self, other: Rules) -> Rules:
        both = Rules()
        for op in {**self.table, **other.table}:
            both.table[op] = self.table.get(op, ()) + other.table.get(op, ())
        return both


def _takes_context(rule: Rule) -> bool:
    code = getattr(rule, "__code__", None)
    return code is not None and code.co_argcount >= 2


def _without_context(rule: Rule) -> Callable[[UOp, Any], UOp | None]:
    return lambda u, ctx: rule(u)


def over(u: UOp, src: tuple[UOp, ...]) -> UOp:
    """`u` over other sources, and nothing simplified."""
    return u if src == u.src else UOp(u.op, u.dtype, src, u.arg)


def rebuild(u: UOp, src: tuple[UOp, ...]) -> UOp:
    """`u` over other sources. A scalar elementwise node goes through the smart constructor, so it
    is simplified again and takes the dtype that its new sources imply; a gate that became known is
    dropped."""
    if src == u.src:
        return u
    if u.op in _GATE_AT:
        return _gated(u, src)
    if u.shape or u.op not in ELEMENTWISE or u.dtype.lanes > 1:
        return UOp(u.op, u.dtype, src, u.arg)
    if u.op is Ops.CAST:
        return src[0].cast(u.dtype)
    if u.op is Ops.BITCAST:
        return src[0].bitcast(u.dtype)
    same = u.op in COMPARISONS or src[-1].dtype is not u.src[-1].dtype or u.dtype is src[-1].dtype
    if same or u.op is Ops.THREEFRY:
        return UOp.alu(u.op, *src, arg=u.arg)
    return UOp(u.op, u.dtype, src, u.arg)


_GATE_AT: Final = {Ops.LOAD: 1, Ops.STORE: 2}


def _gated(u: UOp, src: tuple[UOp, ...]) -> UOp:
    at = _GATE_AT[u.op]
    if len(src) > at:
        if src[at].lo == 1:
            src = src[:at]
        elif src[at].hi == 0 and u.op is Ops.LOAD:
            return UOp.const(u.dtype, 0)
    return UOp(u.op, u.dtype, src, u.arg)


@overload
def rewrite(
    root: UOp, rules: Rules, ctx: Any = None, enter: Callable[[UOp], bool] | None = None
) -> UOp: ...
@overload
def rewrite(
    root: Sequence[UOp], rules: Rules, ctx: Any = None, enter: Callable[[UOp], bool] | None = None
) -> list[UOp]: ...
def rewrite(
    root: UOp | Sequence[UOp],
    rules: Rules,
    ctx: Any = None,
    enter: Callable[[UOp], bool] | None = None,
) -> UOp | list[UOp]:
    """Rewrite a root, or several that share one memo. What `enter` refuses stays as it is."""
    roots = (root,) if isinstance(root, UOp) else root
    done: dict[UOp, UOp] = {}
    for r in roots:
        _run(r, rules, ctx, enter, done)
    return done[root] if isinstance(root, UOp) else [done[r] for r in roots]


def _run(
    root: UOp, rules: Rules, ctx: Any, enter: Callable[[UOp], bool] | None, done: dict[UOp, UOp]
) -> None:
    """Fill `done`. A stack entry is (node, replacement it waits for, length of its chain)."""
    stack: list[tuple[UOp, UOp | None, int]] = [(root, None, 0)]
    while stack:
        node, waiting, chain = stack.pop()
        if node in done:
            continue
        if waiting is not None:
            done[node] = final = done[waiting]
            hand_on(node, final)
            continue
        if enter is not None and not enter(node):
            done[node] = node
            continue
        missing = [s for s in node.src if s not in done]
        if missing:
            stack.append((node, None, chain))
            stack.extend((s, None, 0) for s in reversed(missing))
            continue
        new = rebuild(node, tuple([done[s] for s in node.src]))
        if new is node:
            replacement = rules.apply(node, ctx)
            if replacement is None:
                done[node] = node
                continue
            new = replacement
        if chain > MAX_CHAIN:
            raise SpecError(f"rewrite rules never settle: {node!r} became {new!r} and so on")
        stack.append((node, new, chain))
        stack.append((new, None, chain + 1))


def substitute(root: UOp, replacements: Mapping[UOp, UOp]) -> UOp:
    """`root` with each key replaced by its value, which is taken as it is."""
    if root in replacements:
        return replacements[root]
    done: dict[UOp, UOp] = dict(replacements)
    for node in toposort((root,), lambda u: u not in replacements):
        if node not in done:
            done[node] = new = rebuild(node, tuple([done[s] for s in node.src]))
            hand_on(node, new)
    return done[root]
