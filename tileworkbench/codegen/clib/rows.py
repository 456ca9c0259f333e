"""Reductions of a contiguous float32 row with whole vectors: sum, sum and maximum of absolute values, maximum, minimum, sum of squares.

Sums keep four vectors of partial sums. max and min ignore NaN; a row of only NaN gives NaN, which is looked for only when
the result is the identity. The `_nan` functions give NaN if any element is NaN.
"""

from __future__ import annotations

from .function import CFunction, function

# one register wide: gcc keeps wider vectors in memory, ten times slower
TYPES = """\
#ifndef TWB_LANES
#if defined(__AVX512F__)
#define TWB_LANES 16
#elif defined(__AVX__)
#define TWB_LANES 8
#else
#define TWB_LANES 4
#endif
typedef float twb_vf __attribute__((vector_size(4 * TWB_LANES), aligned(4), may_alias));
typedef int32_t twb_vi __attribute__((vector_size(4 * TWB_LANES), aligned(4), may_alias));
#if __has_builtin(__builtin_shufflevector)
#define TWB_SHUFFLE(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define TWB_SHUFFLE(v, ...) __builtin_shuffle(v, (twb_vi){__VA_ARGS__})
#endif
#endif
"""
_SUM = """\
twb_vf a = {0}, b = {0}, c = {0}, d = {0};
int64_t i = 0;
for (; i + 4 * TWB_LANES <= n; i += 4 * TWB_LANES) { a += $load0; b += $load1; c += $load2; d += $load3; }
for (; i + TWB_LANES <= n; i += TWB_LANES) a += $load0;
a = (a + b) + (c + d);
float s = 0;
for (int64_t l = 0; l < n - i; l++) s += $tail;
return s + twb_fold_add_f32(a);"""
_EXTREME = """\
twb_vf a = (twb_vf){0} + $identity, b = a, c = a, d = a;
int64_t i = 0;
for (; i + 4 * TWB_LANES <= n; i += 4 * TWB_LANES) {
    a = twb_pick_${name}_f32($load0, a); b = twb_pick_${name}_f32($load1, b);
    c = twb_pick_${name}_f32($load2, c); d = twb_pick_${name}_f32($load3, d);
}
for (; i + TWB_LANES <= n; i += TWB_LANES) a = twb_pick_${name}_f32($load0, a);
float r = twb_fold_${name}_f32(twb_pick_${name}_f32(twb_pick_${name}_f32(a, b), twb_pick_${name}_f32(c, d)));
for (int64_t l = 0; l < n - i; l++) { const float x = $tail; r = x $sign r ? x : r; }
return r == $identity ? twb_unless_nan_f32(x_, n, r) : r;"""
# of a row without a value beyond the identity: apart, because it is rare and in its place would cost the compiler as much as the row itself
_UNLESS_NAN = """\
static __attribute__((noinline, cold)) float twb_unless_nan_f32(const float *x, int64_t n, float r) {
    for (int64_t l = 0; l < n; l++) if (x[l] == x[l]) return r;
    return __builtin_nanf("");
}
"""
# x86 has `x > y ? x : y` as one instruction, which gcc 12 does not find in vectors
_PICK = """\
#if TWB_LANES == 16 && !defined(__clang__)
typedef float v16 __attribute__((vector_size(64)));
return (twb_vf)__builtin_ia32_${name}ps512_mask((v16)x, (v16)y, (v16)y, (unsigned short)-1, 4);
#elif TWB_LANES == 8 && !defined(__clang__)
typedef float v8 __attribute__((vector_size(32)));
return (twb_vf)__builtin_ia32_${name}ps256((v8)x, (v8)y);
#else
const twb_vi m = x $sign y;
return (twb_vf)((m & (twb_vi)x) | (~m & (twb_vi)y));
#endif"""
_SQUARES = """\
twb_vf a = {0}, b = {0}, c = {0}, d = {0};
int64_t i = 0;
for (; i + 4 * TWB_LANES <= n; i += 4 * TWB_LANES) {
    $fetch
    const twb_vf s = $load0 - from, t = $load1 - from, u = $load2 - from, v = $load3 - from;
    a += s * s; b += t * t; c += u * u; d += v * v;
}
for (; i + TWB_LANES <= n; i += TWB_LANES) { const twb_vf s = $load0 - from; a += s * s; }
a = (a + b) + (c + d);
float r = 0;
for (int64_t l = 0; l < n - i; l++) { const float x = x_[i + l] - from; r += x * x; }
return r + twb_fold_add_f32(a);"""
_FETCH = " ".join(f"__builtin_prefetch(y + i + {q} * TWB_LANES, 1);" for q in range(4))
_ANY_NAN = """\
float r = $plain(x_, n);
for (int64_t i = 0; i < n; i++) r = x_[i] != x_[i] ? x_[i] : r;
return r;"""


