"""Loop lengths that are known at the launch, in the form that a Plan carries.

Floor: codegen. In: an index expression over variables. Out: the contract's postfix expression.
"""

from __future__ import annotations

from typing import Final

from ..contract import Postfix
from ..uop.ops import Ops, UOp

_SIGNS: Final = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.FLOORDIV: "//", Ops.FLOORMOD: "%",
    Ops.MAXIMUM: "max", Ops.MINIMUM: "min",
}  # fmt: skip


def postfix(u: UOp) -> Postfix:
    """`u` as numbers, names of variables and operations, each behind what it works on."""
    if u.op is Ops.CONST:
        return (int(u.arg),)
    if u.op is Ops.VARIABLE:
        return (str(u.arg[0]),)
    out: Postfix = ()
    for s in u.src:
        out += postfix(s)
    return (*out, _SIGNS[u.op])
