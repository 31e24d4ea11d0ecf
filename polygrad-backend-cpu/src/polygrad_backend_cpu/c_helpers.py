"""Helper functions in C: what gcc and clang offer under different names, behind one name each.

Every function gives the definition of one helper, for vectors of one type. Where neither compiler
has a builtin the lanes are written out, which both vectorize as far as they can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .c_body import CType


def select(t: str, mask: str) -> str:
    """Lane by lane `a` where the mask is set, else `b`: C has no `?:` of vectors."""
    return f"""\
HELPER {t} select_{t}({mask} mask, {t} a, {t} b) {{
  return ({t})((mask & ({mask})a) | (~mask & ({mask})b));
}}"""


# (function, type) -> (when gcc has it, what it calls there). Elsewhere gcc's vectorizer finds the
# instruction, but not where it is worth most: 12 multiply-adds of a register tile in a row.
_GCC: Mapping[tuple[str, CType], tuple[str, str]] = {
    ("fma", CType("f32", 4)): ("__FMA__", "__builtin_ia32_vfmaddps(a, b, c)"),
    ("fma", CType("f64", 2)): ("__FMA__", "__builtin_ia32_vfmaddpd(a, b, c)"),
    ("fma", CType("f32", 8)): ("__FMA__", "__builtin_ia32_vfmaddps256(a, b, c)"),
    ("fma", CType("f64", 4)): ("__FMA__", "__builtin_ia32_vfmaddpd256(a, b, c)"),
    ("fma", CType("f32", 16)): ("__AVX512F__", "__builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)"),
    ("fma", CType("f64", 8)): ("__AVX512F__", "__builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4)"),
}


def lanewise(function: str, t: str, type: CType, operands: int) -> str:
    """A function of the mathematics library, of each lane."""
    names = "abc"[:operands]
    ending = "f" if type.scalar == "f32" else ""
    lanes = [
        f"__builtin_{function}{ending}({', '.join(f'{n}[{i}]' for n in names)})"
        for i in range(type.lanes)
    ]
    when, call = _GCC.get((function, type), ("", ""))
    gcc = f"#elif defined({when}) && !defined(__clang__)\n  return {call};\n" if when else ""
    return f"""\
HELPER {t} {function}_{t}({", ".join(f"{t} {n}" for n in names)}) {{
#if __has_builtin(__builtin_elementwise_{function})
  return __builtin_elementwise_{function}({", ".join(names)});
{gcc}#else
  return ({t}){{{", ".join(lanes)}}};
#endif
}}"""


def bitcast(source: str, to: str) -> str:
    """The same bits as another type."""
    return f"""\
HELPER {to} {to}_from_{source}({source} x) {{
  {to} r;
  __builtin_memcpy(&r, &x, sizeof r);
  return r;
}}"""


def masked(t: str, mask: str, type: CType) -> str:
    """Loads and stores of the lanes whose mask is set: clang has builtins, on vectors of a kind of
    its own; gcc makes masked instructions of the loops."""
    n, scalar = type.lanes, type.scalar
    return f"""\
#if __has_builtin(__builtin_masked_load)
typedef bool {t}_bits __attribute__((ext_vector_type({n})));
typedef {scalar} {t}_lanes __attribute__((ext_vector_type({n})));
HELPER {t} load_{t}(const {scalar} *p, {mask} mask, {t} other) {{
  {t}_bits bits = __builtin_convertvector(mask, {t}_bits);
  return ({t})__builtin_masked_load(bits, p, ({t}_lanes)other);
}}
HELPER void store_{t}({scalar} *p, {mask} mask, {t} value) {{
  {t}_bits bits = __builtin_convertvector(mask, {t}_bits);
  __builtin_masked_store(bits, ({t}_lanes)value, p);
}}
#else
HELPER {t} load_{t}(const {scalar} *p, {mask} mask, {t} other) {{
  {t} r;
  for (int i = 0; i < {n}; i++) r[i] = mask[i] ? p[i] : other[i];
  return r;
}}
HELPER void store_{t}({scalar} *p, {mask} mask, {t} value) {{
  for (int i = 0; i < {n}; i++)
    if (mask[i]) p[i] = value[i];
}}
#endif"""


_STREAM = {16: "movntps", 32: "movntps256", 64: "movntps512"}  # bytes -> gcc's name on x86
STREAMED: Sequence[int] = tuple(_STREAM)  # sizes that may be stored past the caches


def stream(t: str, type: CType) -> str:
    """A store past the caches, of an aligned vector."""
    builtin = f"__builtin_ia32_{_STREAM[type.bytes]}"
    return f"""\
HELPER void stream_{t}(void *p, {t} value) {{
#if __has_builtin(__builtin_nontemporal_store)
  __builtin_nontemporal_store(value, ({t} *)p);
#elif __has_builtin({builtin})
  typedef f32 reals __attribute__((vector_size({type.bytes})));
  {builtin}((f32 *)p, (reals)value);
#else
  *({t} *)p = value;
#endif
}}"""
