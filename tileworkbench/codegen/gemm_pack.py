"""C text that brings the operands of a tile product into the form its kernels read: the accumulator's type, b as [k][columns].

A transposed b is turned in blocks: 16-byte pieces of rows are joined to whole vectors, and the vectors transposed inside each 16 bytes by
log2 rounds of interleaving, which are unpack instructions on x86.
"""

from __future__ import annotations

from ..base.dtypes import DType
from .clib import FUNCTIONS, c_type, cast_name, suffix
from .gemm_plan import GemmPlan, GemmSpec, gemm_name
from .parts import Part

ROWS_AHEAD = 4  # rows to ask for early where each lies in a page of its own: the processor runs ahead by itself only inside one
_PAGE = 4096
_NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def copy_needs(source: DType, target: DType) -> list[str]:
    """The library functions that `copy_row` calls."""
    row = f"twb_copy_{suffix(source)}_to_{suffix(target)}"
    return [row] if row in FUNCTIONS else [name for name in _casts(source, target) if name.startswith("twb")]


def copy_row(source: str, source_type: DType, target: str, target_type: DType, length: str) -> str:
    """One statement that copies and converts `length` contiguous elements; `source` and `target` are pointers."""
    row = f"twb_copy_{suffix(source_type)}_to_{suffix(target_type)}"
    if row in FUNCTIONS:
        return f"{row}({source}, {target}, {length});"
    value = f"({source})[x]"
    for step in _casts(source_type, target_type):
        value = f"{step}({value})" if step.startswith("twb") else f"{step}{value}"
    return f'_Pragma("omp simd") for (int64_t x = 0; x < {length}; x++) ({target})[x] = {value};'


def convert_rows(
    source: str, source_type: DType, ld: int, target: str, target_type: DType, ld_to: int, count: int, length: int, pad: str = "    "
) -> list[str]:
    """A loop that converts `count` rows of `length` elements, with row strides `ld` and `ld_to`."""
    copy = copy_row(f"{source} + i * {ld}", source_type, f"{target} + i * {ld_to}", target_type, str(length))
    return [f"{pad}for (int64_t i = 0; i < {count}; i++) {{", f"{pad}    {copy}", f"{pad}}}"]


def vector_name(dtype: DType, lanes: int) -> str:
    """The C name of a vector of `lanes` values."""
    return f"twb_v{lanes}{suffix(dtype)}"


def vector_type(dtype: DType, lanes: int) -> str:
    """Its declaration."""
    size = dtype.bits // 8
    return f"typedef {c_type(dtype)} {vector_name(dtype, lanes)} __attribute__((vector_size({lanes * size}), aligned({size}), may_alias));"


def _casts(source: DType, target: DType) -> tuple[str, ...]:
    """The calls, innermost first, that turn a stored `source` into a stored `target`: library functions or C casts."""
    if suffix(source) == suffix(target):
        return ()
    direct = cast_name(source, target)
    if direct:
        return (direct,)
    if source in _NARROW and target != "float32":
        return (*_casts(source, DType("float32")), *_casts(DType("float32"), target))
    if target in _NARROW:
        return (*_casts(source, DType("float64")), *_casts(DType("float64"), target))
    return (f"({c_type(target)})",)


def pack_function(spec: GemmSpec, plan: GemmPlan) -> list[str]:
    """A function that packs `width` columns (of which `have` exist) of `k` rows to [k][width]; missing columns become 0."""
    acc = c_type(spec.acc)
    parameters = f"int64_t k, int64_t width, int64_t have, const {c_type(spec.b)} *b, {acc} *p"
    return [
        f"static __attribute__((noinline)) void {gemm_name(spec)}_pack({parameters}) {{",
        "    for (int64_t i = 0; i < k; i++) {",
        f"        {copy_row(f'b + i * {spec.ldb}', spec.b, 'p + i * width', spec.acc, 'have')}",
        "        for (int64_t j = have; j < width; j++) p[i * width + j] = 0;",
        "    }",
        "}",
    ]


def asks_ahead(spec: GemmSpec) -> bool:
    """Whether packing asks for later rows of b."""
    return spec.far_b and spec.ldb * spec.b.bits // 8 >= _PAGE


def pack_rows_function(spec: GemmSpec, plan: GemmPlan) -> list[str]:
    """A function that packs `k` rows of all columns to strips, row by row, so that b is read in the order in which it lies in memory."""
    acc, lanes = c_type(spec.acc), plan.lanes
    out = [
        f"static __attribute__((noinline)) void {gemm_name(spec)}_pack(int64_t k, const {c_type(spec.b)} *b, {acc} *p) {{",
        f"    for (int64_t q = 0; q < k; q++, b += {spec.ldb}) {{",
    ]
    if asks_ahead(spec):
        line = 512 // spec.b.bits
        out.append(f"        for (int64_t x = 0; x < {spec.n}; x += {line}) __builtin_prefetch(b + {ROWS_AHEAD * spec.ldb} + x, 0, 2);")
    for run in plan.strips:
        width, is_last = run.size * lanes, run is plan.strips[-1]
        full = run.count - (is_last and plan.tail != lanes)
        first, end = run.first * lanes, (run.first + full * run.size) * lanes
        if full:
            out.append(f"        for (int64_t j = {first}; j < {end}; j += {width}) {{")
            out += _strip_row(spec, plan, run.size, "j", width)
            out.append("        }")
        if full < run.count:
            have = spec.n - end
            out += ["        {", *_strip_row(spec, plan, run.size, str(end), have)]
            out += [f"            for (int64_t x = {have}; x < {width}; x++) d[x] = 0;", "        }"]
    return [*out, "    }", "}"]


