"""C text of one tile product `c = op(a) @ op(b)` (or `c +=`): a register-tiled micro-kernel of GCC vector types.

A kernel keeps its results in named vector variables (an array of them would stay in memory at -O2) and walks over k: load the
strip's row of b, broadcast one value of a per row, multiply and add (which the compiler contracts to FMA).

    for each block of k:             b packed to strips of [k][columns] when it is transposed, of another type, badly strided or not on chip
        for each panel of rows:      a read in place, one broadcast at a time; converted once beforehand if its type differs
            for each strip:          kernel

Where b is not packed, or is too large to be packed at once, strips are the outer loop.

Sizes are constants of the text, so every edge is exact: nothing outside m, n, k is read or written. Products and sums run in
float32 for float16, bfloat16 and float8 results (rounded once at the end), in int32 (wrapping) for the smaller integers.

>>> from tileworkbench.base.dtypes import DType
>>> spec = GemmSpec(64, 64, 64, *[DType("float32")] * 3, 64, 64, 64)
>>> gemm_name(spec), gemm_scratch_bytes(spec), gemm_needs(spec)
('twb_gemm_64x64x64_f32_f32_f32_64_64_64', 0, ())
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .amx import amx_needs, amx_pieces, amx_scratch_bytes
from .clib import c_type, suffix
from .gemm_pack import (
    convert_rows,
    copy_needs,
    copy_row,
    pack_function,
    pack_rows_function,
    turn_name,
    turn_needs,
    turn_part,
    vector_name,
    vector_type,
)
from .gemm_plan import GemmPlan, GemmSpec, Run, gemm_name, plan_gemm
from .micro_x86 import LINE, LONG, NEAR_END, UNROLL, X86Kernel
from .parts import Part, parts_of, text_of

__all__ = ["GemmSpec", "gemm_name", "gemm_needs", "gemm_parts", "gemm_scratch_bytes", "gemm_text"]


def gemm_needs(spec: GemmSpec) -> tuple[str, ...]:
    """Names of the library functions that the text calls; put them into `clib.library`."""
    if spec.kernel == "amx":
        return amx_needs(spec)
    pairs = ((spec.a, spec.acc), (spec.b, spec.acc), (spec.c, spec.sum), (spec.sum, spec.c))
    names = [name for source, target in pairs for name in copy_needs(source, target)]
    names += turn_needs(spec.acc, plan_gemm(spec).lanes) if spec.trans_b else ()
    return tuple(dict.fromkeys(names))


def gemm_scratch_bytes(spec: GemmSpec) -> int:
    """Bytes of 64-byte aligned scratch that the product needs; 0 for none."""
    if spec.kernel == "amx":
        return amx_scratch_bytes(spec)
    return sum(size for _, size in _scratch(spec, plan_gemm(spec)))


def gemm_text(*specs: GemmSpec) -> str:
    """C text, for each product, of `static void NAME(const A *a, const B *b, C *c, int clear, char *scratch)`; what products share stands there once.

    The pointers point at the first element of each operand; `clear` non-zero ignores the old value of c.
    """
    return text_of(piece for spec in specs for piece in _pieces(spec))


def gemm_parts(*specs: GemmSpec) -> tuple[Part, ...]:
    """What of `gemm_text` can be compiled apart."""
    return parts_of(piece for spec in specs for piece in _pieces(spec))


def _pieces(spec: GemmSpec) -> Iterator[str | Part]:
    """The types, kernels and functions of one product, in the order in which C wants them."""
    if spec.kernel == "amx":
        yield from amx_pieces(spec)
        return
    plan = plan_gemm(spec)
    yield from _types(spec, plan)
    for rows in sorted({plan.kernel_rows(run) for run in plan.panels}):
        for vectors, tail in _strip_kinds(plan):
            yield _kernel(spec, plan, rows, vectors, tail)
    if plan.pack_b and spec.trans_b:
        yield turn_part(spec.acc, plan.lanes)
    elif plan.pack_b:
        yield "\n".join(pack_rows_function(spec, plan) if plan.whole_b else pack_function(spec, plan))
    yield "\n".join(_driver(spec, plan))


def _scratch(spec: GemmSpec, plan: GemmPlan) -> Iterator[tuple[str, int]]:
    """(name, bytes) of each part of the scratch, in order."""
    for name, length in (("pa", plan.a_length), ("pb", plan.b_length), ("raw", plan.raw_length), ("pc", plan.c_length)):
        if length:
            yield name, (length * spec.acc.bits // 8 + 63) // 64 * 64


def _types(spec: GemmSpec, plan: GemmPlan) -> list[str]:
    """The vector types."""
    return [vector_type(t, plan.lanes) for t in ([spec.acc] if spec.sum == spec.acc else [spec.acc, spec.sum])]


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


def _is_uneven(spec: GemmSpec, plan: GemmPlan) -> bool:
    """Whether a block of k may leave steps that do not fill a turn of the kernel's loop."""
    return spec.k % UNROLL > 0 or plan.k_block % UNROLL > 0


