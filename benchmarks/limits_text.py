"""The loops of `limits`, as LLVM text: plain vector operations, so it fits any machine."""

from __future__ import annotations

UNROLL = 8  # vectors of one step of a memory loop
PLACES = 4  # that `read_apart` reads in turn,
RUN = 64 << 10  # bytes between them
FUNCTIONS = ("fma", "read", "read_apart", "copy", "copy_past")


def module_text(lanes: int, accumulators: int) -> str:
    """`fma(n)`; `read(from, steps, n)` and `read_apart`, its twin that goes on in PLACES at a time
    (a core fetches ahead for each of them); `copy(from, to, steps, n)` and `copy_past`, its twin
    whose stores go past the caches. A step is UNROLL vectors; all is done n times over."""
    vector = f"<{lanes} x float>"
    return "\n".join(
        (
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            _fma(vector, lanes, accumulators),
            _read(vector, lanes, "read", _addresses("from", lanes)),
            _read(vector, lanes, "read_apart", _addresses_apart("from", lanes)),
            _copy(vector, lanes, "copy", ""),
            _copy(vector, lanes, "copy_past", ", !nontemporal !0"),
            "!0 = !{i32 1}",
        )
    )


def _splat(lanes: int, value: float) -> str:
    return "<" + ", ".join([f"float {value:e}"] * lanes) + ">"


def _sum(vector: str, names: list[str]) -> list[str]:
    """One float of all of these, so that none is left out as unused."""
    lines, total = [], names[0]
    for i, name in enumerate(names[1:]):
        lines.append(f"%sum{i} = fadd {vector} {total}, {name}")
        total = f"%sum{i}"
    return [*lines, f"%first = extractelement {vector} {total}, i32 0", "ret float %first"]


def _fma(vector: str, lanes: int, accumulators: int) -> str:
    shrink, grow = _splat(lanes, 0.5), _splat(lanes, 0.25)
    every = range(accumulators)
    fma = f"call {vector} @llvm.fma.v{lanes}f32"
    starts = [_splat(lanes, float(i)) for i in every]
    return "\n".join(
        (
            "define float @fma(i64 %n) {",
            "entry: br label %loop",
            "loop:",
            "%i = phi i64 [0, %entry], [%i.next, %loop]",
            *(f"%a{i} = phi {vector} [{starts[i]}, %entry], [%b{i}, %loop]" for i in every),
            *(f"%b{i} = {fma}({vector} %a{i}, {vector} {shrink}, {vector} {grow})" for i in every),
            "%i.next = add i64 %i, 1",
            "%more = icmp slt i64 %i.next, %n",
            "br i1 %more, label %loop, label %done",
            "done:",
            *_sum(vector, [f"%b{i}" for i in every]),
            "}",
        )
    )


def _read(vector: str, lanes: int, name: str, addresses: list[str]) -> str:
    every = range(UNROLL)
    zero = "zeroinitializer"
    return "\n".join(
        (
            f"define float @{name}(ptr %from, i64 %steps, i64 %n) {{",
            "entry: br label %again",
            "again:",
            "%r = phi i64 [0, %entry], [%r.next, %end]",
            *(f"%o{i} = phi {vector} [{zero}, %entry], [%b{i}, %end]" for i in every),
            "br label %loop",
            "loop:",
            "%i = phi i64 [0, %again], [%i.next, %loop]",
            *(f"%a{i} = phi {vector} [%o{i}, %again], [%b{i}, %loop]" for i in every),
            *addresses,
            *(f"%x{i} = load {vector}, ptr %from{i}, align {4 * lanes}" for i in every),
            *(f"%b{i} = fadd {vector} %a{i}, %x{i}" for i in every),
            *_closing(),
            "done:",
            *_sum(vector, [f"%b{i}" for i in every]),
            "}",
        )
    )


def _copy(vector: str, lanes: int, name: str, past: str) -> str:
    every = range(UNROLL)
    align = f"align {4 * lanes}"
    return "\n".join(
        (
            f"define float @{name}(ptr %from, ptr %to, i64 %steps, i64 %n) {{",
            "entry: br label %again",
            "again:",
            "%r = phi i64 [0, %entry], [%r.next, %end]",
            "br label %loop",
            "loop:",
            "%i = phi i64 [0, %again], [%i.next, %loop]",
            *_addresses("from", lanes),
            *_addresses("to", lanes),
            *(f"%x{i} = load {vector}, ptr %from{i}, {align}" for i in every),
            *(f"store {vector} %x{i}, ptr %to{i}, {align}{past}" for i in every),
            *_closing("fence seq_cst"),  # stores past the caches have arrived
            "done:",
            "ret float 0.0",
            "}",
        )
    )


def _addresses(base: str, lanes: int) -> list[str]:
    lines = [f"%{base}.at = mul i64 %i, {UNROLL * lanes}"]
    for i in range(UNROLL):
        lines.append(f"%{base}.at{i} = add i64 %{base}.at, {i * lanes}")
        lines.append(f"%{base}{i} = getelementptr float, ptr %{base}, i64 %{base}.at{i}")
    return lines


def _addresses_apart(base: str, lanes: int) -> list[str]:
    """Those of the step: the vectors of each place are RUN bytes from those of the one before."""
    each, run = UNROLL // PLACES, RUN // 4
    steps = run // (each * lanes)
    lines = [f"%{base}.block = udiv i64 %i, {steps}", f"%{base}.step = urem i64 %i, {steps}"]
    lines.append(f"%{base}.first = mul i64 %{base}.block, {PLACES * run}")
    lines.append(f"%{base}.in = mul i64 %{base}.step, {each * lanes}")
    lines.append(f"%{base}.at = add i64 %{base}.first, %{base}.in")
    for i in range(UNROLL):
        place, vector = divmod(i, each)
        lines.append(f"%{base}.at{i} = add i64 %{base}.at, {place * run + vector * lanes}")
        lines.append(f"%{base}{i} = getelementptr float, ptr %{base}, i64 %{base}.at{i}")
    return lines


def _closing(*at_end: str) -> tuple[str, ...]:
    """The ends of the loop over an array and of the one that repeats it."""
    return (
        "%i.next = add i64 %i, 1",
        "%more = icmp slt i64 %i.next, %steps",
        "br i1 %more, label %loop, label %end",
        "end:",
        *at_end,
        "%r.next = add i64 %r, 1",
        "%again.more = icmp slt i64 %r.next, %n",
        "br i1 %again.more, label %again, label %done",
    )
