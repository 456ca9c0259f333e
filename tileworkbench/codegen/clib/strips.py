"""Reductions of sixteen float32 rows at once, which share the work of folding a vector to one number.

Each row becomes a vector of partial results; rows do not wait for each other, so the processor keeps several going. Then, in four rounds, halves
(quarters, eighths, single lanes) of two rows' vectors are brought side by side and combined, so that the last vector holds row by row what each row
comes to. Rules for NaN are those of `twb_row_*`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .function import CFunction, apart, function

_ROWS = """\
#if TWB_LANES == 16 && __has_builtin(__builtin_shufflevector)
twb_vf v[16];
for (int r = 0; r < 16; r++) {
    const float *const y = x_ + r * ld;
    twb_vf a = (twb_vf){0} + $identity;
    for (int64_t i = 0; i + 16 <= n; i += 16) a = $more;
    v[r] = a;
}
$tree
*(twb_vf *)out = v[0];
for (int r = 0; r < 16; r++) {
    for (int64_t i = n & -16; i < n; i++) { const float x = out[r], y = x_[r * ld + i]; out[r] = $step; }
$last}
#else
for (int r = 0; r < 16; r++) out[r] = twb_row_${op}_f32(x_ + r * ld, n);
#endif"""


def strip_functions() -> tuple[CFunction, ...]:
    """`void twb_rows_OP_f32(x, ld, n, out)`: `out[r]` is the reduction of row r, which starts `r * ld` elements after the first."""
    return (
        _rows("sum", "0.0f", "x + y", lambda x, y: f"{x} + {y}"),
        _rows("max", "-__builtin_inff()", "y > x ? y : x", lambda x, y: f"twb_pick_max_f32({x}, {y})"),
        _rows("min", "__builtin_inff()", "y < x ? y : x", lambda x, y: f"twb_pick_min_f32({x}, {y})"),
    )


def _rows(op: str, identity: str, step: str, two: Callable[[str, str], str]) -> CFunction:
    unless_nan = f"    if (out[r] == {identity}) out[r] = twb_unless_nan_f32(x_ + r * ld, n, out[r]);\n"
    made = function(
        f"TWB_PLAIN void twb_rows_{op}_f32(const float *x_, int64_t ld, int64_t n, float *out)",
        _ROWS,
        f"twb_row_{op}_f32",
        op=op,
        identity=identity,
        more=two("*(const twb_vf *)(y + i)", "a"),
        tree="\n".join(_tree(two)),
        step=step,
        last="" if op == "sum" else unless_nan,
    )
    return apart(made)


def _tree(two: Callable[[str, str], str]) -> Iterator[str]:
    """Loops after which lane r of v[0] combines all lanes of what v[r] was."""
    for distance in (8, 4, 2, 1):
        blocks = range(0, 16, 2 * distance)
        # of rows r and r + distance: the first halves of each block, and the second halves
        picks = [", ".join(str(b + x + row) for b in blocks for row in (0, 16) for x in range(half, half + distance)) for half in (0, distance)]
        sides = [f"__builtin_shufflevector(v[r], v[r + {distance}], {p})" for p in picks]
        yield f"for (int r = 0; r < {distance}; r++) v[r] = {two(*sides)};"
