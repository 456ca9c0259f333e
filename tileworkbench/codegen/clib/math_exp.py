"""float32 functions built on e**x and log x, without branches or calls, so that loops over them become vector code.

e**x = 2**n * e**r with n the nearest integer to x / log 2: adding 1.5 * 2**23 rounds and leaves n in the low bits. log x = n log 2 + log m
with m in [2/3, 4/3). The polynomials were fitted to the least relative error of the whole function (minimax by weighted least squares,
coefficients rounded to float32 one after the other; exp2, which softmax waits for, to the least error in units of the last place); log 2 comes in
two parts so that n times the first is exact.
Errors stay below 2 units in the last place (exp: 1, exp2: 1.8, tanh and sigmoid: 2.5, pow: 1; exp2 on processors without fused multiply-add:
2.1; erf, of which GELU needs no more beside its 1: 4); the tests measure them. exp, exp2 and exp10 overflow to infinity where float32 does; results
below 2**-126, the least normal number, are 0, also where they are part of another function (sigmoid).
"""

from __future__ import annotations

from .function import CFunction, function

_INF, _NAN = "__builtin_inff()", '__builtin_nanf("")'


def horner(x: str, coefficients: tuple[str, ...]) -> str:
    """C text of the polynomial with `coefficients` from the constant term up."""
    text = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        text = f"({text} * {x} + {c})" if c[0] != "-" else f"({text} * {x} - {c[1:]})"
    return text


# 1.06 units in the last place; relative errors of the others alone: 3.1e-9, 4.3e-10, 4.7e-9 (half a unit in the last place is 6e-8)
_EXP2 = horner("f", ("0x1.62e424p-1f", "0x1.ebf9b6p-3f", "0x1.c6babap-5f", "0x1.3cec48p-7f", "0x1.5aac90p-10f"))
_EXP = horner("r", ("0x1.fffffcp-2f", "0x1.555492p-3f", "0x1.5558aep-5f", "0x1.123982p-7f", "0x1.6a4eeep-10f"))
_EXPM1 = horner("r", ("0.5f", "0x1.555554p-3f", "0x1.5554f8p-5f", "0x1.1112d8p-7f", "0x1.6d3a44p-10f", "0x1.9e730cp-13f"))
_LOG = horner(
    "f",
    (
        "-0.5f",
        "0x1.555506p-2f",
        "-0x1.fffef8p-3f",
        "0x1.99d052p-3f",
        "-0x1.559cc0p-3f",
        "0x1.1ed52ap-3f",
        "-0x1.f3293ap-4f",
        "0x1.1e6e2ap-3f",
        "-0x1.07d88ap-3f",
    ),
)
# erf(t) / t in v = t * t * (2 / 3.87**2) - 1, which goes from -1 to 1: about the middle, coefficients stay small and their errors do not grow
_ERF = horner("v", (
    "0x1.7628d2p-2f", "-0x1.758352p-3f", "0x1.15b71cp-3f", "-0x1.c2c5bep-4f", "0x1.73c4c6p-4f", "-0x1.2cba10p-4f",
    "0x1.d33466p-5f", "-0x1.574952p-5f", "0x1.d6efa0p-6f", "-0x1.2f474cp-6f", "0x1.7c5e3ep-7f", "-0x1.c2941cp-8f",
    "0x1.a2842ap-9f", "-0x1.30899ap-10f", "0x1.b797eap-11f", "-0x1.6830bep-11f", "0x1.c63814p-13f",
))  # fmt: skip
# 2**f in double, Taylor, |f| <= 1/2; log2((1 + s) / (1 - s)) / s in s * s, |s| <= 1/5
_POW_EXP = horner("f", (
    "1.0", "0x1.62e42fefa39efp-1", "0x1.ebfbdff82c58fp-3", "0x1.c6b08d704a0c0p-5", "0x1.3b2ab6fba4e77p-7", "0x1.5d87fe78a6731p-10",
    "0x1.430912f86c787p-13",
    "0x1.ffcbfc588b0c7p-17", "0x1.62c0223a5c824p-20", "0x1.b5253d395e7c4p-24",
))  # fmt: skip
_POW_LOG = horner("z", tuple(f"(2.8853900817779268 / {2 * i + 1})" for i in range(9)))

