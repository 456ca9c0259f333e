"""Sums of products of several bfloat16 rows with one float32 row.

Memory is all that such a sum waits for. A core takes as much of it as it can only if it always has many lines under way; multiply-adds that wait for
their lines fill its window after two dozen. So each row's lines are asked for some way ahead: 11008 x 4096, one Xeon core, of the rate of a loop that
only reads: 0.94 with asking, 0.82 without, 0.77 as gcc vectorises the loop (2026-12-01, in turns).

Two neighbours of a row are one 32-bit word, whose halves become floats by a shift and a mask; every other element of the float32 row meets each.
"""

from __future__ import annotations

from ...transform.dot_rows import DOTS
from .function import CFunction

# elements from what is read to what is asked for: 256 and 512 do equally well, four times as many are worse
AHEAD = 256
_LINE = 32  # elements of a line of memory
_PAIRS = """\
typedef uint32_t twb_vp __attribute__((vector_size(4 * TWB_LANES), aligned(2), may_alias));
#if __has_builtin(__builtin_shufflevector)
#define TWB_SHUFFLE2(v, w, ...) __builtin_shufflevector(v, w, __VA_ARGS__)
#else
#define TWB_SHUFFLE2(v, w, ...) __builtin_shuffle(v, w, (twb_vi){__VA_ARGS__})
#endif
"""


def dot_functions() -> tuple[CFunction, ...]:
    """`void twb_dots_bf16_R(w, ld, x, n, out)`: `out[r]` is the sum of w[r * ld + i] * x[i] over i < n, for R rows."""
    return (_every_other("even", 0), _every_other("odd", 1), *(_dots(rows) for rows in DOTS))


def _every_other(name: str, first: int) -> CFunction:
    lines = []
    for lanes in (16, 8, 4):
        lines.append(f"#{'if' if lanes == 16 else 'elif'} TWB_LANES == {lanes}")
        lines.append(f"return TWB_SHUFFLE2(v, w, {', '.join(str(lane) for lane in range(first, 2 * lanes, 2))});")
    return CFunction(f"twb_vf twb_{name}_f32(twb_vf v, twb_vf w)", "\n".join([*lines, "#endif"]), ("twb_fold_add_f32",), declares=_PAIRS)


def _dots(rows: int) -> CFunction:
    each = range(rows)
    lines = [
        f"twb_vf {', '.join(f's{r} = {{0}}' for r in each)};",
        "int64_t i = 0;",
        f"for (; i + {_LINE} <= n; i += {_LINE}) {{",
        *(f"    __builtin_prefetch(w + {r} * ld + i + {AHEAD});" for r in each),
        f"    #pragma GCC unroll {_LINE // 8}",
        f"    for (int64_t j = i; j < i + {_LINE}; j += 2 * TWB_LANES) {{",
        "        const twb_vf x0 = *(const twb_vf *)(x + j), x1 = *(const twb_vf *)(x + j + TWB_LANES);",
        "        const twb_vf even = twb_even_f32(x0, x1), odd = twb_odd_f32(x0, x1);",
        "        twb_vp v;",
        *(
            f"        v = *(const twb_vp *)(w + {r} * ld + j); s{r} += (twb_vf)(v << 16) * even; s{r} += (twb_vf)(v & 0xffff0000u) * odd;"
            for r in each
        ),
        "    }",
        "}",
        *(f"out[{r}] = twb_fold_add_f32(s{r});" for r in each),
        f"for (; i < n; i++) for (int r = 0; r < {rows}; r++) out[r] += twb_bf16_to_f32(w[r * ld + i]) * x[i];",
    ]
    head = f"void twb_dots_bf16_{rows}(const uint16_t *w, int64_t ld, const float *x, int64_t n, float *out)"
    return CFunction(head, "\n".join(lines), ("twb_even_f32", "twb_odd_f32", "twb_fold_add_f32", "twb_bf16_to_f32"), declares=_PAIRS)
