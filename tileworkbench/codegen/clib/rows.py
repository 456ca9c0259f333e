"""Reductions of a contiguous float32 row with whole vectors: sum, sum and maximum of absolute values, maximum, minimum.

Sums keep four vectors of partial sums. max and min ignore NaN; a row of only NaN gives NaN, which is looked for only when
the result is the identity. The `_nan` functions give NaN if any element is NaN.
"""
from __future__ import annotations

from .function import CFunction, function

_TYPES = """\
typedef float twb_f32x16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t twb_i32x16 __attribute__((vector_size(64), aligned(4), may_alias));
"""
_SUM = """\
twb_f32x16 a = {0}, b = {0}, c = {0}, d = {0};
int64_t i = 0;
for (; i + 64 <= n; i += 64) { a += $load0; b += $load1; c += $load2; d += $load3; }
for (; i + 16 <= n; i += 16) a += $load0;
a = (a + b) + (c + d);
float s = 0;
for (int64_t l = 0; l < n - i; l++) s += $tail;
return s + twb_fold_add_f32(a);"""
_EXTREME = """\
twb_f32x16 a = (twb_f32x16){0} + $identity, b = a, c = a, d = a;
int64_t i = 0;
for (; i + 64 <= n; i += 64) {
    a = twb_pick_${name}_f32($load0, a); b = twb_pick_${name}_f32($load1, b);
    c = twb_pick_${name}_f32($load2, c); d = twb_pick_${name}_f32($load3, d);
}
for (; i + 16 <= n; i += 16) a = twb_pick_${name}_f32($load0, a);
float r = twb_fold_${name}_f32(twb_pick_${name}_f32(twb_pick_${name}_f32(a, b), twb_pick_${name}_f32(c, d)));
for (int64_t l = 0; l < n - i; l++) { const float x = $tail; r = x $sign r ? x : r; }
if (r == $identity) {
    r = __builtin_nanf("");
    for (int64_t l = 0; l < n; l++) r = x_[l] == x_[l] ? $identity : r;
}
return r;"""
_PICK = """\
const twb_i32x16 m = x $sign y;
return (twb_f32x16)((m & (twb_i32x16)x) | (~m & (twb_i32x16)y));"""
_ANY_NAN = """\
float r = $plain(x_, n);
for (int64_t i = 0; i < n; i++) r = x_[i] != x_[i] ? x_[i] : r;
return r;"""


def row_functions() -> tuple[CFunction, ...]:
    """`float twb_row_OP_f32(const float *x, int64_t n)` and the folds of one vector that they end with."""
    folds = tuple(_fold(name, step) for name, step in (("add", "x + y"), ("max", "x > y ? x : y"), ("min", "x < y ? x : y")))
    plain, mask = "*(const twb_f32x16 *)(x_ + i + {})", "(twb_f32x16)(*(const twb_i32x16 *)(x_ + i + {}) & 0x7fffffff)"
    value, magnitude = "x_[i + l]", "__builtin_fabsf(x_[i + l])"
    return (
        *folds,
        function("twb_f32x16 twb_pick_max_f32(twb_f32x16 x, twb_f32x16 y)", _PICK, declares=_TYPES, sign=">"),
        function("twb_f32x16 twb_pick_min_f32(twb_f32x16 x, twb_f32x16 y)", _PICK, declares=_TYPES, sign="<"),
        _row("sum", _SUM, plain, value, "add"),
        _row("abssum", _SUM, mask, magnitude, "add"),
        _row("max", _EXTREME, plain, value, "max", sign=">", identity="-__builtin_inff()"),
        _row("min", _EXTREME, plain, value, "min", sign="<", identity="__builtin_inff()"),
        _row("absmax", _EXTREME, mask, magnitude, "max", sign=">", identity="-__builtin_inff()"),
        *(function(f"float twb_row_{op}_nan_f32(const float *x_, int64_t n)", _ANY_NAN, f"twb_row_{op}_f32", plain=f"twb_row_{op}_f32") for op in ("max", "min", "absmax")),
    )  # fmt: skip


def _row(op: str, body: str, load: str, tail: str, fold: str, **values: str) -> CFunction:
    loads = {f"load{q}": load.format(16 * q) for q in range(4)}
    head = f"float twb_row_{op}_f32(const float *x_, int64_t n)"
    needs = (f"twb_fold_{fold}_f32", *((f"twb_pick_{fold}_f32",) if fold != "add" else ()))
    return function(head, body, *needs, tail=tail, **loads, name=fold, **values)


def _fold(name: str, step: str) -> CFunction:
    """The 16 values of a vector combined in a tree of four steps."""
    lines = ["float t[16];", "__builtin_memcpy(t, &v, sizeof t);"]
    for half in (8, 4, 2, 1):
        lines.append(f"for (int l = 0; l < {half}; l++) {{ const float x = t[l], y = t[l + {half}]; t[l] = {step}; }}")
    return CFunction(f"float twb_fold_{name}_f32(twb_f32x16 v)", "\n".join([*lines, "return t[0];"]), declares=_TYPES)