def row_functions() -> tuple[CFunction, ...]:
    """`float twb_row_OP_f32(const float *x, int64_t n)` and the folds of one vector that they end with.

    `twb_row_squares_f32(x, n, from)` sums up (x[i] - from)**2; `twb_row_squares_fetch_f32` also asks for the row `y`, which is written next.
    """
    folds = tuple(_fold(name) for name in ("add", "max", "min"))
    plain, mask = "*(const twb_vf *)(x_ + i + {})", "(twb_vf)(*(const twb_vi *)(x_ + i + {}) & 0x7fffffff)"
    value, magnitude = "x_[i + l]", "__builtin_fabsf(x_[i + l])"
    return (
        *folds,
        function("twb_vf twb_pick_max_f32(twb_vf x, twb_vf y)", _PICK, declares=TYPES, name="max", sign=">"),
        function("twb_vf twb_pick_min_f32(twb_vf x, twb_vf y)", _PICK, declares=TYPES, name="min", sign="<"),
        _row("sum", _SUM, plain, value, "add"),
        _row("abssum", _SUM, mask, magnitude, "add"),
        _row("max", _EXTREME, plain, value, "max", sign=">", identity="-__builtin_inff()"),
        _row("min", _EXTREME, plain, value, "min", sign="<", identity="__builtin_inff()"),
        _row("absmax", _EXTREME, mask, magnitude, "max", sign=">", identity="-__builtin_inff()"),
        *(_any_nan(op) for op in ("max", "min", "absmax")),
        _squares("squares", "", ""),
        _squares("squares_fetch", _FETCH, ", const float *y"),
    )  # fmt: skip


def _row(op: str, body: str, load: str, tail: str, fold: str, **values: str) -> CFunction:
    loads = {f"load{q}": load.format(f"{q} * TWB_LANES") for q in range(4)}
    head = f"float twb_row_{op}_f32(const float *x_, int64_t n)"
    needs = (f"twb_fold_{fold}_f32", *((f"twb_pick_{fold}_f32",) if fold != "add" else ()))
    return function(head, body, *needs, declares=_UNLESS_NAN if body == _EXTREME else "", tail=tail, **loads, name=fold, **values)


def _squares(name: str, fetch: str, more: str) -> CFunction:
    loads = {f"load{q}": f"*(const twb_vf *)(x_ + i + {q} * TWB_LANES)" for q in range(4)}
    return function(f"float twb_row_{name}_f32(const float *x_, int64_t n, float from{more})", _SQUARES, "twb_fold_add_f32", fetch=fetch, **loads)


def _any_nan(op: str) -> CFunction:
    return function(f"float twb_row_{op}_nan_f32(const float *x_, int64_t n)", _ANY_NAN, f"twb_row_{op}_f32", plain=f"twb_row_{op}_f32")


def _fold(name: str) -> CFunction:
    """The values of a vector combined in a tree, each half with the other."""
    lines = []
    for lanes in (16, 8, 4):
        lines.append(f"#{'if' if lanes == 16 else 'elif'} TWB_LANES == {lanes}")
        for half in (h for h in (8, 4, 2, 1) if h < lanes):
            other = f"TWB_SHUFFLE(v, {', '.join(str(lane ^ half) for lane in range(lanes))})"
            lines.append(f"v += {other};" if name == "add" else f"v = twb_pick_{name}_f32(v, {other});")
    needs = () if name == "add" else (f"twb_pick_{name}_f32",)
    return CFunction(f"float twb_fold_{name}_f32(twb_vf v)", "\n".join([*lines, "#endif", "return v[0];"]), needs, declares=TYPES)