def _kernel_name(spec: GemmSpec, plan: GemmPlan, rows: int, vectors: int, tail: int) -> str:
    """Products of one file share the kernels of the same cut and types."""
    sums = f"_{suffix(spec.sum)}" if spec.sum != spec.acc else ""
    edge = f"_t{tail}" if tail != plan.lanes else ""
    kind = "_columns" * spec.trans_a + "_packed" * plan.pack_b + "_uneven" * _is_uneven(spec, plan)
    return f"twb_{rows}x{vectors}_v{plan.lanes}{suffix(spec.acc)}{sums}{edge}{kind}"


# ---------------------------------------------------------------------------------------------- kernels
NEAR_ROWS = 3  # rows of a that one pointer reaches: with more, gcc keeps sums of strides in memory


def _is_assembly(spec: GemmSpec, plan: GemmPlan, tail: int) -> bool:
    """Whether the kernel stands as assembly: of float32 and float64 in whole vectors of an x86 that multiplies and adds in one instruction."""
    is_whole = tail == plan.lanes and plan.lanes * spec.acc.bits == spec.isa.vector_bytes * 8
    return is_whole and spec.isa.has("fma") and spec.isa.vector_bytes in (32, 64) and spec.acc == spec.sum and str(spec.acc) in ("float32", "float64")


