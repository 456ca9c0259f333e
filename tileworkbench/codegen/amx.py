"""C text of a tile product on AMX, Intel's matrix unit: bfloat16 into float32, 8-bit integers into int32.

The unit multiplies a (16 rows) x (64 bytes of k) tile by a (64 bytes of k) x (16 columns) one, and adds to 16 x 16 results of 32 bits. Eight tile
registers hold a block of 2 x 2 results, two tiles of a and two of b.

    b packed to strips of 16 columns: [strip][k / group][column][group], where a group is the k of one 32-bit word
    for each two panels of 16 rows: a read in place if its rows begin at cache lines; else packed, tile after tile, and padded with zeros
        for each two strips: the kernel, over all of k; results that are not whole tiles of c's own type go through a block in scratch

The instructions stand as assembly, so no header and no compiler flag is needed. Linux hands the tiles out on request: the text asks when its library
is loaded, and `base.cpu` names the feature only where the request was granted. Products of bfloat16 treat subnormal numbers as 0 (TDPBF16PS, Intel 64
and IA-32 Architectures Software Developer's Manual, volume 2).

>>> from tileworkbench.base.cpu import AMX
>>> spec = GemmSpec(64, 64, 64, DType("bfloat16"), DType("bfloat16"), DType("float32"), 64, 64, 64, isa=AMX)
>>> spec.kernel, amx_scratch_bytes(spec)
('amx', 8192)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..base.dtypes import DType
from .clib import c_type, suffix
from .gemm_pack import copy_needs, copy_row, turn_name, turn_needs, turn_part, vector_type
from .gemm_plan import GemmSpec, gemm_name, plan_gemm
from .parts import Part

ROWS = 16  # of a tile, and its columns of 32-bit results
DEPTH_BYTES = 64  # of k in a tile
TURN = 2  # vectors of each strip that one turn of the packing loop stores: neighbours, which go to the next cache together
_PRODUCTS = {("bf16", "bf16"): "tdpbf16ps", ("i8", "i8"): "tdpbssd", ("u8", "i8"): "tdpbusd", ("i8", "u8"): "tdpbsud", ("u8", "u8"): "tdpbuud"}


LONG = 8  # steps in which lines of c arrive that were asked for
PACKED_LEAST = 192  # columns of b that make up for packing a: in place, each row of a tile would be two cache lines


@dataclass(frozen=True, slots=True)
class _Plan:
    """Sizes rounded up to whole tiles, in elements.

    `packs_a`: a panel of a is packed before use, with `asks` only if a does not begin at a cache line; `blocks_c`: c is brought a block at a time.
    """

    m: int
    n: int
    k: int
    group: int
    depth: int
    packs_a: bool
    asks: bool
    blocks_c: bool


def _plan(spec: GemmSpec) -> _Plan:
    size = spec.a.bits // 8
    depth = DEPTH_BYTES // size
    m, n, k = (-(-x // unit) * unit for x, unit in ((spec.m, ROWS), (spec.n, ROWS), (spec.k, depth)))
    must = spec.trans_a or (m, k) != (spec.m, spec.k)
    splits = spec.lda * size % DEPTH_BYTES > 0
    packs_a = must or (spec.n >= PACKED_LEAST and (splits or spec.far_a))
    blocks_c = (m, n) != (spec.m, spec.n) or suffix(spec.c) != suffix(spec.sum)
    return _Plan(m, n, k, 4 // size, depth, packs_a, packs_a and not must and not splits, blocks_c)


def amx_needs(spec: GemmSpec) -> tuple[str, ...]:
    """Names of the library functions that the text calls."""
    names = [*copy_needs(spec.c, spec.sum), *copy_needs(spec.sum, spec.c)] if suffix(spec.c) != suffix(spec.sum) else []
    turned = _turned(spec)
    if turned is not None:
        names += turn_needs(turned.acc, plan_gemm(turned).lanes)
    return tuple(dict.fromkeys(names))


def amx_scratch_bytes(spec: GemmSpec) -> int:
    """Bytes of 64-byte aligned scratch that the product needs."""
    return sum(size for _, _, size in _scratch(spec, _plan(spec)))


def _scratch(spec: GemmSpec, plan: _Plan) -> Iterator[tuple[str, str, int]]:
    """(name, C type, bytes) of each part of the scratch, in order."""
    size = spec.a.bits // 8
    yield "pb", c_type(spec.b), plan.n * plan.k * size
    if plan.packs_a:
        yield "pa", c_type(spec.a), 2 * ROWS * plan.k * size
    if plan.blocks_c:
        yield "pc", c_type(spec.sum), 4 * ROWS * ROWS * 4


def amx_pieces(spec: GemmSpec) -> Iterator[str | Part]:
    """The types, kernels and functions of one product, as `microgemm.gemm_text` puts them together."""
    plan, product = _plan(spec), _PRODUCTS[suffix(spec.a), suffix(spec.b)]
    turned = _turned(spec)
    yield _HEAD
    yield from (_kernel(product, rows, columns) for rows in (1, 2) for columns in (1, 2))
    if turned is not None:
        lanes = plan_gemm(turned).lanes
        yield vector_type(turned.acc, lanes)
        yield turn_part(turned.acc, lanes)
    elif not spec.trans_b:
        yield "\n".join(_pack(spec, plan))
    if plan.packs_a:
        yield "\n".join(_pack_a(spec, plan))
    if plan.blocks_c:
        yield "\n".join(_move_c(spec))
    yield "\n".join(_driver(spec, plan, product, turned))


_HEAD = """\
extern long syscall(long, ...);
static __attribute__((constructor)) void twb_amx_ask(void) { syscall(158, 0x1023L, 18L); }
static const struct __attribute__((packed)) { uint8_t palette, start, rest[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } twb_amx_tiles = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};"""


def _kernel(product: str, rows: int, columns: int) -> str:
    """A block of `rows` x `columns` tiles of results over `steps` tiles of k. Strides in bytes; `keep` adds to what c holds."""
    name = f"twb_amx_{product}_{rows}x{columns}"
    at = [(i, j, f"c + {i * ROWS} * c_row + {j * 64}") for i in range(rows) for j in range(columns)]

    def move(instruction: str, tile: int, place: str, row: str) -> str:
        operands = f"(%0,%1,1),%%tmm{tile}" if instruction == "tileloadd" else f"%%tmm{tile},(%0,%1,1)"
        return f'__asm__ volatile("{instruction} {operands}" : : "r"({place}), "r"({row}) : "memory");'

    loads = " ".join(move("tileloadd", 2 * i + j, place, "c_row") for i, j, place in at)
    zeros = " ".join(f'__asm__ volatile("tilezero %%tmm{2 * i + j}" : : );' for i, j, _ in at)
    step = []
    for i in range(rows):
        step.append(move("tileloadd", 4 + i, f"a + {i} * a_tile", "a_row"))
        for j in range(columns):
            if i == 0:
                step.append(move("tileloadd", 6 + j, f"b + {j} * b_strip", "(int64_t)64"))
            step.append(f'__asm__ volatile("{product} %%tmm{6 + j},%%tmm{4 + i},%%tmm{2 * i + j}" : : );')
    stores = [move("tilestored", 2 * i + j, place, "c_row") for i, j, place in at]
    of_a = "const char *a, int64_t a_row, int64_t a_tile, int64_t a_step"
    parameters = f"int64_t steps, {of_a}, const char *b, int64_t b_strip, char *c, int64_t c_row, int keep"
    body = [
        f"static __attribute__((noinline, unused)) void {name}({parameters}) {{",
        f"    if (keep) {{ {loads} }} else {{ {zeros} }}", "    (void)a_tile, (void)b_strip;", "    for (; steps; steps--, a += a_step, b += 1024) {",
        *(f"        {x}" for x in step), "    }", *(f"    {x}" for x in stores), "}",
    ]  # fmt: skip
    return "\n".join(body)


# ---------------------------------------------------------------------------------------------- packing b
def _turned(spec: GemmSpec) -> GemmSpec | None:
    """For a transposed b whose rows hold whole 32-bit words: the product of words whose packing is the same; None where there is none."""
    group = 32 // spec.b.bits
    if not spec.trans_b or spec.k % group or spec.ldb % group:
        return None
    word = DType("float32")
    return GemmSpec(ROWS, ROWS, spec.k // group, word, word, word, ROWS, spec.ldb // group, ROWS, trans_b=True, isa=spec.isa)


def _pack(spec: GemmSpec, plan: _Plan) -> list[str]:
    """Words of a b in rows: `group` rows are interleaved, 16 columns at a time; row by row, as b lies in memory."""
    kind, group = c_type(spec.b), plan.group
    vector, wide = f"twb_p16{suffix(spec.b)}", f"twb_p{16 * group}{suffix(spec.b)}"
    size = spec.b.bits // 8
    whole = spec.n // 16 * 16
    rest = f"for (int64_t x = 0; x < {16 * TURN}; x++) for (int64_t v = 0; v < {group}; v++)"
    rows = [", ".join(f"r{i} = *(const {vector} *)(s + {(y * group + i) * spec.ldb})" for i in range(group)) for y in range(TURN)]
    words = [f"            {{ const {vector} {rows[y]}; {' '.join(_words(group, wide, 16 * group * y))} }}" for y in range(TURN)]
    return [
        f"typedef {kind} {vector} __attribute__((vector_size({16 * size}), aligned({size}), may_alias));",
        f"typedef {kind} {wide} __attribute__((vector_size(64), may_alias));",
        f"static __attribute__((noinline)) void {gemm_name(spec)}_pack(const {kind} *b, {kind} *to) {{",
        f"    for (int64_t q = 0; q < {plan.k // group}; q += {TURN}, to += {16 * group * TURN}) {{",
        "        int64_t j = 0;",
        f"        {kind} *p = to;",
        "#if __has_builtin(__builtin_shufflevector)",
        f"        if (q + {TURN - 1} < {spec.k // group}) for (; j < {whole}; j += 16, p += {16 * plan.k}) {{",
        f"            const {kind} *s = b + q * {group * spec.ldb} + j;",
        *words,
        "        }",
        "#endif",
        f"        for (; j < {plan.n}; j += 16, p += {16 * plan.k}) {rest} {{",
        f"            const int64_t r = (q + x / 16) * {group} + v;",
        f"            p[x * {group} + v] = r < {spec.k} && j + x % 16 < {spec.n} ? b[r * {spec.ldb} + j + x % 16] : 0;",
        "        }",
        "    }",
        "}",
    ]


def _words(group: int, wide: str, offset: int) -> list[str]:
    """The rows r0.. of 16 columns, interleaved to one vector of 64 bytes and stored at `p + offset`."""
    if group == 2:
        picks = [x // 2 + 16 * (x % 2) for x in range(32)]
        return [f"*({wide} *)(p + {offset}) = __builtin_shufflevector(r0, r1, {', '.join(map(str, picks))});"]
    pairs = [x // 2 + 16 * (x % 2) for x in range(32)]
    joined = [4 * (x // 4) // 2 + x % 2 + 32 * (x % 4 // 2) for x in range(64)]
    return [
        f"const __auto_type lo = __builtin_shufflevector(r0, r1, {', '.join(map(str, pairs))});",
        f"const __auto_type hi = __builtin_shufflevector(r2, r3, {', '.join(map(str, pairs))});",
        f"*({wide} *)(p + {offset}) = __builtin_shufflevector(lo, hi, {', '.join(map(str, joined))});",
    ]


# ---------------------------------------------------------------------------------------------- a and c
def _pack_a(spec: GemmSpec, plan: _Plan) -> list[str]:
    """Rows from `i` on, of which `count` are wanted: [step][row][64 bytes]; what does not exist becomes 0."""
    kind, step = c_type(spec.a), 2 * ROWS * plan.depth
    out = [f"static __attribute__((noinline)) void {gemm_name(spec)}_rows(const {kind} *a, int64_t i, int64_t count, {kind} *to) {{"]
    if spec.trans_a or (plan.m, plan.k) != (spec.m, spec.k):
        source = f"a[q * {spec.lda} + i + r]" if spec.trans_a else f"a[(i + r) * {spec.lda} + q]"
        return [
            *out,
            f"    for (int64_t r = 0; r < count; r++) for (int64_t q = 0; q < {plan.k}; q++)",
            f"        to[q / {plan.depth} * {step} + r * {plan.depth} + q % {plan.depth}] = i + r < {spec.m} && q < {spec.k} ? {source} : 0;",
            "}",
        ]
    return [
        *out,
        f"    for (int64_t r = 0; r < count; r++) for (int64_t q = 0; q < {plan.k // plan.depth}; q++)",
        f"        __builtin_memcpy(to + q * {step} + r * {plan.depth}, a + (i + r) * {spec.lda} + q * {plan.depth}, {DEPTH_BYTES});",
        "}",
    ]


def _move_c(spec: GemmSpec) -> list[str]:
    """A block of c that exists, from or to the block in scratch."""
    c, total, width = c_type(spec.c), c_type(spec.sum), "columns" if spec.n % (2 * ROWS) else str(2 * ROWS)
    head = f"static __attribute__((noinline)) void {gemm_name(spec)}"
    old = copy_row(f"c + r * {spec.ldc}", spec.c, f"pc + r * {2 * ROWS}", spec.sum, width)
    new = copy_row(f"pc + r * {2 * ROWS}", spec.sum, f"c + r * {spec.ldc}", spec.c, width)
    rows = "for (int64_t r = 0; r < rows; r++)"
    return [
        f"{head}_old(const {c} *c, {total} *pc, int64_t rows, int64_t columns) {{",
        f"    (void)columns; {rows} {{ {old} }}",
        "}",
        f"{head}_new(const {total} *pc, {c} *c, int64_t rows, int64_t columns) {{",
        f"    (void)columns; {rows} {{ {new} }}",
        "}",
    ]


# ---------------------------------------------------------------------------------------------- driver
def _driver(spec: GemmSpec, plan: _Plan, product: str, turned: GemmSpec | None) -> list[str]:
    a, b, c = c_type(spec.a), c_type(spec.b), c_type(spec.c)
    out = [f"static __attribute__((noinline, unused)) void {gemm_name(spec)}(const {a} *a, const {b} *b, {c} *c, int clear, char *scratch) {{"]
    offset = 0
    for name, kind, size in _scratch(spec, plan):
        out.append(f"    {kind} *{name} = ({kind} *)(scratch + {offset});")
        offset += size
    out += _bring_b(spec, plan, turned)
    out.append('    __asm__ volatile("ldtilecfg %0" : : "m"(twb_amx_tiles));')
    for i, rows in _blocks(plan.m):
        out.append(f"    for (int64_t i = {i[0]}; i < {i[1]}; i += {ROWS * rows}) {{")
        out += _bring_a(spec, plan, ROWS * rows)
        for j, columns in _blocks(plan.n):
            out.append(f"        for (int64_t j = {j[0]}; j < {j[1]}; j += {ROWS * columns}) {{")
            out += [f"            {line}" for line in _block(spec, plan, product, rows, columns)]
            out.append("        }")
        out.append("    }")
    return [*out, '    __asm__ volatile("tilerelease" : : );', "}"]


def _block(spec: GemmSpec, plan: _Plan, product: str, rows: int, columns: int) -> list[str]:
    """The product of the panel at row `i` and the strips at column `j`."""
    size, strip = spec.a.bits // 8, 16 * plan.k * spec.b.bits // 8
    place = f"at, row, tile, step, (const char *)pb + j / 16 * {strip}, {strip}"
    call = f"twb_amx_{product}_{rows}x{columns}({plan.k * size // DEPTH_BYTES}, {place}"
    if not plan.blocks_c:
        return [f"{call}, (char *)(c + i * {spec.ldc} + j), {spec.ldc * 4}, !clear);"]
    m, n = ROWS * rows, ROWS * columns
    some = f"{spec.m} - i < {m} ? {spec.m} - i : {m}" if spec.m % m else str(m)
    wide = f"{spec.n} - j < {n} ? {spec.n} - j : {n}" if spec.n % n else str(n)
    c_at = f"c + i * {spec.ldc} + j"
    ask = f"for (int64_t r = 0; r < ({some}); r++) __builtin_prefetch({c_at} + r * {spec.ldc}, 1);"
    return [
        *([ask] if plan.k >= LONG * plan.depth else []),
        f"if (!clear) {gemm_name(spec)}_old({c_at}, pc, {some}, {wide});",
        f"{call}, (char *)pc, {2 * ROWS * 4}, !clear);",
        f"{gemm_name(spec)}_new(pc, {c_at}, {some}, {wide});",
    ]


def _blocks(total: int) -> list[tuple[tuple[int, int], int]]:
    """((first, end), tiles of a block): pairs of tiles, then the odd one."""
    even = total // 32 * 32
    return [(span, tiles) for span, tiles in (((0, even), 2), ((even, total), 1)) if span[0] < span[1]]


def _bring_a(spec: GemmSpec, plan: _Plan, rows: int) -> list[str]:
    """Where the kernel finds the panel at row `i`."""
    line = spec.lda * spec.a.bits // 8
    packed = f"{gemm_name(spec)}_rows(a, i, {rows}, pa);"
    if plan.packs_a and not plan.asks:
        return [
            f"        {packed}",
            f"        const char *at = (const char *)pa; const int64_t row = 64, tile = {ROWS * 64}, step = {2 * ROWS * 64};",
        ]
    out = [f"        const char *at = (const char *)(a + i * {spec.lda}); int64_t row = {line}, tile = {ROWS * line}, step = 64;"]
    if plan.asks:
        out.append(f"        if ((uint64_t)at % 64) {{ {packed} at = (const char *)pa; row = 64; tile = {ROWS * 64}; step = {2 * ROWS * 64}; }}")
    return out


def _bring_b(spec: GemmSpec, plan: _Plan, turned: GemmSpec | None) -> list[str]:
    if not spec.trans_b:
        return [f"    {gemm_name(spec)}_pack(b, pb);"]
    words = plan.k // plan.group
    if turned is None:
        return [
            f"    for (int64_t j = 0; j < {plan.n}; j++) for (int64_t q = 0; q < {plan.k}; q++)",
            f"        pb[j / 16 * {16 * plan.k} + (q / {plan.group} * 16 + j % 16) * {plan.group} + q % {plan.group}] = "
            f"j < {spec.n} && q < {spec.k} ? b[j * {spec.ldb} + q] : 0;",
        ]
    turn = turn_name(turned.acc, plan_gemm(turned).lanes)
    return [
        f"    for (int64_t j = 0; j < {plan.n}; j += 16) {{",
        f"        float *p = (float *)pb + j * {words};",
        f"        {turn}({turned.k}, 16, {spec.n} - j < 16 ? {spec.n} - j : 16, (const float *)b + j * {turned.ldb}, {turned.ldb}, p);",
        f"        for (int64_t q = {16 * turned.k}; q < {16 * words}; q++) p[q] = 0;",
        "    }",
    ]
