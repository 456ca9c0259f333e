"""Float functions. On a GPU those of CUDA's own library, in the emulator those of the C library: they agree to a few units of the last place.

exp2 of float32, which softmax waits for, is one instruction of a GPU: within 2 units in the last place, as exp2f of CUDA is, and 0 below 2**-126, the least
normal number, as on the C target. (Source: CUDA C++ Programming Guide, "Mathematical Functions"; exp2f takes four instructions, for denormals alone.)

`erf_short`, `tanh_short` and `sigmoid_short` are for results that are soon rounded to 16 bits. erf: 13 instructions without a choice between polynomials,
where CUDA's erff has 24, eight of which choose coefficients at half the rate of others; tanh and sigmoid: one reciprocal, no division. Relative errors are
below 2**-15, and 1 - |erf| and 1 - |tanh|, where they are small, are right to 2**-16 of themselves or to the last place of 1.

`*_approx` are single instructions of a GPU with some 22 good bits that flush denormals; the emulator computes them exactly and flushes alike. What is
made of them may lose denormals too.
"""

from __future__ import annotations

from .function import DeviceFunction, pair, same

# log2(erfc(a)) / a in powers of a, fitted up to 4.2 to the least of the two errors above, and under -26.5 beyond; the first is the slope of erf at 0
_SLOPE = "1.1283792f"
_ERFC = ("-0x1.a0bf6ap+0f", "-0x1.d60130p-1f", "-0x1.349ac2p-3f", "0x1.09527ep-5f", "-0x1.2adf18p-8f", "0x1.6a1976p-12f", "-0x1.25545cp-17f")

# e**(-2a) = 2**(-2a / log 2); near 0, where 1 - r loses digits, a line. The divisors are from 1 to 2, so that no reciprocal overflows
_TANH_SHORT = """\
float a = twb_abs_f32(x), t = twb_exp2_approx(a * -2.8853900f), r = 1.0f - (t + t) * twb_rcp_approx(1.0f + t);
return twb_copysign_f32(a < 0.0078125f ? a : r, x);"""
_SIGMOID_SHORT = "float e = twb_exp_f32(-twb_abs_f32(x)); return (x < 0 ? e : 1.0f) * twb_rcp_approx(1.0f + e);"

UNARY = (
    "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf", "sqrt", "floor", "ceil", "trunc", "nearbyint", "round",
)  # fmt: skip
BINARY = ("pow", "atan2", "fmod", "hypot", "copysign")


def math_functions() -> tuple[DeviceFunction, ...]:
    """Everything on float32 and float64, then the approximations of float32."""
    return (*_of("f32", "float", "f"), *_of("f64", "double", ""), *_approximations())