def _kernel(spec: GemmSpec, plan: GemmPlan, rows: int, vectors: int, tail: int) -> Part | str:
    """c[rows][columns] (=|+=) a @ b over `k` steps; `ld*` are row strides, rows of a packed b follow each other.

    The last row is row `last`, which a shorter panel does twice.
    """
    acc, lanes = c_type(spec.acc), plan.lanes
    name = _kernel_name(spec, plan, rows, vectors, tail)
    if _is_assembly(spec, plan, tail):
        uneven, size = _is_uneven(spec, plan), spec.acc.bits // 8
        return X86Kernel(name, acc, size, spec.isa.vector_bytes, rows, vectors, packed=plan.pack_b, uneven=uneven, columns=spec.trans_a).text()
    vector, result = vector_name(spec.acc, lanes), vector_name(spec.sum, lanes)
    at_row = [*map(str, range(rows - 1)), "last"]
    cells = [_Cell(f"c{i}_{j}", f"{at_row[i]} * ldc + {j * lanes}", tail if j == vectors - 1 else lanes) for i in range(rows) for j in range(vectors)]
    converts = spec.sum != spec.acc
    apart = "" if plan.pack_b else "int64_t ldb, "
    parameters = f"int64_t k, const {acc} *a, int64_t lda, const {acc} *b, {apart}{c_type(spec.sum)} *c, int64_t ldc, int64_t last, int clear"
    out = [f"    __builtin_prefetch(c + {i} * ldc, 1);" for i in at_row]
    for i in range(rows):
        out.append(f"    {vector} " + ", ".join(f"{x.name} = {{0}}" for x in cells[i * vectors : (i + 1) * vectors]) + ";")
    steps = _Steps(spec, plan, rows, vectors)
    ask = " ".join(f"__builtin_prefetch(row + {j}, 1);" for j in range(0, vectors * lanes, LINE * 8 // spec.sum.bits))
    out += [
        *(f"    {line}" for line in steps.start()),
        f"    for (int64_t end = k < {LONG} ? k : k - {NEAR_END};; end = k) {{",
        f"        for (; x < end - {UNROLL - 1}; x += {UNROLL}) {{",
        *(f"            {line}" for u in range(UNROLL) for line in steps.step(u)),
        f"            {steps.advance(UNROLL)}",
        "        }",
        "        if (end == k) break;",
        f"        for (int64_t i = 0; i < {rows}; i++) {{ const {c_type(spec.sum)} *row = c + (i < {rows - 1} ? i : last) * ldc; {ask} }}",
        "    }",
    ]  # fmt: skip
    if _is_uneven(spec, plan):
        out += ["    for (; x < k; x++) {", *(f"        {line}" for line in steps.step(0)), f"        {steps.advance(1)}", "    }"]
    if converts:
        out.append(f"    {result} r, old = {{0}};")
        for x in cells:
            out.append(f"    r = __builtin_convertvector({x.name}, {result}); if (!clear) {{ {x.load(result, 'old', lanes)} r += old; }}")
            out.append(f"    {x.store(result, 'r', lanes)}")
    else:
        out += ["    if (!clear) {", *(f"        {x.add(result, lanes)}" for x in cells), "    }"]
        out += [f"    {x.store(result, x.name, lanes)}" for x in cells]
    return Part(f"void {name}({parameters})", (*out, "}"), tuple(_types(spec, plan)))


class _Steps(NamedTuple):
    """The steps of k, with all strides in bytes: an address of a processor then holds as much of the arithmetic as it can."""

    spec: GemmSpec
    plan: GemmPlan
    rows: int
    vectors: int

    @property
    def size(self) -> int:
        return self.spec.acc.bits // 8

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a packed b."""
        return self.vectors * self.plan.lanes * self.size

    @property
    def pointers(self) -> dict[str, str]:
        """The pointers into a that walk along k, and the row (the column of a transposed a) of each."""
        if self.spec.trans_a:
            return {"a0": "0"}
        near = {f"a{i}": f"{i} * lda" for i in range(0, max(self.rows - 1, 1), NEAR_ROWS)}
        return {**near, "a_last": "last * lda"} if self.rows > 1 else near

    def start(self) -> list[str]:
        """The lines before the first step."""
        strides = "lda" if self.plan.pack_b else f"lda *= {self.size}, ldb"
        return [
            f"{strides} *= {self.size}; /* bytes */",
            f"const char *b0 = (const char *)b, {', '.join(f'*{p} = (const char *)a + {row}' for p, row in self.pointers.items())};",
            "int64_t x = 0;",
        ]

    def step(self, u: int) -> list[str]:
        """Step `u` of a turn: one row of b, one value of each row of a."""
        vector, value = vector_name(self.spec.acc, self.plan.lanes), c_type(self.spec.acc)
        is_packed = self.plan.pack_b
        at = f"b0 + {u * self.row_bytes}" if is_packed else "b0"
        parts = range(0, self.row_bytes, self.row_bytes // self.vectors)
        out = ["{", f"    const {vector} " + ", ".join(f"b_{j} = *(const {vector} *)({at} + {byte})" for j, byte in enumerate(parts)) + ";"]
        for i in range(self.rows):
            terms = " ".join(f"c{i}_{j} += v{i} * b_{j};" for j in range(self.vectors))
            out.append(f"    const {vector} v{i} = *(const {value} *)({self._at(i, u)}) - ({vector}){{0}}; {terms}")
        return [*out, *([] if is_packed else ["    b0 += ldb;"]), "}"]

    def _at(self, i: int, u: int) -> str:
        """The address of row i's value in step u."""
        is_last = i > 0 and i == self.rows - 1
        if self.spec.trans_a:
            return f"a0 + {u} * lda + " + (f"last * {self.size}" if is_last else f"{i * self.size}")
        place = "a_last" if is_last else f"a{i - i % NEAR_ROWS} + {i % NEAR_ROWS} * lda"
        return f"{place} + {u * self.size}"

    def advance(self, steps: int) -> str:
        """Walk the pointers `steps` steps on."""
        by = f"{steps} * lda" if self.spec.trans_a else str(steps * self.size)
        return " ".join([*(f"{p} += {by};" for p in self.pointers), *([f"b0 += {steps * self.row_bytes};"] if self.plan.pack_b else [])])


class _Cell(NamedTuple):
    """One accumulator: its variable, where it lies in c, and how many of its lanes exist there."""

    name: str
    offset: str
    width: int

    def load(self, vector: str, into: str, lanes: int) -> str:
        if self.width == lanes:
            return f"{into} = *(const {vector} *)(c + {self.offset});"
        return f"__builtin_memcpy(&{into}, c + {self.offset}, {self.width} * sizeof *c);"

    def add(self, vector: str, lanes: int) -> str:
        if self.width == lanes:
            return f"{self.name} += *(const {vector} *)(c + {self.offset});"
        return f"{{ {vector} old = {{0}}; {self.load(vector, 'old', lanes)} {self.name} += old; }}"

    def store(self, vector: str, value: str, lanes: int) -> str:
        if self.width == lanes:
            return f"*({vector} *)(c + {self.offset}) = {value};"
        return f"__builtin_memcpy(c + {self.offset}, &{value}, {self.width} * sizeof *c);"


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
        out += convert_rows("a", spec.a, spec.lda, "pa", spec.acc, plan.lda, count, length)
    if plan.widen_c:
        out += ["    if (!clear) {", *convert_rows("c", spec.c, spec.ldc, "pc", spec.sum, plan.ldc, spec.m, spec.n, "        "), "    }"]
    blocked = plan.k_block < spec.k
    if blocked:
        out.append(f"    for (int64_t k0 = 0; k0 < {spec.k}; k0 += {plan.k_block}) {{")
        out.append(f"    const int64_t kb = {spec.k} - k0 < {plan.k_block} ? {spec.k} - k0 : {plan.k_block};")
        out.append("    const int first = clear && k0 == 0;")
    if plan.whole_b:
        out += _pack_all(spec, plan, blocked)
        for run in plan.panels:
            out.append(f"    {_each_panel(run)} {{")
            for strip, tail, j in _strips(plan):
                out.append(f"        {j}{_call(spec, plan, run, strip, tail, blocked)}")
            out.append("    }")
    else:
        for strip, tail, j in _strips(plan):
            out.append(f"    {j}{{")
            out += _pack_strip(spec, plan, strip, tail, "pb", blocked) if plan.pack_b else []
            out += [f"        {_each_panel(run)} {_call(spec, plan, run, strip, tail, blocked)}" for run in plan.panels]
            out.append("    }")
    if blocked:
        out.append("    }")
    if plan.widen_c:
        out += convert_rows("pc", spec.sum, plan.ldc, "c", spec.c, spec.ldc, spec.m, spec.n)
    return [*out, "}"]


def _strips(plan: GemmPlan) -> Iterator[tuple[int, int, str]]:
    """(vectors, columns of the last vector, C that runs `j` over their first columns) for the strips of each kind, in order."""
    for run in plan.strips:
        partial = run is plan.strips[-1] and plan.tail != plan.lanes
        first, end = run.first * plan.lanes, (run.first + (run.count - partial) * run.size) * plan.lanes
        if end > first:
            yield run.size, plan.lanes, f"for (int64_t j = {first}; j < {end}; j += {run.size * plan.lanes}) "
        if partial:
            yield run.size, plan.tail, f"for (int64_t j = {end}; j < {end + 1}; j++) "


def _each_panel(run: Run) -> str:
    return f"for (int64_t i = {run.first}; i < {run.first + run.count * run.size}; i += {run.size})"


def _block(spec: GemmSpec, blocked: bool) -> tuple[str, str, str]:
    """Steps of k, the first of them, and whether they start the sum, in C."""
    return ("kb", "k0", "first") if blocked else (str(spec.k), "0", "clear")


def _pack_all(spec: GemmSpec, plan: GemmPlan, blocked: bool) -> list[str]:
    k, k0, _ = _block(spec, blocked)
    if not spec.trans_b:
        return [f"    {gemm_name(spec)}_pack({k}, b + {k0} * {spec.ldb}, pb);"]
    out: list[str] = []
    for strip, tail, j in _strips(plan):
        out += [f"    {j}{{", *_pack_strip(spec, plan, strip, tail, f"pb + j * {plan.k_block}", blocked), "    }"]
    return out


def _pack_strip(spec: GemmSpec, plan: GemmPlan, vectors: int, tail: int, to: str, blocked: bool) -> list[str]:
    """The strip that starts at column `j`, packed at `to`."""
    k, k0, _ = _block(spec, blocked)
    width = vectors * plan.lanes
    have = width - plan.lanes + tail
    b_at = f"b + j * {spec.ldb} + {k0}" if spec.trans_b else f"b + {k0} * {spec.ldb} + j"
    out: list[str] = []
    if plan.raw_ld:
        out += [
            f"        const {c_type(spec.b)} *s = {b_at};",
            f"        for (int64_t q = 0; q < {have}; q++) {{",
            f"            {copy_row(f's + q * {spec.ldb}', spec.b, f'raw + q * {plan.raw_ld}', spec.acc, k)}",
            "        }",
        ]
        b_at = "raw"
    if spec.trans_b:
        return [*out, f"        {turn_name(spec.acc, plan.lanes)}({k}, {width}, {have}, {b_at}, {plan.raw_ld or spec.ldb}, {to});"]
    return [*out, f"        {gemm_name(spec)}_pack({k}, {width}, {have}, {b_at}, {to});"]


def _call(spec: GemmSpec, plan: GemmPlan, panels: Run, vectors: int, tail: int, blocked: bool) -> str:
    """The kernel of the panel at row `i` and the strip at column `j`."""
    k, k0, clear = _block(spec, blocked)
    a, c = ("pa" if plan.pack_a else "a"), ("pc" if plan.widen_c else "c")
    a_at = f"{a} + {k0} * {plan.lda} + i" if spec.trans_a else f"{a} + i * {plan.lda} + {k0}"
    b_at = f"pb + j * {plan.k_block}" if plan.whole_b else "pb" if plan.pack_b else f"b + {k0} * {spec.ldb} + j"
    ldb = "" if plan.pack_b else f"{spec.ldb}, "
    name = _kernel_name(spec, plan, plan.kernel_rows(panels), vectors, tail)
    return f"{name}({k}, {a_at}, {plan.lda}, {b_at}, {ldb}{c} + i * {plan.ldc} + j, {plan.ldc}, {panels.size - 1}, {clear});"