_SPLIT = """\
float t = $x * $per + 12582912.0f, n = t - 12582912.0f;
float r = ($x - n * $high) - n * $low;"""
# n is added to the exponent of 2**r, an integer operation; it cannot round to a denormal, and what it makes of infinity and NaN is not used
_SCALE = """
uint32_t u = twb_bits_f32($power) + (twb_bits_f32(t) << 23)$shift;
u = x < $least ? 0 : u;
float e = twb_f32_bits(u);
return x < $most ? e : x * __builtin_inff();"""
_LN2 = {"per": "0x1.715476p+0f", "high": "0x1.62e400p-1f", "low": "0x1.7f7d1cp-20f"}
_LOG_PARTS = """\
float y = x < 0x1p-126f ? x * 0x1p23f : x;
uint32_t u = twb_bits_f32(y);
int32_t e = (int32_t)(u - 0x3f2aaaabu) >> 23;
float f = twb_f32_bits(u - ((uint32_t)e << 23)) - 1.0f, n = (float)(x < 0x1p-126f ? e - 23 : e);
float q = $log * f * f;"""
_LOG_END = f"r = x < {_INF} ? r : x;\nr = x < 0 ? {_NAN} : r;\nreturn x == 0 ? -{_INF} : r;"
_BITS = ("twb_bits_f32", "twb_f32_bits")


def exp_functions() -> tuple[CFunction, ...]:
    """exp exp2 exp10 expm1 sinh cosh tanh sigmoid erf, log log2 log10 log1p asinh acosh atanh, pow, hypot of float32."""
    return (*_exponentials(), *_logarithms(), *_derived(), _pow())


def _exponentials() -> tuple[CFunction, ...]:
    power = f"({_EXP} * r * r + r) + 1.0f"
    clamp = "float y = x < $least ? $least : x;\ny = y > $most ? $most : y;\n"
    return (
        function(
            "float twb_exp_f32(float x)",
            _SPLIT + _SCALE,
            *_BITS, power=power, shift="", least="-0x1.5d589ep+6f", most="0x1.62e430p+6f", x="x", **_LN2,
        ),
        function(
            "float twb_half_exp_f32(float x)",  # e**x / 2
            _SPLIT + _SCALE,
            *_BITS, power=power, shift=" - 0x800000u", least="-0x1.5a92d6p+6f", most="0x1.65a9fap+6f", x="x", **_LN2,
        ),
        function(
            "float twb_exp2_f32(float x)",
            f"float t = x + 12582912.0f, f = x - (t - 12582912.0f);{_SCALE}",
            *_BITS, power=f"{_EXP2} * f + 1.0f", shift="", least="-126.0f", most="128.0f",
        ),
        function(  # s and d may be the same
            "void twb_exp2_row_f32(float *d, const float *s, int64_t n, float before, float factor, float after)", _EXP2_ROW, "twb_exp2_f32",
        ),
        function(
            "float twb_exp10_f32(float x)",
            f"{_SPLIT}\nr = r * 0x1.26bb1cp+1f - r * 0x1.12aabap-25f;{_SCALE}",
            *_BITS, power=power, shift="", least="-0x1.2f7030p+5f", most="0x1.344136p+5f",
            x="x", per="0x1.a934f0p+1f", high="0x1.344000p-2f", low="0x1.3509f8p-18f",
        ),
        # 2**k * (e**r - 1) + (2**k - 1), all halved so that k = 128 does not overflow before its time
        function(
            "float twb_expm1_f32(float x)",
            f"{clamp}{_SPLIT}\nfloat q = {_EXPM1} * r * r + r, s = twb_f32_bits((twb_bits_f32(t) + 126) << 23), v = 2.0f * (s * q + (s - 0.5f));\n"
            "return x == 0 ? x : v;",
            *_BITS, least="-27.0f", most="89.0f", x="y", **_LN2,
        ),
    )  # fmt: skip


