"""float32 trigonometry without branches, calls or tables.

sin and cos reduce every float32 exactly enough (Payne and Hanek): x = m * 2**e with m an integer of 24 bits, so x * 2 / pi modulo 4 needs only
the 96 bits of 2 / pi from weight 2**(1 - e) on. They are put together from 32-bit words with masks, as gcc 12 does not gather from a table.
Errors stay below 2 units in the last place (tan: 4).
"""

from __future__ import annotations

from fractions import Fraction

from .function import CFunction, function
from .math_exp import horner

_SIN = horner("z", ("-0x1.555546p-3f", "0x1.110776p-7f", "-0x1.995300p-13f"))
_COS = horner("z", ("0x1.55554ap-5f", "-0x1.6c0c2ap-10f", "0x1.99e904p-16f"))
_ASIN = horner("z", ("0x1.5555c8p-3f", "0x1.330204p-4f", "0x1.747bb8p-5f", "0x1.8c3e50p-6f", "0x1.595c60p-5f"))
_ATAN = horner("s", (
    "-0x1.55553ep-2f", "0x1.9991e4p-3f", "-0x1.242084p-3f", "0x1.c08c1ap-4f", "-0x1.580814p-4f", "0x1.da24cap-5f", "-0x1.fd6fbcp-6f",
    "0x1.6410e4p-7f",
    "-0x1.d32dacp-10f",
))  # fmt: skip
_HALF_PI = "0x1.921fb6p+0f"
_INF = "__builtin_inff()"

# y0 y1 y2: 2 / pi * 2**e modulo 4; t: the product with m, 62 bits after the point; q: the nearest quarter turn; r: what is left, in radians
_REDUCE = """\
float a = __builtin_fabsf(x);
uint32_t u = twb_bits_f32(a), m = (u & 0x7fffffu) | 0x800000u;
int32_t j = (int32_t)(u >> 23) - 126, e = (j & ~(j >> 31)) + 6;
uint32_t n = (uint32_t)e >> 5, s = e & 31;
$masks
$words
uint32_t y0 = z0 << s | z1 >> 1 >> (31 - s), y1 = z1 << s | z2 >> 1 >> (31 - s), y2 = z2 << s | z3 >> 1 >> (31 - s);
uint64_t t = ((uint64_t)(m * y0) << 32) + (uint64_t)m * y1 + ((uint64_t)m * y2 >> 32);
uint32_t q = (uint32_t)((t + (1ull << 61)) >> 62);
uint64_t rest = t - ((uint64_t)q << 62);
double f = (double)(int32_t)(rest >> 32) * 0x1p32 + (double)(int32_t)((uint32_t)rest >> 1) * 2.0;
q &= -(uint32_t)(j >= 0);
float r = j < 0 ? a : (float)(f * 0x1.921fb54442d18p-62), z = r * r;
float sine = $sin * z * r + r, cosine = $cos * z * z + (1.0f - 0.5f * z);"""


def trig_functions() -> tuple[CFunction, ...]:
    """sin cos tan asin acos atan atan2 of float32."""
    # n counts whole words into a string that starts with 32 zero bits; z0 to z3 are the words n to n + 3 of it
    words = ["0u", *(f"{w:#010x}u" for w in _two_over_pi_words(7))]
    picks = [" | ".join(f"({words[n + i]} & k{n})" for n in range(5) if words[n + i] != "0u") for i in range(4)]
    values = {
        "masks": "uint32_t " + ", ".join(f"k{n} = -(uint32_t)(n == {n})" for n in range(5)) + ";",
        "words": "uint32_t " + ", ".join(f"z{i} = {pick}" for i, pick in enumerate(picks)) + ";",
        "sin": _SIN, "cos": _COS,
    }  # fmt: skip

    def circular(name: str, body: str) -> CFunction:
        return function(
            f"float twb_{name}_f32(float x)", f"{_REDUCE}\n{body}\nreturn a < {_INF} ? y : x - x;", "twb_bits_f32", "twb_f32_bits", **values
        )

    # bits of two values are chosen and signed with masks: chained `?:` would become branches
    pick = "uint32_t odd = -(q & 1u), us = twb_bits_f32(sine), uc = twb_bits_f32(cosine);\n"
    sign = "(twb_bits_f32(x) & 0x80000000u)"
    return (
        circular("sin", f"{pick}float y = twb_f32_bits(((uc & odd) | (us & ~odd)) ^ (q & 2u) << 30 ^ {sign});"),
        circular("cos", f"{pick}float y = twb_f32_bits(((us & odd) | (uc & ~odd)) ^ ((q + 1) & 2u) << 30);"),
        circular(
            "tan",
            f"{pick}float y = twb_f32_bits(((uc & odd) | (us & ~odd)) ^ (q & 1u) << 31 ^ {sign}) / twb_f32_bits((us & odd) | (uc & ~odd));",
        ),
        *_inverse(),
    )


