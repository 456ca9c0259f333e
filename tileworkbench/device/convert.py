"""Conversions between float32 and narrow floats, alone and in packed pairs, and floats to integers with saturation.

Rounding is to nearest, ties to even. Overflow gives infinity, or NaN in float8_e4m3fn; the `_sat` forms give the largest number instead.
A pair is one register, the first value in its low half.
"""

from __future__ import annotations

from ..codegen.clib.convert import convert_functions as c_functions
from .function import DeviceFunction, pair, same

# On a GPU without the instruction, by integer arithmetic; E exponent bits, M bits of mantissa.
_UP = """\
uint32_t h = x.bits, sign = (h >> ($e + $m) & 1u) << 31, e = h >> $m & ((1u << $e) - 1), m = h & ((1u << $m) - 1);
const uint32_t bias = (1u << ($e - 1)) - 1;
if (e == (1u << $e) - 1 && ($finite ? m == (1u << $m) - 1 : true)) return __int_as_float(sign | 0x7f800000u | ($finite || m ? 0x400000u | m << (23 - $m) : 0));
if (e) return __int_as_float(sign | (e + 127 - bias) << 23 | m << (23 - $m));
float small = (float)m * __int_as_float((128 - bias - $m) << 23);
return sign ? -small : small;"""
_DOWN = """\
const uint32_t bias = (1u << ($e - 1)) - 1, most = $finite ? (1u << ($e + $m)) - 2 : ((1u << $e) - 1) << $m;
uint32_t u = __float_as_int(x), a = u & 0x7fffffffu, sign = u >> 31 << ($e + $m), r;
if (a > 0x7f800000u) return $t{($bits)(sign | ($finite ? (1u << ($e + $m)) - 1 : most | 1u << ($m - 1)))};
if (a < (128 - bias) << 23) r = __float_as_int(__fadd_rn(__int_as_float(a), __int_as_float((151 - bias - $m) << 23))) - ((151 - bias - $m) << 23);
else r = (a - ((127 - bias) << 23) + (1u << (22 - $m)) - 1 + (a >> (23 - $m) & 1u)) >> (23 - $m);
return $t{($bits)(sign | (r > most ? $finite ? most + 1 : most : r))};"""
# By the instruction, which gives the largest number for what is too large: that becomes infinity or NaN afterwards. The sign is kept.
_BY_INSTRUCTION = """\
uint16_t r; asm("cvt.rn.satfinite.${t2}x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(x));
return $t{($bits)($test ? r & 0x80u | ${beyond}u : r)};"""
_BEYOND = {"e4m3": "__int_as_float(__float_as_int(x) & 0x7fffffff) > 464.0f", "e5m2": "__int_as_float(__float_as_int(x) & 0x7fffffff) >= 61440.0f"}
SHAPES = {"f16": (5, 10, "false", 16), "bf16": (8, 7, "false", 16), "e4m3": (4, 3, "true", 8), "e5m2": (5, 2, "false", 8)}


def convert_functions() -> tuple[DeviceFunction, ...]:
    """Bits, narrow <-> float32, pairs, saturating integers."""
    return (*_bits(), *(f for short in SHAPES for f in _narrow(short)), *_from_double(), *_pairs(), *_integers())


def _from_double() -> tuple[DeviceFunction, ...]:
    """float64 to narrow floats, rounded once: first to the odd neighbour in float32, which keeps what the second rounding has to know."""
    odd = (
        "float f = (float)x; double back = (double)f; uint32_t u = twb_bits_f32(f);\n"
        "if (back == x || x != x || (u & 1u)) return f;\n"
        "return twb_f32_bits((back < 0 ? -back : back) < (x < 0 ? -x : x) ? u + 1u : u - 1u);"
    )
    first = same(
        "float twb_f64_to_odd_f32(double x)",
        odd,
        "The float32 that equals x, else of its two neighbours the odd one.",
        "twb_bits_f32",
        "twb_f32_bits",
    )
    rest = (
        same(
            f"twb_{short} twb_f64_to_{short}(double x)", f"return twb_f32_to_{short}(twb_f64_to_odd_f32(x));",
            f"Round a float64 to {short}, once.", "twb_f64_to_odd_f32", f"twb_f32_to_{short}",
        )
        for short in SHAPES
    )  # fmt: skip
    return (first, *rest)


