"""Conversions of whole rows between float32 and float16 or bfloat16 with the processor's instructions.

gcc 12 does not vectorise `_Float16` casts on x86 and old clangs do not have them, so these loops name the instruction; elsewhere they are
plain vector loops. That for bfloat16 takes denormal numbers as 0, so a row that has some is converted again by the plain loop. It is in no level of
x86-64: the emitter defines TWB_AVX512_BF16 where the processor has it.
"""

from __future__ import annotations

from .function import CFunction, function

_NAMED = "(!defined(__clang__) || __clang_major__ < 15)"
_TO_F32 = """\
int64_t whole = 0;
#if $named && defined(__AVX512F__)
typedef short h16 __attribute__((vector_size(32), aligned(2), may_alias)); typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
whole = n & -16;
for (int64_t i = 0; i < whole; i += 16) *(v16 *)(q + i) = __builtin_ia32_vcvtph2ps512_mask(*(const h16 *)(p + i), (v16){0}, (unsigned short)-1, 4);
#elif $named && defined(__F16C__)
typedef short h8 __attribute__((vector_size(16), aligned(2), may_alias)); typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
whole = n & -8;
for (int64_t i = 0; i < whole; i += 8) *(v8 *)(q + i) = __builtin_ia32_vcvtph2ps256(*(const h8 *)(p + i));
#endif
#pragma omp simd
for (int64_t j = whole; j < n; j++) q[j] = twb_f16_to_f32(p[j]);"""
_TO_F16 = """\
int64_t whole = 0;
#if $named && defined(__AVX512F__)
typedef short h16 __attribute__((vector_size(32), aligned(2), may_alias)); typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
whole = n & -16;
for (int64_t i = 0; i < whole; i += 16) *(h16 *)(q + i) = __builtin_ia32_vcvtps2ph512_mask(*(const v16 *)(p + i), 0, (h16){0}, (unsigned short)-1);
#elif $named && defined(__F16C__)
typedef short h8 __attribute__((vector_size(16), aligned(2), may_alias)); typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
whole = n & -8;
for (int64_t i = 0; i < whole; i += 8) *(h8 *)(q + i) = __builtin_ia32_vcvtps2ph256(*(const v8 *)(p + i), 0);
#endif
#pragma omp simd
for (int64_t j = whole; j < n; j++) q[j] = twb_f32_to_f16(p[j]);"""

_TO_BF16 = """\
int64_t whole = 0;
#if defined(TWB_AVX512_BF16)
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias)); typedef short h32 __attribute__((vector_size(64), aligned(2), may_alias));
uint32_t small = 0;
for (; whole + 32 <= n; whole += 32) {
    v16 a = *(const v16 *)(p + whole), b = *(const v16 *)(p + whole + 16);
    h32 both;
    uint32_t mask;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(a), "v"(b));
    __asm__("vfpclassps $$0x20, %1, %%k1; vfpclassps $$0x20, %2, %%k2; korw %%k1, %%k2, %%k1; kmovw %%k1, %0" /* which are denormal */
            : "=r"(mask) : "v"(a), "v"(b) : "k1", "k2");
    *(h32 *)(q + whole) = both;
    small |= mask;
}
if (small) whole = 0;
#endif
#pragma omp simd
for (int64_t j = whole; j < n; j++) q[j] = twb_f32_to_bf16(p[j]);"""


def copy_functions() -> tuple[CFunction, ...]:
    """`twb_copy_f16_to_f32` and back, `twb_copy_f32_to_bf16`: `n` contiguous elements from `p` to `q`, which do not overlap."""
    return (
        function("void twb_copy_f16_to_f32(const uint16_t *restrict p, float *restrict q, int64_t n)", _TO_F32, "twb_f16_to_f32", named=_NAMED),
        function("void twb_copy_f32_to_f16(const float *restrict p, uint16_t *restrict q, int64_t n)", _TO_F16, "twb_f32_to_f16", named=_NAMED),
        function("void twb_copy_f32_to_bf16(const float *restrict p, uint16_t *restrict q, int64_t n)", _TO_BF16, "twb_f32_to_bf16"),
    )
