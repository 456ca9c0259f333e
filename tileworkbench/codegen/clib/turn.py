"""Transposing a tile of 32-bit elements, and asking for memory ahead of time.

`twb_turn_32` makes vectors of four columns out of 16-byte pieces of rows that lie four apart, and transposes these within each 16 bytes; a
gather of a column would cost ten times as much. `twb_turn_stream_f32` writes whole lines past the caches, asks for the others
four rows ahead (where there are any: a line in a cache is no use to a store past it), and for the next tile meanwhile.
`twb_fetch_f32` and `twb_fetch_to_write_f32` ask for the cache lines of a row's elements.
"""

from __future__ import annotations

from .function import CFunction, apart, function
from .rows import TYPES


def _shuffle(lanes: int, pattern: tuple[int, int, int, int]) -> str:
    """The indices of a two-operand shuffle that does `pattern` within each four lanes; 4 to 7 are the second operand's."""
    return ", ".join(str(p % 4 + 4 * group + (lanes if p >= 4 else 0)) for group in range(lanes // 4) for p in pattern)


def _block(lanes: int, load: str, kind: str = "twb_vf", store: str = "*($kind *)($place) = $value;\n") -> str:
    """Four columns of `lanes` rows of s as four rows of d."""

    def two(x: str, y: str, *pattern: int) -> str:
        return f"__builtin_shufflevector({x}, {y}, {_shuffle(lanes, (pattern[0], pattern[1], pattern[2], pattern[3]))})"

    rows = "".join(f"const {kind} v{q} = {load.replace('$q', str(q))};\n" for q in range(4))
    pairs = f"const {kind} a = {two('v0', 'v1', 0, 4, 1, 5)}, b = {two('v2', 'v3', 0, 4, 1, 5)};\n"
    pairs += f"const {kind} e = {two('v0', 'v1', 2, 6, 3, 7)}, f = {two('v2', 'v3', 2, 6, 3, 7)};\n"
    out = ""
    for n, (x, y, half) in enumerate((("a", "b", 0), ("a", "b", 2), ("e", "f", 0), ("e", "f", 2))):
        made = two(x, y, half, half + 1, half + 4, half + 5)
        out += store.replace("$kind", kind).replace("$place", f"q + {n} * ldd").replace("$value", made)
    return rows + pairs + out


_LOADS = {
    16: "(twb_vf)twb_join4(p + $q * lds, p + ($q + 4) * lds, p + ($q + 8) * lds, p + ($q + 12) * lds)",
    8: "(twb_vf)twb_join2(p + $q * lds, p + ($q + 4) * lds)",
    4: "*(const twb_vf *)(p + $q * lds)",
}
_PAST = "twb_past_f32($place, $value);\n"
_TURN = f"""\
float *const d = to; const float *const s = from; /* nothing is done to an element: any 32 bits */
const int64_t n = rows & -4, m = cols & -TWB_LANES;
for (int64_t i = 0; i < n; i += 4) for (int64_t j = 0; j < m; j += TWB_LANES) {{
const float *const p = s + j * lds + i; float *const q = d + i * ldd + j;
#if TWB_LANES == 16
{_block(16, _LOADS[16])}#elif TWB_LANES == 8
{_block(8, _LOADS[8])}#else
{_block(4, _LOADS[4])}#endif
}}
for (int64_t i = 0; i < rows; i++) for (int64_t j = i < n ? m : 0; j < cols; j++) d[i * ldd + j] = s[j * lds + i];"""

# one vector, which lies where a vector may
_STORE_PAST = """\
typedef float whole __attribute__((vector_size(4 * TWB_LANES), may_alias));
#if defined(__clang__)
__builtin_nontemporal_store((whole)v, (whole *)p);
#elif TWB_LANES == 16
__builtin_ia32_movntps512(p, (whole)v);
#elif TWB_LANES == 8
__builtin_ia32_movntps256(p, (whole)v);
#elif defined(__x86_64__)
__builtin_ia32_movntps(p, (whole)v);
#else
*(whole *)p = (whole)v;
#endif"""
_ONE = "for (int64_t l = 0; l < 4; l++) d[(i + l) * ldd + j] = s[j * lds + i + l];"
_FOUR = (
    f"{{ const float *const p = s + j * lds + i; float *const q = d + i * ldd + j;\n{_block(4, '*(const twb_v4f32 *)(p + $q * lds)', 'twb_v4f32')}}}"
)
_TURN_STREAM = f"""\
const int64_t begun = (-(int64_t)(__INTPTR_TYPE__)d & 63) / 4, head = begun < cols ? begun : cols, n = rows & -4;
for (int64_t i = -4; i < n; i += 4) {{
if (head || cols % 16)
for (int64_t l = i + 4; l < i + 8 && l < rows; l++) {{ __builtin_prefetch(d + l * ldd, 1); __builtin_prefetch(d + l * ldd + cols - 1, 1); }}
if (i < 0) continue;
for (int64_t r = i * cols / rows; r < (i + 4) * cols / rows; r++)
for (int64_t k = 0; k < rows + 15; k += 16) __builtin_prefetch(next + r * ldn + (k < rows ? k : rows - 1), 0, 2);
for (int64_t j = 0; j < cols;) {{
if (j >= head && j + 16 <= cols) {{ for (const int64_t end = j + 16; j < end; j += TWB_LANES) {{
const float *const p = s + j * lds + i; float *const q = d + i * ldd + j;
#if TWB_LANES == 16
{_block(16, _LOADS[16], store=_PAST)}#elif TWB_LANES == 8
{_block(8, _LOADS[8], store=_PAST)}#else
{_block(4, _LOADS[4], store=_PAST)}#endif
}} }}
else if (((head - j) & 3) == 0 && j + 4 <= cols) {{ {_FOUR} j += 4; }}
else {{ {_ONE} j++; }}
}} }}
for (int64_t i = n; i < rows; i++) for (int64_t j = 0; j < cols; j++) d[i * ldd + j] = s[j * lds + i];"""


def turn_functions() -> tuple[CFunction, ...]:
    """`twb_turn_32`: d[i * ldd + j] = s[j * lds + i] for i < rows, j < cols; `twb_fetch*_f32`: the lines of `n` elements of each of `rows` rows.

    `twb_turn_stream_f32` is the first for rows of d that begin alike in a line (ldd is a multiple of 16); `next`, with rows `ldn` apart, is what s
    will be a copy of next. `twb_stream_end` has to follow some time. `twb_ask_ahead`: the lines of `bytes` bytes.
    """

    def fetch(name: str, write: int) -> CFunction:
        line = f"__builtin_prefetch(p + i * ld + (j < n ? j : n - 1), {write});"
        text = f"for (int64_t i = 0; i < rows; i++) for (int64_t j = 0; j < n + 15; j += 16) {line}"
        return function(f"void {name}(const float *p, int64_t ld, int64_t rows, int64_t n)", text)

    return (
        apart(function(
            "void twb_turn_32(void *restrict to, int64_t ldd, const void *restrict from, int64_t lds, int64_t rows, int64_t cols)", _TURN,
            "twb_join4", "twb_join2", declares=TYPES,
        )),
        function("void twb_past_f32(float *p, twb_vf v)", _STORE_PAST, declares=TYPES),
        apart(function(
            "void twb_turn_stream_f32(float *restrict d, int64_t ldd, const float *restrict s, int64_t lds, int64_t rows, int64_t cols, "
            "const float *next, int64_t ldn)",
            _TURN_STREAM, "twb_join4", "twb_join2", "twb_past_f32",
        )),
        fetch("twb_fetch_f32", 0),
        fetch("twb_fetch_to_write_f32", 1),
        function(
            "void twb_ask_ahead(const void *p, int64_t bytes)",
            "for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)p + i);",
        ),
    )  # fmt: skip
