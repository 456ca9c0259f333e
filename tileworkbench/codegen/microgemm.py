"""C text of one tile product `c = op(a) @ op(b)` (or `c +=`): a register-tiled micro-kernel of GCC vector types.

A kernel keeps its results in named vector variables (an array of them would stay in memory at -O2) and walks over k: load the
strip's row of b, broadcast one value of a per row, multiply and add (which the compiler contracts to FMA).

    for each strip of columns:       b packed to [k][columns] when it is transposed, of another type, or badly strided
        for each panel of rows:      a read in place, one broadcast at a time; converted once beforehand if its type differs
            kernel

Sizes are constants of the text, so every edge is exact: nothing outside m, n, k is read or written. Products and sums run in
float32 for float16, bfloat16 and float8 results (rounded once at the end), in int32 (wrapping) for the smaller integers.

>>> spec = GemmSpec(64, 64, 64, *[DType("float32")] * 3, 64, 64, 64)
>>> gemm_name(spec), gemm_scratch_bytes(spec), gemm_needs(spec)
('twb_gemm_64x64x64_f32_f32_f32_64_64_64', 0, ())
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..base.dtypes import DType
from .clib import FUNCTIONS, c_type, cast_name, suffix
from .gemm_plan import GemmPlan, GemmSpec, Run, plan_gemm


def gemm_name(spec: GemmSpec) -> str:
    """The C name of the product; specs that differ have names that differ (for one instruction set)."""
    types = "_".join(suffix(d) for d in (spec.a, spec.b, spec.c))
    layout = f"_{'nt'[spec.trans_a]}{'nt'[spec.trans_b]}" if spec.trans_a or spec.trans_b else ""
    return f"twb_gemm_{spec.m}x{spec.n}x{spec.k}_{types}_{spec.lda}_{spec.ldb}_{spec.ldc}{layout}"


def gemm_needs(spec: GemmSpec) -> tuple[str, ...]:
    """Names of the library functions that the text calls; put them into `clib.library`."""
    pairs = ((spec.a, spec.acc), (spec.b, spec.acc), (spec.c, spec.sum), (spec.sum, spec.c))
    names = [name for source, target in pairs for name in _copy_needs(source, target)]
    pieces = plan_gemm(spec).lanes * spec.acc.bits // 128
    if spec.trans_b and pieces > 1:
        names.append(f"twb_join{pieces}")
    return tuple(dict.fromkeys(names))


def gemm_scratch_bytes(spec: GemmSpec) -> int:
    """Bytes of 64-byte aligned scratch that the product needs; 0 for none."""
    return sum(size for _, size in _scratch(spec, plan_gemm(spec)))


def gemm_text(spec: GemmSpec) -> str:
    """C text of `static void NAME(const A *a, const B *b, C *c, int clear, char *scratch)` and its kernels.

    The pointers point at the first element of each operand; `clear` non-zero ignores the old value of c.
    """
    plan = plan_gemm(spec)
    lines = _types(spec, plan)
    for rows in sorted({run.size for run in plan.panels}):
        for vectors, tail in _strip_kinds(plan):
            lines += _kernel(spec, plan, rows, vectors, tail)
    if plan.pack_b:
        lines += _pack_b(spec, plan)
    lines += _driver(spec, plan)
    return "\n".join(lines) + "\n"


def _scratch(spec: GemmSpec, plan: GemmPlan) -> Iterator[tuple[str, int]]:
    """(name, bytes) of each part of the scratch, in order."""
    for name, length in (("pa", plan.a_length), ("pb", plan.b_length), ("raw", plan.raw_length), ("pc", plan.c_length)):
        if length:
            yield name, (length * spec.acc.bits // 8 + 63) // 64 * 64


def _casts(source: DType, target: DType) -> tuple[str, ...]:
    """The calls, innermost first, that turn a stored `source` into a stored `target`: library functions or C casts."""
    if suffix(source) == suffix(target):
        return ()
    direct = cast_name(source, target)
    if direct:
        return (direct,)
    narrow = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
    if source in narrow and target != "float32":
        return (*_casts(source, DType("float32")), *_casts(DType("float32"), target))
    if target in narrow:
        return (*_casts(source, DType("float64")), *_casts(DType("float64"), target))
    return (f"({c_type(target)})",)


def _copy_needs(source: DType, target: DType) -> list[str]:
    row = f"twb_copy_{suffix(source)}_to_{suffix(target)}"
    return [row] if row in FUNCTIONS else [name for name in _casts(source, target) if name.startswith("twb")]


def _copy(source: str, source_type: DType, target: str, target_type: DType, length: str) -> str:
    """One statement (two lines if it is a loop) that copies and converts `length` contiguous elements; `source` and `target` are pointers."""
    row = f"twb_copy_{suffix(source_type)}_to_{suffix(target_type)}"
    if row in FUNCTIONS:
        return f"{row}({source}, {target}, {length});"
    value = f"({source})[x]"
    for step in _casts(source_type, target_type):
        value = f"{step}({value})" if step.startswith("twb") else f"{step}{value}"
    return f"_Pragma(\"omp simd\") for (int64_t x = 0; x < {length}; x++) ({target})[x] = {value};"


def _types(spec: GemmSpec, plan: GemmPlan) -> list[str]:
    """The vector types. A typedef may be repeated, so several products can stand in one file."""
    types = [spec.acc] if spec.sum == spec.acc else [spec.acc, spec.sum]
    return [
        f"typedef {c_type(t)} {_vector(t, plan.lanes)} __attribute__((vector_size({plan.lanes * t.bits // 8}), aligned({t.bits // 8}), may_alias));"
        for t in types
    ]


def _vector(dtype: DType, lanes: int) -> str:
    return f"twb_v{lanes}{suffix(dtype)}"


def _strip_kinds(plan: GemmPlan) -> list[tuple[int, int]]:
    """(vectors, columns of the last vector) of every kernel that the strips need, each once."""
    kinds = []
    for run in plan.strips:
        is_last = run is plan.strips[-1]
        if run.count > 1 or not is_last or plan.tail == plan.lanes:
            kinds.append((run.size, plan.lanes))
        if is_last and plan.tail != plan.lanes:
            kinds.append((run.size, plan.tail))
    return list(dict.fromkeys(kinds))


def _kernel_name(spec: GemmSpec, rows: int, vectors: int, tail: int) -> str:
    return f"{gemm_name(spec)}_k{rows}x{vectors}" + (f"t{tail}" if tail else "")


# ---------------------------------------------------------------------------------------------- kernels
def _kernel(spec: GemmSpec, plan: GemmPlan, rows: int, vectors: int, tail: int) -> list[str]:
    acc, lanes = c_type(spec.acc), plan.lanes
    vector, result = _vector(spec.acc, lanes), _vector(spec.sum, lanes)
    ldb = vectors * lanes if plan.pack_b else spec.ldb
    row_step, k_step = (1, plan.lda) if spec.trans_a else (plan.lda, 1)
    name = _kernel_name(spec, rows, vectors, tail if tail != lanes else 0)
    cells = [_Cell(f"c{i}_{j}", i * plan.ldc + j * lanes, tail if j == vectors - 1 else lanes) for i in range(rows) for j in range(vectors)]
    converts = spec.sum != spec.acc
    out = [f"static __attribute__((noinline)) void {name}(int64_t k, const {acc} *a, const {acc} *b, {c_type(spec.sum)} *c, int clear) {{"]
    for i in range(rows):
        out.append(f"    {vector} " + ", ".join(f"{x.name} = {{0}}" for x in cells[i * vectors : (i + 1) * vectors]) + ";")
    if not converts:
        out += ["    if (!clear) {", *(f"        {x.load(result, x.name, lanes)}" for x in cells), "    }"]
    out.append("    do {")
    loads = ", ".join(f"b{j} = *(const {vector} *)(b + {j * lanes})" for j in range(vectors))
    out.append(f"        const {vector} {loads};")
    for i in range(rows):
        terms = " ".join(f"c{i}_{j} += a{i} * b{j};" for j in range(vectors))
        out.append(f"        const {vector} a{i} = a[{i * row_step}] - ({vector}){{0}}; {terms}")
    out.append(f"        a += {k_step}; b += {ldb};")
    out.append("    } while (--k);")
    if converts:
        out.append(f"    {result} r, old = {{0}};")
    for x in cells:
        if converts:
            out.append(f"    r = __builtin_convertvector({x.name}, {result}); if (!clear) {{ {x.load(result, 'old', lanes)} r += old; }}")
        out.append(f"    {x.store(result, 'r' if converts else x.name, lanes)}")
    return [*out, "}"]


class _Cell(NamedTuple):
    """One accumulator: its variable, where it lies in c, and how many of its lanes exist there."""

    name: str
    offset: int
    count: int

    def load(self, vector: str, into: str, lanes: int) -> str:
        if self.count == lanes:
            return f"{into} = *(const {vector} *)(c + {self.offset});"
        return f"__builtin_memcpy(&{into}, c + {self.offset}, {self.count} * sizeof *c);"

    def store(self, vector: str, value: str, lanes: int) -> str:
        if self.count == lanes:
            return f"*({vector} *)(c + {self.offset}) = {value};"
        return f"__builtin_memcpy(c + {self.offset}, &{value}, {self.count} * sizeof *c);"


# ---------------------------------------------------------------------------------------------- packing
def _pack_b(spec: GemmSpec, plan: GemmPlan) -> list[str]:
    """A function that packs `width` columns (of which `have` exist) of `k` rows to [k][width]; missing columns become 0."""
    acc, name = c_type(spec.acc), f"{gemm_name(spec)}_pack"
    source, ld = (acc, str(plan.raw_ld)) if plan.raw_ld else (c_type(spec.b), str(spec.ldb))
    out = [f"static __attribute__((noinline)) void {name}(int64_t k, int64_t width, int64_t have, const {source} *b, {acc} *p) {{"]
    if not spec.trans_b:
        out += [
            "    for (int64_t i = 0; i < k; i++) {",
            f"        {_copy(f'b + i * {ld}', spec.b, 'p + i * width', spec.acc, 'have')}",
            "        for (int64_t j = have; j < width; j++) p[i * width + j] = 0;",
            "    }",
            "}",
        ]
        return out
    return [*out, *_transpose(spec, plan, ld), "}"]


def _transpose(spec: GemmSpec, plan: GemmPlan, ld: str) -> list[str]:
    """Blocks of (lanes) rows x (16 bytes of k): 16-byte pieces of rows are joined to whole vectors, then transposed inside each 16 bytes."""
    group, lanes = 128 // spec.acc.bits, plan.lanes
    vector = _vector(spec.acc, lanes)
    pieces = lanes // group
    out = [
        "    int64_t whole = 0;",
        "#if __has_builtin(__builtin_shufflevector)",
        f"    whole = have & -{lanes};",
        f"    for (int64_t i = 0; i < whole; i += {lanes}) {{",
        f"        for (int64_t q = 0; q < (k & -{group}); q += {group}) {{",
        f"            const {c_type(spec.acc)} *s = b + i * {ld} + q;",
    ]
    for r in range(group):
        parts = [f"s + {p * group + r} * {ld}" for p in range(pieces)]
        joined = f"({vector})twb_join{pieces}({', '.join(parts)})" if pieces > 1 else f"*(const {vector} *)({parts[0]})"
        out.append(f"            const {vector} r{r} = {joined};")
    names = [f"r{r}" for r in range(group)]
    for step in range(group.bit_length() - 1):
        names, lines = _interleave(names, group, lanes, f"{vector} t{step}")
        out += [f"            const {line}" for line in lines]
    out += [f"            *({vector} *)(p + (q + {r}) * width + i) = {names[r]};" for r in range(group)]
    rest = f"for (int64_t q = k & -{group}; q < k; q++) for (int64_t r = 0; r < {lanes}; r++) p[q * width + i + r] = b[(i + r) * {ld} + q];"
    out += ["        }", f"        {rest}", "    }", "#endif"]
    out.append(f"    for (int64_t i = whole; i < have; i++) for (int64_t q = 0; q < k; q++) p[q * width + i] = b[i * {ld} + q];")
    out.append("    for (int64_t i = have; i < width; i++) for (int64_t q = 0; q < k; q++) p[q * width + i] = 0;")
    return out


def _interleave(names: list[str], group: int, lanes: int, declare: str) -> tuple[list[str], list[str]]:
    """One of log2(group) passes: the low halves, then the high halves, of vectors r and r + group / 2 are merged value by value in each group."""
    out, lines = [], []
    half = group // 2
    for a, b in zip(names[:half], names[half:], strict=True):
        for start in (0, half):
            picks = [base + start + x // 2 + (x % 2) * lanes for base in range(0, lanes, group) for x in range(group)]
            lines.append(f"{declare}_{len(out)} = __builtin_shufflevector({a}, {b}, {', '.join(map(str, picks))});")
            out.append(f"{declare.split()[1]}_{len(out)}")
    return out, lines


# ---------------------------------------------------------------------------------------------- driver
def _driver(spec: GemmSpec, plan: GemmPlan) -> list[str]:
    a, b, c = c_type(spec.a), c_type(spec.b), c_type(spec.c)
    out = [f"static __attribute__((noinline, unused)) void {gemm_name(spec)}(const {a} *a, const {b} *b, {c} *c, int clear, char *scratch) {{"]
    offset = 0
    for name, size in _scratch(spec, plan):
        kind = c_type(spec.sum if name == "pc" else spec.acc)
        out.append(f"    {kind} *{name} = ({kind} *)(scratch + {offset});")
        offset += size
    if not offset:
        out.append("    (void)scratch;")
    if plan.pack_a:
        count, length = (spec.k, spec.m) if spec.trans_a else (spec.m, spec.k)
        out += _convert_rows("a", spec.a, spec.lda, "pa", spec.acc, plan.lda, count, length)
    if plan.widen_c:
        out += ["    if (!clear) {", *_convert_rows("c", spec.c, spec.ldc, "pc", spec.sum, plan.ldc, spec.m, spec.n, "        "), "    }"]
    blocked = plan.k_block < spec.k
    if blocked:
        out.append(f"    for (int64_t k0 = 0; k0 < {spec.k}; k0 += {plan.k_block}) {{")
        out.append(f"    const int64_t kb = {spec.k} - k0 < {plan.k_block} ? {spec.k} - k0 : {plan.k_block};")
        out.append("    const int first = clear && k0 == 0;")
    for run in plan.strips:
        out += _strip(spec, plan, run, is_last=run is plan.strips[-1], blocked=blocked)
    if blocked:
        out.append("    }")
    if plan.widen_c:
        out += _convert_rows("pc", spec.sum, plan.ldc, "c", spec.c, spec.ldc, spec.m, spec.n)
    return [*out, "}"]


def _convert_rows(source: str, source_type: DType, ld: int, target: str, target_type: DType, ld_to: int, count: int, length: int, pad: str = "    ") -> list[str]:
    copy = _copy(f"{source} + i * {ld}", source_type, f"{target} + i * {ld_to}", target_type, str(length))
    return [f"{pad}for (int64_t i = 0; i < {count}; i++) {{", f"{pad}    {copy}", f"{pad}}}"]


def _strip(spec: GemmSpec, plan: GemmPlan, run: Run, *, is_last: bool, blocked: bool) -> list[str]:
    """The strips of one width: pack, then every panel. The very last strip may end inside a vector and stands apart then."""
    partial = is_last and plan.tail != plan.lanes
    out = []
    full = run.count - partial
    if full > 0:
        first, end = run.first * plan.lanes, (run.first + full * run.size) * plan.lanes
        out.append(f"    for (int64_t j = {first}; j < {end}; j += {run.size * plan.lanes}) {{")
        out += _panels(spec, plan, run.size, plan.lanes, run.size * plan.lanes, "j", blocked)
        out.append("    }")
    if partial:
        first = (run.first + full * run.size) * plan.lanes
        out.append("    {")
        out += _panels(spec, plan, run.size, plan.tail, spec.n - first, str(first), blocked)
        out.append("    }")
    return out


def _panels(spec: GemmSpec, plan: GemmPlan, vectors: int, tail: int, have: int, j: str, blocked: bool) -> list[str]:
    width = vectors * plan.lanes
    k, k0, clear = ("kb", "k0", "first") if blocked else (str(spec.k), "0", "clear")
    b_at = f"b + {j} * {spec.ldb} + {k0}" if spec.trans_b else f"b + {k0} * {spec.ldb} + {j}"
    out = []
    if plan.raw_ld:
        out += [
            f"        const {c_type(spec.b)} *s = {b_at};",
            f"        for (int64_t q = 0; q < {have}; q++) {{",
            f"            {_copy(f's + q * {spec.ldb}', spec.b, f'raw + q * {plan.raw_ld}', spec.acc, k)}",
            "        }",
        ]
        b_at = "raw"
    if plan.pack_b:
        out.append(f"        {gemm_name(spec)}_pack({k}, {width}, {have}, {b_at}, pb);")
        b_at = "pb"
    a, c = ("pa" if plan.pack_a else "a"), ("pc" if plan.widen_c else "c")
    for run in plan.panels:
        name = _kernel_name(spec, run.size, vectors, tail if tail != plan.lanes else 0)
        a_at = f"{a} + {k0} * {plan.lda} + i" if spec.trans_a else f"{a} + i * {plan.lda} + {k0}"
        call = f"{name}({k}, {a_at}, {b_at}, {c} + i * {plan.ldc} + {j}, {clear});"
        end = run.first + run.count * run.size
        out.append(f"        for (int64_t i = {run.first}; i < {end}; i += {run.size}) {call}")
    return out
