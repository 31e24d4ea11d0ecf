"""The one node of the upper floors, its algebra, and what is legal on each floor."""

from .ops import Ops, UOp

Variable = UOp.variable  # a name with bounds: `Variable("n", 1, 32)`

__all__ = ["Ops", "UOp", "Variable"]