def _bits() -> tuple[DeviceFunction, ...]:
    copy = "{0} r; __builtin_memcpy(&r, &x, sizeof r); return r;"
    return (
        pair("uint32_t twb_bits_f32(float x)", "return (uint32_t)__float_as_int(x);", copy.format("uint32_t"), "The bits of a float32."),
        pair("float twb_f32_bits(uint32_t x)", "return __int_as_float((int)x);", copy.format("float"), "The float32 of these bits."),
        pair("uint64_t twb_bits_f64(double x)", "return (uint64_t)__double_as_longlong(x);", copy.format("uint64_t"), "The bits of a float64."),
        pair("double twb_f64_bits(uint64_t x)", "return __longlong_as_double((int64_t)x);", copy.format("double"), "The float64 of these bits."),
    )


def _narrow(short: str) -> tuple[DeviceFunction, ...]:
    e, m, finite, bits = SHAPES[short]
    beyond = "0x7f" if short == "e4m3" else "0x7c"
    values = {"e": str(e), "m": str(m), "finite": finite, "t": f"twb_{short}", "t2": short, "beyond": beyond, "bits": f"uint{bits}_t"}
    up, down, needs = _UP, _DOWN, tuple[str, ...]()
    if short == "f16":
        up = 'float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits)); return r;'
        down = 'twb_f16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x)); return r;'
    elif short == "bf16":
        # halves of a register rather than a shift: two neighbours that were loaded as one word then take one instruction each, not three
        up = 'float r; asm("mov.b32 %0, {%1, %2};" : "=f"(r) : "h"((uint16_t)0), "h"(x.bits)); return r;'
        down = f'#if TWB_ARCH >= 80\ntwb_bf16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(x)); return r;\n#else\n{_DOWN}\n#endif'
    elif short == "e5m2":
        up = 'float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((uint16_t)(x.bits << 8))); return r;'
    else:
        two = 'uint32_t r; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)x.bits)); return twb_f16_to_f32(twb_f16{(uint16_t)r});'
        needs = ("twb_f16_to_f32",)
        up = f"#if TWB_ARCH >= 89\n{two}\n#else\n{_UP}\n#endif"
    if short in _BEYOND:
        down = f"#if TWB_ARCH >= 89\n{_BY_INSTRUCTION.replace('$test', _BEYOND[short])}\n#else\n{_DOWN}\n#endif"
    template = f"twbe_down<{e}, {m}, {finite}>"
    host_up = f"return twbe_{short}(x.bits);"
    head_up, head_down = f"float twb_{short}_to_f32(twb_{short} x)", f"twb_{short} twb_f32_to_{short}(float x)"
    sat = {"e4m3": "448.0f", "e5m2": "57344.0f", "f16": "65504.0f"}.get(short)
    made = [
        pair(head_up, up, host_up, f"The float32 that a {short} is.", *needs, least_arch=75, **values),
        pair(head_down, down, f"return twb_{short}{{(uint{bits}_t){template}(x)}};", f"A float32 rounded to {short}.", least_arch=75, **values),
        same(f"twb_{short} twb_{short}_bits(uint{bits}_t x)", f"return twb_{short}{{x}};", f"The {short} of these bits."),
        same(f"uint{bits}_t twb_bits_{short}(twb_{short} x)", "return x.bits;", f"The bits of a {short}."),
    ]
    if sat:
        body = f"return twb_f32_to_{short}(x != x ? x : x > {sat} ? {sat} : x < -{sat} ? -{sat} : x);"
        made.append(
            same(
                f"twb_{short} twb_f32_to_{short}_sat(float x)",
                body,
                f"A float32 rounded to {short}, numbers that are too large to the largest.",
                f"twb_f32_to_{short}",
            )
        )
    return tuple(made)


