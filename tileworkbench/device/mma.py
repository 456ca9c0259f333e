"""Products of small matrices by one warp (mma.sync): d += a b, with the operands in registers as the PTX manual lays them out.

Names: `twb_mma_m16n8k16_<d>_<a>` (b like a), `..._<d>_<a>_<b>` where they may differ.
"""

from __future__ import annotations

from .function import DeviceFunction, pair

_KIND = {
    "f16": "TWBE_F16",
    "bf16": "TWBE_BF16",
    "f32": "TWBE_F32",
    "tf32": "TWBE_TF32",
    "e4m3": "TWBE_E4M3",
    "e5m2": "TWBE_E5M2",
    "s8": "TWBE_S8",
    "u8": "TWBE_U8",
    "s32": "TWBE_S32",
    "f64": "TWBE_F64",
}
_SIZE = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


def mma_functions() -> tuple[DeviceFunction, ...]:
    """All shapes and types, each with the architecture it begins at."""
    made = [
        *(_mma(16, 16, d, "f16", "f16", 80) for d in ("f32", "f16")),
        _mma(16, 16, "f32", "bf16", "bf16", 80),
        *(_mma(16, 8, d, "f16", "f16", 75) for d in ("f32", "f16")),
        _mma(16, 8, "f32", "bf16", "bf16", 80),
        _mma(16, 8, "f32", "tf32", "tf32", 80),
        *(_mma(16, 32, "s32", a, b, 80) for a in ("s8", "u8") for b in ("s8", "u8")),
        *(_mma(8, 16, "s32", a, b, 75) for a in ("s8", "u8") for b in ("s8", "u8")),
        *(_mma(16, 32, "f32", a, b, 89) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    ]
    f64 = 'asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(d[0]), "+d"(d[1]) : "d"(a), "d"(b));'
    return (
        *made,
        pair(
            "template <int N> void twb_round_tf32(uint32_t (&r)[N])",
            '#pragma unroll\nfor (int i = 0; i < N; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r[i]) : "f"(__uint_as_float(r[i])));',
            "for (int i = 0; i < N; ++i) if ((r[i] & 0x7f800000u) != 0x7f800000u) r[i] = (r[i] + 0x1000u) & 0xffffe000u;",
            "Round N float32 to the nearest number that a product of tf32 takes as it is.",
            least_arch=80,
        ),
        pair(
            "void twb_mma_m8n8k4_f64(double (&d)[2], double a, double b)",
            f64,
            "twbe_mma(d, &a, &b, 8, 4, TWBE_F64, TWBE_F64, TWBE_F64);",
            "d += a b for 8x8x4 float64.",
            least_arch=80,
        ),
    )


def _mma(m: int, k: int, d: str, a: str, b: str, arch: int) -> DeviceFunction:
    regs_a, regs_b = m * k * _SIZE[a] // 128, 8 * k * _SIZE[b] // 128
    regs_d = m * 8 * (2 if d == "f16" else 4) // 128
    kind, letter = ("float", "f") if d == "f32" else ("int32_t", "r") if d == "s32" else ("uint32_t", "r")
    types = a if a == b else f"{a}_{b}"
    shape = f"m{m}n8k{k}"

    def group(start: int, count: int) -> str:
        return "{" + ", ".join(f"%{start + i}" for i in range(count)) + "}"

    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(regs_d))
    ins = ", ".join([*(f'"r"(a[{i}])' for i in range(regs_a)), *(f'"r"(b[{i}])' for i in range(regs_b))])
    op = f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d}"
    text = f"{op} {group(0, regs_d)}, {group(regs_d, regs_a)}, {group(regs_d + regs_a, regs_b)}, {group(0, regs_d)};"
    host = f"twbe_mma(d, a, b, {m}, {k}, {_KIND[d]}, {_KIND[a]}, {_KIND[b]});"
    head = f"void twb_mma_{shape}_{d}_{types}({kind} (&d)[{regs_d}], const uint32_t (&a)[{regs_a}], const uint32_t (&b)[{regs_b}])"
    return pair(
        head, f'asm volatile("{text}" : {outs} : {ins});', host, f"d += a b for {m}x8x{k} matrices of {a} and {b}, added up as {d}.", least_arch=arch
    )
