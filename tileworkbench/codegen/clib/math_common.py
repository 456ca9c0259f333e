"""Float functions that are the same for float32 and float64: choices, classification, rounding, and what C's library provides."""

from __future__ import annotations

from .function import CFunction, function

LIBM_UNARY = (
    "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf",
)  # fmt: skip
LIBM_BINARY = ("pow", "atan2", "fmod", "hypot")


def common_functions(short: str) -> tuple[CFunction, ...]:
    """min, max, abs, sqrt, rounding, tests, floor division of float32 ("f32") or float64 ("f64")."""
    t = {"s": short, "t": "float" if short == "f32" else "double", "f": "f" if short == "f32" else ""}

    def unary(name: str, body: str, *needs: str) -> CFunction:
        return function(f"$t twb_{name}_$s($t x)", f"return {body};", *needs, **t)

    def test(name: str, body: str) -> CFunction:
        return function(f"uint8_t twb_{name}_$s($t x)", f"return {body};", **t)

    def binary(name: str, body: str, *needs: str) -> CFunction:
        return function(f"$t twb_{name}_$s($t a, $t b)", f"return {body};", *needs, **t)

    return (
        # one instruction and a test that never holds, where `||` would become a branch on the numbers
        function("$t twb_min_$s($t a, $t b)", "$t m = a < b ? a : b;\nreturn b != b ? a : m;", **t),
        function("$t twb_max_$s($t a, $t b)", "$t m = a > b ? a : b;\nreturn b != b ? a : m;", **t),
        unary("abs", "__builtin_fabs$f(x)"),
        unary("sqrt", "__builtin_sqrt$f(x)"),
        unary("rsqrt", "1 / __builtin_sqrt$f(x)"),
        *(unary(name, f"__builtin_{name}$f(x)") for name in ("floor", "ceil", "trunc", "nearbyint", "round")),
        test("isnan", "x != x"),
        test("isinf", "__builtin_fabs$f(x) == __builtin_inf$f()"),
        test("isfinite", "__builtin_fabs$f(x) < __builtin_inf$f()"),
        binary("copysign", "__builtin_copysign$f(a, b)"),
        binary("truncdiv", "__builtin_trunc$f(a / b)"),
        function(
            "$t twb_floordiv_$s($t a, $t b)",
            "if (b == 0) return a / b;\n$t r = twb_fmod_$s(a, b), q = (a - r) / b;\nif (r != 0 && (r < 0) != (b < 0)) q -= 1;\n"
            "$t n = __builtin_floor$f(q);\nreturn q - n > ($t)0.5 ? n + 1 : n;",
            f"twb_fmod_{short}", **t,
        ),
        binary("truncmod", "twb_fmod_$s(a, b)", f"twb_fmod_{short}"),
        function(
            "$t twb_floormod_$s($t a, $t b)",
            "$t r = twb_fmod_$s(a, b);\nreturn r != 0 && (r < 0) != (b < 0) ? r + b : r;",
            f"twb_fmod_{short}", **t,
        ),
    )  # fmt: skip


def libm_functions() -> tuple[CFunction, ...]:
    """What calls the C library: all of float64, and fmod of float32."""
    unary = [function(f"double twb_{n}_f64(double x)", f"return __builtin_{n}(x);") for n in LIBM_UNARY]
    binary = [function(f"double twb_{n}_f64(double a, double b)", f"return __builtin_{n}(a, b);") for n in LIBM_BINARY]
    sigmoid = "double e = __builtin_exp(-__builtin_fabs(x));\nreturn (x < 0 ? e : 1) / (1 + e);"
    return (
        *unary,
        *binary,
        function("double twb_exp10_f64(double x)", "return __builtin_pow(10, x);"),
        function("double twb_sigmoid_f64(double x)", sigmoid),
        function("float twb_fmod_f32(float a, float b)", "return __builtin_fmodf(a, b);"),
    )