def _pairs() -> tuple[DeviceFunction, ...]:
    out = []
    for short, cvt in (("f16", "f16x2"), ("bf16", "bf16x2")):
        down, up = f"twb_f32_to_{short}", f"twb_{short}_to_f32"
        plain = f"return (uint32_t){down}(low).bits | (uint32_t){down}(high).bits << 16;"
        gpu = (
            f'#if TWB_ARCH >= 80\nuint32_t r; asm("cvt.rn.{cvt}.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r;\n#else\n{plain}\n#endif'
        )
        unpack = f"low = {up}(twb_{short}{{(uint16_t)x}}); high = {up}(twb_{short}{{(uint16_t)(x >> 16)}});"
        out += [
            pair(f"uint32_t twb_pack_{short}(float low, float high)", gpu, plain, f"Two float32 rounded to {short}, in one register.", down),
            same(f"void twb_unpack_{short}(uint32_t x, float &low, float &high)", unpack, f"The two {short} of a register as float32.", up),
        ]
        for op, sign in (("add", "+"), ("mul", "*")):
            body = f"float a, b, c, d; twb_unpack_{short}(x, a, b); twb_unpack_{short}(y, c, d);\nreturn twb_pack_{short}(a {sign} c, b {sign} d);"
            ptx = f'uint32_t r; asm("{op}.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); return r;'
            if short == "bf16":  # sm_80 has only the fused form: x * 1 + y, x * y + -0
                args = "%1, c, %2" if op == "add" else "%1, %2, c"
                one = "0x3f803f80" if op == "add" else "0x80008000"
                ptx = f'uint32_t r; asm("{{.reg .b32 c; mov.b32 c, {one}; fma.rn.bf16x2 %0, {args};}}" : "=r"(r) : "r"(x), "r"(y)); return r;'
            gpu = f"#if TWB_ARCH >= 80\n{ptx}\n#else\n{body}\n#endif"
            out.append(
                pair(
                    f"uint32_t twb_{op}_{short}x2(uint32_t x, uint32_t y)",
                    gpu,
                    body,
                    f"{op} of two {short} pairs.",
                    f"twb_unpack_{short}",
                    f"twb_pack_{short}",
                )
            )
        fma = f"float a, b, c, d, e, f; twb_unpack_{short}(x, a, b); twb_unpack_{short}(y, c, d); twb_unpack_{short}(z, e, f);\nreturn twb_pack_{short}(__builtin_fmaf(a, c, e), __builtin_fmaf(b, d, f));"
        gpu_fma = f'uint32_t r; asm("fma.rn.{cvt} %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z)); return r;'
        out.append(
            pair(
                f"uint32_t twb_fma_{short}x2(uint32_t x, uint32_t y, uint32_t z)",
                gpu_fma,
                fma,
                f"x * y + z of {short} pairs, rounded once.",
                f"twb_unpack_{short}",
                f"twb_pack_{short}",
                least_arch=80,
            )
        )
        for op, sign in (("min", "<"), ("max", ">")):
            body = f"float a, b, c, d; twb_unpack_{short}(x, a, b); twb_unpack_{short}(y, c, d);\nfloat l = a {sign} c ? a : c, h = b {sign} d ? b : d;\nreturn twb_pack_{short}(c != c ? a : l, d != d ? b : h);"
            gpu = f'uint32_t r; asm("{op}.{cvt} %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); return r;'
            out.append(
                pair(
                    f"uint32_t twb_{op}_{short}x2(uint32_t x, uint32_t y)",
                    gpu,
                    body,
                    f"{op} of two {short} pairs; a NaN gives way to a number.",
                    f"twb_unpack_{short}",
                    f"twb_pack_{short}",
                    least_arch=80,
                )
            )
    for short in ("e4m3", "e5m2"):
        down, up = f"twb_f32_to_{short}_sat", f"twb_{short}_to_f32"
        plain = f"return (uint16_t)((uint32_t){down}(low).bits | (uint32_t){down}(high).bits << 8);"
        gpu = f'#if TWB_ARCH >= 89\nuint16_t r; asm("cvt.rn.satfinite.{short}x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low)); return r;\n#else\n{plain}\n#endif'
        plain_up = f"low = {up}(twb_{short}{{(uint8_t)x}}); high = {up}(twb_{short}{{(uint8_t)(x >> 8)}});"
        gpu_up = f'#if TWB_ARCH >= 89\nuint32_t r; asm("cvt.rn.f16x2.{short}x2 %0, %1;" : "=r"(r) : "h"(x)); twb_unpack_f16(r, low, high);\n#else\n{plain_up}\n#endif'
        out += [
            pair(
                f"uint16_t twb_pack_{short}_sat(float low, float high)",
                gpu,
                plain,
                f"Two float32 rounded to {short}, too large ones to the largest number.",
                down,
            ),
            pair(
                f"void twb_unpack_{short}(uint16_t x, float &low, float &high)",
                gpu_up,
                plain_up,
                f"The two {short} of 16 bits as float32.",
                up,
                "twb_unpack_f16",
            ),
        ]
    return tuple(out)


def _integers() -> tuple[DeviceFunction, ...]:
    """Floats to integers as the C library does it: saturating, NaN to 0."""
    wanted = [f for f in c_functions() if "_to_" in f.name and f.name.split("_")[1] in ("f32", "f64") and f.name.split("_")[-1][0] in "iu"]
    return tuple(same(f.head, f.body, "A float cut to an integer; too large ones to the nearest, NaN to 0.", *f.needs) for f in wanted)