def _strip_row(spec: GemmSpec, plan: GemmPlan, vectors: int, j: str, have: int) -> list[str]:
    """One row of a strip that starts at column `j`."""
    lanes, vector = plan.lanes, vector_name(spec.acc, plan.lanes)
    out = [f"            {c_type(spec.acc)} *d = p + {j} * {plan.k_block} + q * {vectors * lanes};"]
    if suffix(spec.b) == suffix(spec.acc) and have == vectors * lanes:
        return [*out, *(f"            *({vector} *)(d + {x * lanes}) = *(const {vector} *)(b + {j} + {x * lanes});" for x in range(vectors))]
    return [*out, f"            {copy_row(f'b + {j}', spec.b, 'd', spec.acc, str(have))}"]


def turn_name(dtype: DType, lanes: int) -> str:
    """The C name of `turn_part`."""
    return f"twb_turn_v{lanes}{suffix(dtype)}"


def turn_part(dtype: DType, lanes: int) -> Part:
    """A function that packs `have` rows of `k` values, `ld` apart, as columns: to [k][width]; missing columns become 0.

    Blocks of (lanes) rows x (16 bytes of k): 16-byte pieces of rows are joined to whole vectors, then transposed inside each 16 bytes.
    """
    group, kind, vector = 128 // dtype.bits, c_type(dtype), vector_name(dtype, lanes)
    pieces = lanes // group
    bases = "".join(f", *s{p} = s{p - 1} + {group} * ld" for p in range(1, pieces))  # few enough for registers: the rest are small multiples of ld
    out = [
        "    int64_t whole = 0;",
        "#if __has_builtin(__builtin_shufflevector)",
        f"    whole = have & -{lanes};",
        f"    for (int64_t i = 0; i < whole; i += {lanes}) {{",
        f"        for (int64_t q = 0; q < (k & -{group}); q += {group}) {{",
        f"            const {kind} *s0 = b + i * ld + q{bases};",
    ]
    for r in range(group):
        parts = [f"s{p} + {r} * ld" for p in range(pieces)]
        joined = f"({vector})twb_join{pieces}({', '.join(parts)})" if pieces > 1 else f"*(const {vector} *)({parts[0]})"
        out.append(f"            const {vector} r{r} = {joined};")
    names = [f"r{r}" for r in range(group)]
    for step in range(group.bit_length() - 1):
        names, lines = _interleave(names, group, lanes, f"{vector} t{step}")
        out += [f"            const {line}" for line in lines]
    out += [f"            *({vector} *)(p + (q + {r}) * width + i) = {names[r]};" for r in range(group)]
    rest = f"for (int64_t q = i < whole ? k & -{group} : 0; q < k; q++) p[q * width + i] = i < have ? b[i * ld + q] : 0;"
    out += ["        }", "    }", "#endif", f"    for (int64_t i = 0; i < width; i++) {rest}"]  # one loop, as each costs gcc 10 ms
    head = f"TWB_PLAIN void {turn_name(dtype, lanes)}(int64_t k, int64_t width, int64_t have, const {kind} *b, int64_t ld, {kind} *p)"
    return Part(head, (*out, "}"), (vector_type(dtype, lanes),), turn_needs(dtype, lanes), is_common=True)


def turn_needs(dtype: DType, lanes: int) -> tuple[str, ...]:
    """The library functions that `turn_part` calls."""
    pieces = lanes * dtype.bits // 128
    return (f"twb_join{pieces}",) if pieces > 1 else ()


def _interleave(names: list[str], group: int, lanes: int, declare: str) -> tuple[list[str], list[str]]:
    """One of log2(group) passes: the low halves, then the high halves, of vectors r and r + group / 2 are merged value by value in each group."""
    out: list[str] = []
    lines: list[str] = []
    half = group // 2
    for a, b in zip(names[:half], names[half:], strict=True):
        for start in (0, half):
            picks = [base + start + x // 2 + (x % 2) * lanes for base in range(0, lanes, group) for x in range(group)]
            lines.append(f"{declare}_{len(out)} = __builtin_shufflevector({a}, {b}, {', '.join(map(str, picks))});")
            out.append(f"{declare.split()[1]}_{len(out)}")
    return out, lines
