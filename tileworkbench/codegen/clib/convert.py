"""Conversions: narrow floats by integer arithmetic on their bits (every compiler turns it into vector code), floats to integers with saturation.

Rounding is to nearest, ties to even; NaN stays NaN; overflow gives infinity, or NaN in float8_e4m3fn.
"""

from __future__ import annotations

from .function import C_TYPE, INTEGERS, NARROW_FLOATS, SIGNED, CFunction, function, int_bits

_BITS_F32 = (
    function("uint32_t twb_bits_f32(float x)", "uint32_t u; __builtin_memcpy(&u, &x, 4); return u;"),
    function("float twb_f32_bits(uint32_t u)", "float x; __builtin_memcpy(&x, &u, 4); return x;"),
    function("uint64_t twb_bits_f64(double x)", "uint64_t u; __builtin_memcpy(&u, &x, 8); return u;"),
    function("double twb_f64_bits(uint64_t u)", "double x; __builtin_memcpy(&x, &u, 8); return x;"),
)

# A small float has its exponent field moved up and is scaled by a power of two, which also normalises denormals; a full exponent becomes 255.
_FROM_SMALL = """\
uint32_t m = (uint32_t)h & $mag, s = ((uint32_t)h & $sign) << $up;
float f = twb_f32_bits(m << $shift) * $scale;
uint32_t r = m $special ? m << $shift | 0x7f800000u : twb_bits_f32(f);
return twb_f32_bits(r | s);"""

# Normal results: add half of the last kept bit (and the odd bit) and shift. Small ones: adding a power of two makes the FPU round at the right bit.
# Choices are masks, because gcc threads chained `?:` into branches that it then cannot vectorise.
_TO_SMALL = """\
uint32_t u = twb_bits_f32(x), a = u & 0x7fffffffu, s = u >> $down & $sign;
uint32_t n = (a - $rebias + $half + (a >> $shift & 1u)) >> $shift;
uint32_t d = twb_bits_f32(twb_f32_bits(a) + twb_f32_bits($magic)) - $magic;
uint32_t small = -(uint32_t)(a < $normal), nan = -(uint32_t)(a > 0x7f800000u), r = (d & small) | (n & ~small);
uint32_t over = -(uint32_t)(r > $max);
r = (($over & over) | (r & ~over)) & ~nan;
return ($t)(r | ($nan & nan) | s);"""

_FROM_HALF = "_Float16 f; __builtin_memcpy(&f, &h, 2); return (float)f;"
_TO_HALF = "_Float16 f = (_Float16)x; uint16_t h; __builtin_memcpy(&h, &f, 2); return h;"


def convert_functions() -> tuple[CFunction, ...]:
    """Bit casts; narrow float <-> float32 and from float64; float32 and float64 -> every integer."""
    narrow = tuple(f for s in NARROW_FLOATS for f in _narrow(s))
    return _BITS_F32 + narrow + tuple(_saturating(f, s) for f in ("f32", "f64") for s in INTEGERS) + (_ODD,)


_ODD = function(
    "float twb_f64_to_f32_odd(double x)",
    "float f = (float)x;\nuint32_t u = twb_bits_f32(f);\n"
    "uint32_t away = __builtin_fabs((double)f) > __builtin_fabs(x), inexact = (double)f != x && x == x;\n"
    "return twb_f32_bits((u - (away & inexact)) | inexact);",
    "twb_bits_f32", "twb_f32_bits",
)  # fmt: skip


def _narrow(short: str) -> tuple[CFunction, ...]:
    t = {"s": short, "t": C_TYPE[short]}
    if short == "bf16":
        up = function("float twb_bf16_to_f32(uint16_t h)", "return twb_f32_bits((uint32_t)h << 16);", "twb_f32_bits")
        down = function(
            "uint16_t twb_f32_to_bf16(float x)",
            "uint32_t u = twb_bits_f32(x), r = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;\nreturn (uint16_t)(x == x ? r : 0x7fc0u);",
            "twb_bits_f32",
        )
    else:
        up, down = _small(short, t)
    # through float32 rounded to odd, so that the second rounding sees every lost bit
    wide = function("$t twb_f64_to_$s(double x)", "return twb_f32_to_$s(twb_f64_to_f32_odd(x));", "twb_f64_to_f32_odd", f"twb_f32_to_{short}", **t)
    return up, down, wide


def _small(short: str, t: dict[str, str]) -> tuple[CFunction, CFunction]:
    mantissa, bias, bits = {"f16": (10, 15, 16), "e5m2": (2, 15, 8), "e4m3": (3, 7, 8)}[short]
    shift, sign = 23 - mantissa, 1 << (bits - 1)
    infinity = ((1 << (bits - 1 - mantissa)) - 1) << mantissa  # all exponent bits; in e4m3 the last of these codes is NaN, the others are numbers
    finite_only = short == "e4m3"
    nan = sign - 1 if finite_only else infinity | 1 << (mantissa - 1)
    values = {
        "mag": hex(sign - 1), "sign": hex(sign), "up": str(32 - bits), "down": str(32 - bits), "shift": str(shift), "scale": f"0x1p{127 - bias}f",
        "special": f"== {sign - 1:#x}" if finite_only else f">= {infinity:#x}",
        "rebias": f"{(127 - bias) << 23:#x}u", "half": f"{(1 << (shift - 1)) - 1:#x}u", "normal": f"{(128 - bias) << 23:#x}u",
        "magic": f"{(127 - bias + shift + 1) << 23:#x}u", "max": hex(sign - 2 if finite_only else infinity),
        "over": hex(nan if finite_only else infinity),
        "nan": hex(nan), **t,
    }  # fmt: skip
    up_body, down_body = (_FROM_SMALL, _TO_SMALL) if short != "f16" else (_native(_FROM_HALF, _FROM_SMALL), _native(_TO_HALF, _TO_SMALL))
    up = function("float twb_${s}_to_f32($t h)", up_body, "twb_f32_bits", "twb_bits_f32", **values)
    down = function("$t twb_f32_to_$s(float x)", down_body, "twb_bits_f32", "twb_f32_bits", **values)
    return up, down


def _native(short: str, otherwise: str) -> str:
    """`short` for compilers that make vector instructions of it (gcc on x86 does not, up to 12), else `otherwise`."""
    return f"#if defined(__aarch64__) || (defined(__clang__) && __clang_major__ >= 15 && defined(__F16C__))\n{short}\n#else\n{otherwise}\n#endif"


def _saturating(source: str, short: str) -> CFunction:
    bits = int_bits(short)
    signed = short in SIGNED
    high = (1 << (bits - signed)) - 1
    precision = 24 if source == "f32" else 53
    below = high & ~((1 << max(0, high.bit_length() - precision)) - 1)  # the largest float that is in range
    f = "f" if source == "f32" else ""
    low = f"-{float(1 << (bits - 1)).hex()}{f}" if signed else f"0.0{f}"
    t = {"s": short, "t": C_TYPE[short], "f": C_TYPE[source], "from": source, "low": low, "below": f"{float(below).hex()}{f}"}
    # narrow types go through int32, the only width that x86 vectors convert before AVX-512
    via = "" if bits >= 32 else "(int32_t)"
    body = f"$f y = x >= $low ? x : $low;\ny = y <= $below ? y : $below;\n$t r = ($t){via}(x == x ? y : 0);"
    if below != high:
        body += f"\nreturn x > $below ? ($t){high}{'u' * (not signed)}{'ll' * (bits == 64)} : r;"
    else:
        body += "\nreturn r;"
    return function("$t twb_${from}_to_$s($f x)", body, **t)
