"""The cpu device of polygrad: LLVM in process, one native call per Plan."""
