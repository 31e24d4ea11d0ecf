"""The one node of the upper floors, its algebra, and what is legal on each floor."""

from .ops import Ops, UOp
from .sizes import BoundVariable, Variable

__all__ = ["BoundVariable", "Ops", "UOp", "Variable"]