def _inverse() -> tuple[CFunction, ...]:
    parts = (
        "float a = __builtin_fabsf(x), z = a > 0.5f ? (1.0f - a) * 0.5f : a * a, s = a > 0.5f ? __builtin_sqrtf(z) : a;\n"
        f"float p = {_ASIN} * z * s + s;\n"
    )
    asin = "float r = a > 0.5f ? (0x1.921fb6p+0f - 2.0f * p) - 0x1.777a5cp-25f : p;\nreturn __builtin_copysignf(r, x);"
    acos = (
        "float near = x > 0 ? 2.0f * p : (0x1.921fb6p+1f - 2.0f * p) - 0x1.777a5cp-24f, q = __builtin_copysignf(p, x);\n"
        "return a > 0.5f ? near : (0x1.921fb6p+0f - q) - 0x1.777a5cp-25f;"
    )
    ratio = (
        "float ax = __builtin_fabsf(x), ay = __builtin_fabsf(y), small = ax < ay ? ax : ay, large = ax < ay ? ay : ax;\n"
        f"float z = small == large ? 1.0f : small / large;\nz = large == 0 ? 0.0f : z;\nfloat r = twb_atan_f32(z);\n"
        f"r = ay > ax ? ({_HALF_PI} - r) - 0x1.777a5cp-25f : r;\n"
        "r = __builtin_copysignf(1.0f, x) < 0 ? (0x1.921fb6p+1f - r) - 0x1.777a5cp-24f : r;\n"
        "return x != x || y != y ? x + y : __builtin_copysignf(r, y);"
    )
    atan = (
        f"float a = __builtin_fabsf(x), z = a > 1.0f ? -1.0f / a : a, s = z * z, p = {_ATAN} * s * z + z;\n"
        f"return __builtin_copysignf(a > 1.0f ? {_HALF_PI} + (p - 0x1.777a5cp-25f) : p, x);"
    )
    return (
        function("float twb_asin_f32(float x)", parts + asin),
        function("float twb_acos_f32(float x)", parts + acos),
        function("float twb_atan_f32(float x)", atan),
        function("float twb_atan2_f32(float y, float x)", ratio, "twb_atan_f32"),
    )


def _two_over_pi_words(count: int) -> list[int]:
    """The first `count` 32-bit words of the fraction 2 / pi."""
    bits = int(Fraction(2) / _pi(32 * count + 32) * 2 ** (32 * count))
    return [bits >> 32 * (count - 1 - i) & 0xFFFFFFFF for i in range(count)]


def _pi(bits: int) -> Fraction:
    """pi to `bits` bits by Machin's formula, 16 atan(1/5) - 4 atan(1/239)."""
    one = 1 << (bits + 16)

    def atan_inverse(n: int) -> int:
        term = total = one // n
        k = 1
        while term:
            term //= -n * n
            k += 2
            total += term // k
        return total

    return Fraction(16 * atan_inverse(5) - 4 * atan_inverse(239), one)