def _of(short: str, kind: str, f: str) -> tuple[DeviceFunction, ...]:
    half = "0.5f" if f else "0.5"

    def emulated(name: str) -> str:
        return f"return __builtin_pow{f}(10, x);" if name == "exp10" else f"return __builtin_{name}{f}(x);"

    unary = [
        pair(f"{kind} twb_{n}_{short}({kind} x)", f"return {n}{f}(x);", emulated(n), f"{n} of {kind}.")
        for n in UNARY
        if (n, short) != ("exp2", "f32")
    ]
    if f:
        what = "exp2 of float, 0 where that is not normal."
        needs: tuple[str, ...] = ("twb_abs_f32", "twb_exp2_approx", "twb_copysign_f32")
        unary.append(same("float twb_erf_short_f32(float x)", _erf_short(), "erf, to the digits of a float16.", *needs))
        needs = (*needs, "twb_rcp_approx")
        unary.append(same("float twb_tanh_short_f32(float x)", _TANH_SHORT, "tanh, to the digits of a float16.", *needs))
        needs = ("twb_abs_f32", "twb_exp_f32", "twb_rcp_approx")
        unary.append(same("float twb_sigmoid_short_f32(float x)", _SIGMOID_SHORT, "1 / (1 + exp(-x)), to the digits of a float16.", *needs))
        unary.append(same("float twb_exp2_f32(float x)", "return twb_exp2_approx(x);", what, "twb_exp2_approx"))
    binary = [
        pair(f"{kind} twb_{n}_{short}({kind} a, {kind} b)", f"return {n}{f}(a, b);", f"return __builtin_{n}{f}(a, b);", f"{n} of {kind}.")
        for n in BINARY
    ]
    fmod, b, x = f"twb_fmod_{short}", f"({kind} a, {kind} b)", f"({kind} x)"
    return (
        *unary,
        *binary,
        pair(
            f"{kind} twb_fma_{short}({kind} a, {kind} b, {kind} c)",
            f"return fma{f}(a, b, c);",
            f"return __builtin_fma{f}(a, b, c);",
            "a * b + c, rounded once.",
        ),
        pair(f"{kind} twb_abs_{short}{x}", f"return fabs{f}(x);", f"return __builtin_fabs{f}(x);", "The value without its sign."),
        pair(f"{kind} twb_rsqrt_{short}{x}", f"return rsqrt{f}(x);", f"return 1 / __builtin_sqrt{f}(x);", "1 / sqrt(x)."),
        pair(
            f"{kind} twb_min_{short}{b}",
            f"return fmin{f}(a, b);",
            f"{kind} m = a < b ? a : b; return b != b ? a : m;",
            "The smaller; a NaN gives way to a number.",
        ),
        pair(
            f"{kind} twb_max_{short}{b}",
            f"return fmax{f}(a, b);",
            f"{kind} m = a > b ? a : b; return b != b ? a : m;",
            "The larger; a NaN gives way to a number.",
        ),
        same(
            f"{kind} twb_sigmoid_{short}{x}",
            f"{kind} e = twb_exp_{short}(-twb_abs_{short}(x)); return (x < 0 ? e : 1) / (1 + e);",
            "1 / (1 + exp(-x)).",
            f"twb_exp_{short}",
            f"twb_abs_{short}",
        ),
        same(f"uint8_t twb_isnan_{short}{x}", "return x != x;", "Whether it is no number."),
        same(f"uint8_t twb_isinf_{short}{x}", "return x == x && x - x != 0;".replace("x - x != 0", "(x - x) != (x - x)"), "Whether it is infinite."),
        same(f"uint8_t twb_isfinite_{short}{x}", "return x - x == 0;", "Whether it is a finite number."),
        same(f"{kind} twb_truncdiv_{short}{b}", f"return twb_trunc_{short}(a / b);", "a / b without its fraction.", f"twb_trunc_{short}"),
        same(f"{kind} twb_truncmod_{short}{b}", f"return {fmod}(a, b);", "What truncdiv leaves.", fmod),
        same(
            f"{kind} twb_floordiv_{short}{b}",
            f"if (b == 0) return a / b;\n{kind} r = {fmod}(a, b), q = (a - r) / b;\nif (r != 0 && (r < 0) != (b < 0)) q -= 1;\n"
            f"{kind} n = twb_floor_{short}(q);\nreturn q - n > {half} ? n + 1 : n;",
            "Python's a // b.",
            fmod,
            f"twb_floor_{short}",
        ),
        same(
            f"{kind} twb_floormod_{short}{b}", f"{kind} r = {fmod}(a, b);\nreturn r != 0 && (r < 0) != (b < 0) ? r + b : r;", "Python's a % b.", fmod
        ),
    )


def _approximations() -> tuple[DeviceFunction, ...]:
    ops = {
        "exp2": ("ex2.approx.ftz.f32", "__builtin_exp2f(x)", 75),
        "log2": ("lg2.approx.ftz.f32", "__builtin_log2f(x)", 75),
        "rcp": ("rcp.approx.ftz.f32", "1.0f / x", 75),
        "rsqrt": ("rsqrt.approx.ftz.f32", "1.0f / __builtin_sqrtf(x)", 75),
        "sin": ("sin.approx.ftz.f32", "__builtin_sinf(x)", 75),
        "cos": ("cos.approx.ftz.f32", "__builtin_cosf(x)", 75),
        "tanh": ("tanh.approx.f32", "__builtin_tanhf(x)", 75),
    }
    out = []
    for name, (op, exact, arch) in ops.items():
        host = (
            f"if (twb_watch) twbe_special();\nx = {_flush('x')};\nfloat r = {exact};\nreturn {_flush('r')};"
            if "ftz" in op
            else f"if (twb_watch) twbe_special();\nreturn {exact};"
        )
        out.append(
            pair(
                f"float twb_{name}_approx(float x)",
                f'float r; asm("{op} %0, %1;" : "=f"(r) : "f"(x)); return r;',
                host,
                f"{name} by one instruction, approximately.",
                least_arch=arch,
            )
        )
    return tuple(out)


def _erf_short() -> str:
    """1 - 2**p(a), and near 0, where that loses digits, a line; NaN stays what it is."""
    p = _ERFC[-1]
    for c in reversed(_ERFC[:-1]):
        p = f"({p} * a + {c})"
    return f"float a = twb_abs_f32(x), r = 1.0f - twb_exp2_approx({p} * a);\nreturn twb_copysign_f32(a < 0.0078125f ? a * {_SLOPE} : r, x);"


def _flush(x: str) -> str:
    return f"(__builtin_fabsf({x}) < 1.17549435e-38f ? __builtin_copysignf(0.0f, {x}) : {x})"
