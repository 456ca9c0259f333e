"""Integer arithmetic with the language's rules: nothing traps, nothing is undefined.

Division by zero gives 0; min // -1 wraps; shift counts outside [0, width) give 0 (arithmetic right: the sign).
"""

from __future__ import annotations

from .function import C_TYPE, INTEGERS, SIGNED, CFunction, function, int_bits


def integer_functions() -> tuple[CFunction, ...]:
    """Division, remainder, shifts, power, bit counts, abs, min and max of every integer type."""
    return tuple(f for short in INTEGERS for f in _of_type(short))


def _of_type(short: str) -> tuple[CFunction, ...]:
    t = {"s": short, "t": C_TYPE[short], "u": C_TYPE["u" + short[1:]], "bits": short[1:], "last": str(int_bits(short) - 1)}
    division = _signed_division(t) if short in SIGNED else _unsigned_division(t)
    return division + _shifts(t, short in SIGNED) + _bits(t, int_bits(short), short in SIGNED) + _choice(t, short in SIGNED)


def _signed_division(t: dict[str, str]) -> tuple[CFunction, ...]:
    # -1 is apart because min / -1 traps on x86; gcc drops both tests when b is a constant
    return (
        function("$t twb_truncdiv_$s($t a, $t b)", "return b == 0 ? 0 : b == -1 ? ($t)(0 - ($u)a) : ($t)(a / b);", **t),
        function("$t twb_truncmod_$s($t a, $t b)", "return b == 0 || b == -1 ? 0 : ($t)(a % b);", **t),
        function(
            "$t twb_floordiv_$s($t a, $t b)",
            "if (b == 0) return 0;\nif (b == -1) return ($t)(0 - ($u)a);\n$t q = a / b, r = a % b;\nreturn q - (r != 0 && (r < 0) != (b < 0));",
            **t,
        ),
        function(
            "$t twb_floormod_$s($t a, $t b)",
            "if (b == 0 || b == -1) return 0;\n$t r = a % b;\nreturn r + (r != 0 && (r < 0) != (b < 0) ? b : 0);",
            **t,
        ),
    )


def _unsigned_division(t: dict[str, str]) -> tuple[CFunction, ...]:
    div, mod = "return b == 0 ? 0 : a / b;", "return b == 0 ? 0 : a % b;"
    heads = (("truncdiv", div), ("truncmod", mod), ("floordiv", div), ("floormod", mod))
    return tuple(function(f"$t twb_{name}_$s($t a, $t b)", body, **t) for name, body in heads)


def _shifts(t: dict[str, str], signed: bool) -> tuple[CFunction, ...]:
    # one unsigned test covers negative counts and counts that are too large; `& last` keeps the shift defined in vector code
    right = "a >> (($u)b > $last ? $last : b)" if signed else "b > $last ? 0 : a >> (b & $last)"
    return (
        function("$t twb_shl_$s($t a, $t b)", "return ($u)b > $last ? 0 : ($t)(($u)a << (b & $last));", **t),
        function("$t twb_shr_$s($t a, $t b)", f"return {right};", **t),
    )


def _bits(t: dict[str, str], bits: int, signed: bool) -> tuple[CFunction, ...]:
    long = "ll" if bits == 64 else ""
    wide = "uint64_t" if bits == 64 else "uint32_t"
    return (
        function("$t twb_popcount_$s($t a)", f"return ($t)__builtin_popcount{long}(({wide})($u)a);", **t),
        function("$t twb_clz_$s($t a)", f"return a == 0 ? {bits} : ($t)(__builtin_clz{long}(({wide})($u)a) - {max(32, bits) - bits});", **t),
        function(
            "$t twb_pow_$s($t a, $t b)",
            ("if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) ? a : 1) : 0;\n" if signed else "")
            + f"{wide} r = 1, x = ({wide})a;\nfor (; b > 0; b >>= 1, x *= x) if (b & 1) r *= x;\nreturn ($t)r;",
            **t,
        ),
    )


def _choice(t: dict[str, str], signed: bool) -> tuple[CFunction, ...]:
    return (
        function("$t twb_min_$s($t a, $t b)", "return a < b ? a : b;", **t),
        function("$t twb_max_$s($t a, $t b)", "return a > b ? a : b;", **t),
        function("$t twb_abs_$s($t a)", "return a < 0 ? ($t)(0 - ($u)a) : a;" if signed else "return a;", **t),
    )