# the exponents below -126 are left out, so nothing is a denormal; "not less" is true for NaN
_EXP2_ROW = f"""\
int64_t i = 0;
#if defined(__AVX512DQ__) && !defined(__clang__)
typedef float whole __attribute__((vector_size(64)));
typedef float any __attribute__((vector_size(64), aligned(4), may_alias));
const whole zero = {{0}}, least = zero - 126.0f, b = before - zero, c = factor - zero, a = after - zero;
for (; i + 16 <= n; i += 16) {{
const whole x = ((whole)*(const any *)(s + i) - b) * c - a;
const whole f = __builtin_ia32_reduceps512_mask_round(x, 0, zero, (unsigned short)-1, 4), t = x - f;
const unsigned short normal = __builtin_ia32_cmpps512_mask(x, least, 21, (unsigned short)-1, 4);
*(any *)(d + i) = (any)__builtin_ia32_scalefps512_mask({_EXP2.replace("0x1.5aac90p-10f", "(zero + 0x1.5aac90p-10f)")} * f + 1.0f, t, zero, normal, 4);
}}
#endif
const int64_t rest = n - i;
_Pragma("omp simd")
for (int64_t j = 0; j < rest; j++) d[i + j] = twb_exp2_f32((s[i + j] - before) * factor - after);"""


def _logarithms() -> tuple[CFunction, ...]:
    def by_factor(name: str, high: str, low: str, n_high: str, n_low: str) -> CFunction:
        body = f"{_LOG_PARTS}\nfloat h = f * {high}, d = TWB_FMAF(f, {high}, -h) + f * {low};\n"
        body += f"float r = n * {n_high} + (h + (q * {high} + d + n * {n_low}));\n"
        return function(f"float twb_{name}_f32(float x)", body + _LOG_END, *_BITS, log=_LOG)

    log_body = f"{_LOG_PARTS}\nfloat r = n * 0x1.62e400p-1f + (f + (q + n * 0x1.7f7d1cp-20f));\n{_LOG_END}"
    # the rounding error c of 1 + x is put back to first order
    log1p_body = (
        "float x = 1.0f + a, c = a - (x - 1.0f);\n" + _LOG_PARTS + "\nfloat r = n * 0x1.62e400p-1f + (f + (q + n * 0x1.7f7d1cp-20f + c / x));\n"
        f"r = x < {_INF} ? r : x;\nr = x < 0 ? {_NAN} : r;\nr = x == 0 ? -{_INF} : r;\nreturn a == 0 ? a : r;"
    )
    return (
        function("float twb_log_f32(float x)", log_body, *_BITS, log=_LOG),
        by_factor("log2", "0x1.715476p+0f", "0x1.4ae0c0p-26f", "1.0f", "0.0f"),
        by_factor("log10", "0x1.bcb7b2p-2f", "-0x1.5b235ep-27f", "0x1.344000p-2f", "0x1.3509f8p-18f"),
        function("float twb_log1p_f32(float a)", log1p_body, *_BITS, log=_LOG),
    )


def _derived() -> tuple[CFunction, ...]:
    large = "4096.0f"
    # a NaN is never large, and stays one; from 3.87 on the result is 1
    erf_body = (
        "float a = __builtin_fabsf(x), t = a > 3.87f ? 3.87f : a, v = t * t * 0x1.117ce4p-3f - 1.0f;\n"
        f"float r = t * {_ERF};\nreturn __builtin_copysignf(r > 1.0f ? 1.0f : r, x);"
    )
    return (
        function(
            "float twb_sigmoid_f32(float x)",
            "float e = twb_exp_f32(-__builtin_fabsf(x));\nreturn (x < 0 ? e : 1.0f) / (1.0f + e);",
            "twb_exp_f32",
        ),
        function(
            "float twb_tanh_f32(float x)",
            "float t = twb_expm1_f32(-2.0f * __builtin_fabsf(x));\nreturn __builtin_copysignf(t / (2.0f + t), x);",
            "twb_expm1_f32",
        ),
        function(
            "float twb_sinh_f32(float x)",
            "float a = __builtin_fabsf(x), t = twb_expm1_f32(a < 1.0f ? a : 1.0f), h = twb_half_exp_f32(a);\n"
            "float r = a < 1.0f ? 0.5f * (t + t / (t + 1.0f)) : h - 0.25f / h;\nreturn __builtin_copysignf(r, x);",
            "twb_expm1_f32", "twb_half_exp_f32",
        ),
        function("float twb_cosh_f32(float x)", "float h = twb_half_exp_f32(__builtin_fabsf(x));\nreturn h + 0.25f / h;", "twb_half_exp_f32"),
        function("float twb_erf_f32(float x)", erf_body),
        function(
            "float twb_asinh_f32(float x)",
            f"float a = __builtin_fabsf(x), s = a < {large} ? a * a : 0.0f;\n"
            "float near = twb_log1p_f32(a + s / (1.0f + __builtin_sqrtf(s + 1.0f)));\n"
            f"return __builtin_copysignf(a < {large} ? near : twb_log_f32(a) + 0x1.62e430p-1f, x);",
            "twb_log1p_f32", "twb_log_f32",
        ),
        function(
            "float twb_acosh_f32(float x)",
            f"float t = x < {large} ? x - 1.0f : 0.0f, near = twb_log1p_f32(t + __builtin_sqrtf(2.0f * t + t * t));\n"
            f"near = x < 1.0f ? {_NAN} : near;\nreturn x < {large} ? near : twb_log_f32(x) + 0x1.62e430p-1f;",
            "twb_log1p_f32", "twb_log_f32",
        ),
        function(
            "float twb_atanh_f32(float x)",
            "float a = __builtin_fabsf(x);\nreturn __builtin_copysignf(0.5f * twb_log1p_f32(2.0f * a / (1.0f - a)), x);",
            "twb_log1p_f32",
        ),
        function(
            "float twb_hypot_f32(float a, float b)",
            f"float r = (float)__builtin_sqrt((double)a * a + (double)b * b);\n"
            f"return __builtin_fabsf(a) == {_INF} || __builtin_fabsf(b) == {_INF} ? {_INF} : r;",
        ),
    )  # fmt: skip


def _pow() -> CFunction:
    """Through double, in which every finite float32 is normal; the special cases are those of C."""
    body = f"""\
double x = __builtin_fabs((double)a);
uint64_t u = twb_bits_f64(x);
int64_t e = (int64_t)(u - 0x3fe5555555555555ull) >> 52;
double m = twb_f64_bits(u - ((uint64_t)e << 52)), s = (m - 1.0) / (m + 1.0), z = s * s;
double y = (double)b * ((double)(int32_t)e + {_POW_LOG} * s);
y = y > -200.0 ? y : -200.0;
y = y < 200.0 ? y : 200.0;
double t = y + 0x1.8p52, f = y - (t - 0x1.8p52);
float r = (float)({_POW_EXP} * twb_f64_bits((twb_bits_f64(t) + 1023) << 52));
float half = 0.5f * b, odd = __builtin_truncf(b) == b && __builtin_truncf(half) != half, inf = {_INF};
r = x == 0 ? (b < 0 ? inf : 0.0f) : r;
r = x == inf ? (b < 0 ? 0.0f : inf) : r;
r = __builtin_fabsf(b) == inf ? (x == 1 ? 1.0f : (x > 1) == (b > 0) ? inf : 0.0f) : r;
r = a < 0 && x < inf && __builtin_truncf(b) != b ? {_NAN} : r;
r = odd != 0 ? __builtin_copysignf(r, a) : r;
r = a != a || b != b ? {_NAN} : r;
return b == 0 || a == 1 ? 1.0f : r;"""
    return function("float twb_pow_f32(float a, float b)", body, "twb_bits_f64", "twb_f64_bits")
