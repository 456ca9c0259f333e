typedef __INT8_TYPE__ int8_t; typedef __INT16_TYPE__ int16_t; typedef __INT32_TYPE__ int32_t; typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t; typedef __UINT16_TYPE__ uint16_t; typedef __UINT32_TYPE__ uint32_t; typedef __UINT64_TYPE__ uint64_t;
#define TWB_FN static inline __attribute__((always_inline, unused))
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define TWB_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#else
#define TWB_FMAF(a, b, c) ((a) * (b) + (c))
#endif
#ifdef __clang__
#define TWB_RARE
#define TWB_PLAIN
#else
#define TWB_RARE __attribute__((optimize(0)))
#define TWB_PLAIN __attribute__((optimize(1)))
#endif
TWB_FN float twb_f32_bits(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
TWB_FN uint32_t twb_bits_f32(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
TWB_FN float twb_f16_to_f32(uint16_t h) {
    #if defined(__aarch64__) || (defined(__clang__) && __clang_major__ >= 15 && defined(__F16C__))
    _Float16 f; __builtin_memcpy(&f, &h, 2); return (float)f;
    #else
    uint32_t m = (uint32_t)h & 0x7fff, s = ((uint32_t)h & 0x8000) << 16;
    float f = twb_f32_bits(m << 13) * 0x1p112f;
    uint32_t r = m >= 0x7c00 ? m << 13 | 0x7f800000u : twb_bits_f32(f);
    return twb_f32_bits(r | s);
    #endif
}
TWB_FN void twb_copy_f16_to_f32(const uint16_t *restrict p, float *restrict q, int64_t n) {
    int64_t whole = 0;
    #if (!defined(__clang__) || __clang_major__ < 15) && defined(__AVX512F__)
    typedef short h16 __attribute__((vector_size(32), aligned(2), may_alias)); typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
    whole = n & -16;
    for (int64_t i = 0; i < whole; i += 16) *(v16 *)(q + i) = __builtin_ia32_vcvtph2ps512_mask(*(const h16 *)(p + i), (v16){0}, (unsigned short)-1, 4);
    #elif (!defined(__clang__) || __clang_major__ < 15) && defined(__F16C__)
    typedef short h8 __attribute__((vector_size(16), aligned(2), may_alias)); typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
    whole = n & -8;
    for (int64_t i = 0; i < whole; i += 8) *(v8 *)(q + i) = __builtin_ia32_vcvtph2ps256(*(const h8 *)(p + i));
    #endif
    #pragma omp simd
    for (int64_t j = whole; j < n; j++) q[j] = twb_f16_to_f32(p[j]);
}
typedef float twb_v4f32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float twb_v8f32 __attribute__((vector_size(32), aligned(4), may_alias));
TWB_FN twb_v8f32 twb_join2(const void *p, const void *q) {
    return __builtin_shufflevector(*(const twb_v4f32 *)p, *(const twb_v4f32 *)q, 0, 1, 2, 3, 4, 5, 6, 7);
}
typedef float twb_v4f32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float twb_v16f32 __attribute__((vector_size(64), aligned(4), may_alias));
TWB_FN twb_v16f32 twb_join4(const void *p, const void *q, const void *r, const void *s) {
    #if defined(__AVX512F__) && !defined(__clang__)
    typedef float v4 __attribute__((vector_size(16)));
    typedef float v16 __attribute__((vector_size(64)));
    v16 x = __builtin_ia32_ps512_ps((v4)*(const twb_v4f32 *)p);
    x = __builtin_ia32_insertf32x4_mask(x, (v4)*(const twb_v4f32 *)q, 1, x, (unsigned short)-1);
    x = __builtin_ia32_insertf32x4_mask(x, (v4)*(const twb_v4f32 *)r, 2, x, (unsigned short)-1);
    return (twb_v16f32)__builtin_ia32_insertf32x4_mask(x, (v4)*(const twb_v4f32 *)s, 3, x, (unsigned short)-1);
    #else
    return __builtin_shufflevector(twb_join2(p, q), twb_join2(r, s), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    #endif
}
typedef float twb_v16f32 __attribute__((vector_size(64), aligned(4), may_alias));
#ifdef TWB_APART
extern __attribute__((visibility("hidden"))) void twb_6x3_v16f32_t8_packed(int64_t k, const float *a, int64_t lda, const float *b, float *c, int64_t ldc, int64_t last, int clear);
#else
static __attribute__((noinline, unused)) void twb_6x3_v16f32_t8_packed(int64_t k, const float *a, int64_t lda, const float *b, float *c, int64_t ldc, int64_t last, int clear) {
    __builtin_prefetch(c + 0 * ldc, 1);
    __builtin_prefetch(c + 1 * ldc, 1);
    __builtin_prefetch(c + 2 * ldc, 1);
    __builtin_prefetch(c + 3 * ldc, 1);
    __builtin_prefetch(c + 4 * ldc, 1);
    __builtin_prefetch(c + last * ldc, 1);
    twb_v16f32 c0_0 = {0}, c0_1 = {0}, c0_2 = {0};
    twb_v16f32 c1_0 = {0}, c1_1 = {0}, c1_2 = {0};
    twb_v16f32 c2_0 = {0}, c2_1 = {0}, c2_2 = {0};
    twb_v16f32 c3_0 = {0}, c3_1 = {0}, c3_2 = {0};
    twb_v16f32 c4_0 = {0}, c4_1 = {0}, c4_2 = {0};
    twb_v16f32 c5_0 = {0}, c5_1 = {0}, c5_2 = {0};
    lda *= 4; /* bytes */
    const char *b0 = (const char *)b, *a0 = (const char *)a + 0 * lda, *a3 = (const char *)a + 3 * lda, *a_last = (const char *)a + last * lda;
    int64_t x = 0;
    for (int64_t end = k < 256 ? k : k - 64;; end = k) {
        for (; x < end - 3; x += 4) {
            {
                const twb_v16f32 b_0 = *(const twb_v16f32 *)(b0 + 0 + 0), b_1 = *(const twb_v16f32 *)(b0 + 0 + 64), b_2 = *(const twb_v16f32 *)(b0 + 0 + 128);
                const twb_v16f32 v0 = *(const float *)(a0 + 0 * lda + 0) - (twb_v16f32){0}; c0_0 += v0 * b_0; c0_1 += v0 * b_1; c0_2 += v0 * b_2;
                const twb_v16f32 v1 = *(const float *)(a0 + 1 * lda + 0) - (twb_v16f32){0}; c1_0 += v1 * b_0; c1_1 += v1 * b_1; c1_2 += v1 * b_2;
                const twb_v16f32 v2 = *(const float *)(a0 + 2 * lda + 0) - (twb_v16f32){0}; c2_0 += v2 * b_0; c2_1 += v2 * b_1; c2_2 += v2 * b_2;
                const twb_v16f32 v3 = *(const float *)(a3 + 0 * lda + 0) - (twb_v16f32){0}; c3_0 += v3 * b_0; c3_1 += v3 * b_1; c3_2 += v3 * b_2;
                const twb_v16f32 v4 = *(const float *)(a3 + 1 * lda + 0) - (twb_v16f32){0}; c4_0 += v4 * b_0; c4_1 += v4 * b_1; c4_2 += v4 * b_2;
                const twb_v16f32 v5 = *(const float *)(a_last + 0) - (twb_v16f32){0}; c5_0 += v5 * b_0; c5_1 += v5 * b_1; c5_2 += v5 * b_2;
            }
            {
                const twb_v16f32 b_0 = *(const twb_v16f32 *)(b0 + 192 + 0), b_1 = *(const twb_v16f32 *)(b0 + 192 + 64), b_2 = *(const twb_v16f32 *)(b0 + 192 + 128);
                const twb_v16f32 v0 = *(const float *)(a0 + 0 * lda + 4) - (twb_v16f32){0}; c0_0 += v0 * b_0; c0_1 += v0 * b_1; c0_2 += v0 * b_2;
                const twb_v16f32 v1 = *(const float *)(a0 + 1 * lda + 4) - (twb_v16f32){0}; c1_0 += v1 * b_0; c1_1 += v1 * b_1; c1_2 += v1 * b_2;
                const twb_v16f32 v2 = *(const float *)(a0 + 2 * lda + 4) - (twb_v16f32){0}; c2_0 += v2 * b_0; c2_1 += v2 * b_1; c2_2 += v2 * b_2;
                const twb_v16f32 v3 = *(const float *)(a3 + 0 * lda + 4) - (twb_v16f32){0}; c3_0 += v3 * b_0; c3_1 += v3 * b_1; c3_2 += v3 * b_2;
                const twb_v16f32 v4 = *(const float *)(a3 + 1 * lda + 4) - (twb_v16f32){0}; c4_0 += v4 * b_0; c4_1 += v4 * b_1; c4_2 += v4 * b_2;
                const twb_v16f32 v5 = *(const float *)(a_last + 4) - (twb_v16f32){0}; c5_0 += v5 * b_0; c5_1 += v5 * b_1; c5_2 += v5 * b_2;
            }
            {
                const twb_v16f32 b_0 = *(const twb_v16f32 *)(b0 + 384 + 0), b_1 = *(const twb_v16f32 *)(b0 + 384 + 64), b_2 = *(const twb_v16f32 *)(b0 + 384 + 128);
                const twb_v16f32 v0 = *(const float *)(a0 + 0 * lda + 8) - (twb_v16f32){0}; c0_0 += v0 * b_0; c0_1 += v0 * b_1; c0_2 += v0 * b_2;
                const twb_v16f32 v1 = *(const float *)(a0 + 1 * lda + 8) - (twb_v16f32){0}; c1_0 += v1 * b_0; c1_1 += v1 * b_1; c1_2 += v1 * b_2;
                const twb_v16f32 v2 = *(const float *)(a0 + 2 * lda + 8) - (twb_v16f32){0}; c2_0 += v2 * b_0; c2_1 += v2 * b_1; c2_2 += v2 * b_2;
                const twb_v16f32 v3 = *(const float *)(a3 + 0 * lda + 8) - (twb_v16f32){0}; c3_0 += v3 * b_0; c3_1 += v3 * b_1; c3_2 += v3 * b_2;
                const twb_v16f32 v4 = *(const float *)(a3 + 1 * lda + 8) - (twb_v16f32){0}; c4_0 += v4 * b_0; c4_1 += v4 * b_1; c4_2 += v4 * b_2;
                const twb_v16f32 v5 = *(const float *)(a_last + 8) - (twb_v16f32){0}; c5_0 += v5 * b_0; c5_1 += v5 * b_1; c5_2 += v5 * b_2;
            }
            {
                const twb_v16f32 b_0 = *(const twb_v16f32 *)(b0 + 576 + 0), b_1 = *(const twb_v16f32 *)(b0 + 576 + 64), b_2 = *(const twb_v16f32 *)(b0 + 576 + 128);
                const twb_v16f32 v0 = *(const float *)(a0 + 0 * lda + 12) - (twb_v16f32){0}; c0_0 += v0 * b_0; c0_1 += v0 * b_1; c0_2 += v0 * b_2;
                const twb_v16f32 v1 = *(const float *)(a0 + 1 * lda + 12) - (twb_v16f32){0}; c1_0 += v1 * b_0; c1_1 += v1 * b_1; c1_2 += v1 * b_2;
                const twb_v16f32 v2 = *(const float *)(a0 + 2 * lda + 12) - (twb_v16f32){0}; c2_0 += v2 * b_0; c2_1 += v2 * b_1; c2_2 += v2 * b_2;
                const twb_v16f32 v3 = *(const float *)(a3 + 0 * lda + 12) - (twb_v16f32){0}; c3_0 += v3 * b_0; c3_1 += v3 * b_1; c3_2 += v3 * b_2;
                const twb_v16f32 v4 = *(const float *)(a3 + 1 * lda + 12) - (twb_v16f32){0}; c4_0 += v4 * b_0; c4_1 += v4 * b_1; c4_2 += v4 * b_2;
                const twb_v16f32 v5 = *(const float *)(a_last + 12) - (twb_v16f32){0}; c5_0 += v5 * b_0; c5_1 += v5 * b_1; c5_2 += v5 * b_2;
            }
            a0 += 16; a3 += 16; a_last += 16; b0 += 768;
        }
        if (end == k) break;
        for (int64_t i = 0; i < 6; i++) { const float *row = c + (i < 5 ? i : last) * ldc; __builtin_prefetch(row + 0, 1); __builtin_prefetch(row + 16, 1); __builtin_prefetch(row + 32, 1); }
    }
    if (!clear) {
        c0_0 += *(const twb_v16f32 *)(c + 0 * ldc + 0);
        c0_1 += *(const twb_v16f32 *)(c + 0 * ldc + 16);
        { twb_v16f32 old = {0}; __builtin_memcpy(&old, c + 0 * ldc + 32, 8 * sizeof *c); c0_2 += old; }
        c1_0 += *(const twb_v16f32 *)(c + 1 * ldc + 0);
        c1_1 += *(const twb_v16f32 *)(c + 1 * ldc + 16);
        { twb_v16f32 old = {0}; __builtin_memcpy(&old, c + 1 * ldc + 32, 8 * sizeof *c); c1_2 += old; }
        c2_0 += *(const twb_v16f32 *)(c + 2 * ldc + 0);
        c2_1 += *(const twb_v16f32 *)(c + 2 * ldc + 16);
        { twb_v16f32 old = {0}; __builtin_memcpy(&old, c + 2 * ldc + 32, 8 * sizeof *c); c2_2 += old; }
        c3_0 += *(const twb_v16f32 *)(c + 3 * ldc + 0);
        c3_1 += *(const twb_v16f32 *)(c + 3 * ldc + 16);
        { twb_v16f32 old = {0}; __builtin_memcpy(&old, c + 3 * ldc + 32, 8 * sizeof *c); c3_2 += old; }
        c4_0 += *(const twb_v16f32 *)(c + 4 * ldc + 0);
        c4_1 += *(const twb_v16f32 *)(c + 4 * ldc + 16);
        { twb_v16f32 old = {0}; __builtin_memcpy(&old, c + 4 * ldc + 32, 8 * sizeof *c); c4_2 += old; }
        c5_0 += *(const twb_v16f32 *)(c + last * ldc + 0);
        c5_1 += *(const twb_v16f32 *)(c + last * ldc + 16);
        { twb_v16f32 old = {0}; __builtin_memcpy(&old, c + last * ldc + 32, 8 * sizeof *c); c5_2 += old; }
    }
    *(twb_v16f32 *)(c + 0 * ldc + 0) = c0_0;
    *(twb_v16f32 *)(c + 0 * ldc + 16) = c0_1;
    __builtin_memcpy(c + 0 * ldc + 32, &c0_2, 8 * sizeof *c);
    *(twb_v16f32 *)(c + 1 * ldc + 0) = c1_0;
    *(twb_v16f32 *)(c + 1 * ldc + 16) = c1_1;
    __builtin_memcpy(c + 1 * ldc + 32, &c1_2, 8 * sizeof *c);
    *(twb_v16f32 *)(c + 2 * ldc + 0) = c2_0;
    *(twb_v16f32 *)(c + 2 * ldc + 16) = c2_1;
    __builtin_memcpy(c + 2 * ldc + 32, &c2_2, 8 * sizeof *c);
    *(twb_v16f32 *)(c + 3 * ldc + 0) = c3_0;
    *(twb_v16f32 *)(c + 3 * ldc + 16) = c3_1;
    __builtin_memcpy(c + 3 * ldc + 32, &c3_2, 8 * sizeof *c);
    *(twb_v16f32 *)(c + 4 * ldc + 0) = c4_0;
    *(twb_v16f32 *)(c + 4 * ldc + 16) = c4_1;
    __builtin_memcpy(c + 4 * ldc + 32, &c4_2, 8 * sizeof *c);
    *(twb_v16f32 *)(c + last * ldc + 0) = c5_0;
    *(twb_v16f32 *)(c + last * ldc + 16) = c5_1;
    __builtin_memcpy(c + last * ldc + 32, &c5_2, 8 * sizeof *c);
}
#endif
#ifdef TWB_APART
extern __attribute__((visibility("hidden"))) TWB_PLAIN void twb_turn_v16f32(int64_t k, int64_t width, int64_t have, const float *b, int64_t ld, float *p);
#else
static __attribute__((noinline, unused)) TWB_PLAIN void twb_turn_v16f32(int64_t k, int64_t width, int64_t have, const float *b, int64_t ld, float *p) {
    int64_t whole = 0;
#if __has_builtin(__builtin_shufflevector)
    whole = have & -16;
    for (int64_t i = 0; i < whole; i += 16) {
        for (int64_t q = 0; q < (k & -4); q += 4) {
            const float *s0 = b + i * ld + q, *s1 = s0 + 4 * ld, *s2 = s1 + 4 * ld, *s3 = s2 + 4 * ld;
            const twb_v16f32 r0 = (twb_v16f32)twb_join4(s0 + 0 * ld, s1 + 0 * ld, s2 + 0 * ld, s3 + 0 * ld);
            const twb_v16f32 r1 = (twb_v16f32)twb_join4(s0 + 1 * ld, s1 + 1 * ld, s2 + 1 * ld, s3 + 1 * ld);
            const twb_v16f32 r2 = (twb_v16f32)twb_join4(s0 + 2 * ld, s1 + 2 * ld, s2 + 2 * ld, s3 + 2 * ld);
            const twb_v16f32 r3 = (twb_v16f32)twb_join4(s0 + 3 * ld, s1 + 3 * ld, s2 + 3 * ld, s3 + 3 * ld);
            const twb_v16f32 t0_0 = __builtin_shufflevector(r0, r2, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
            const twb_v16f32 t0_1 = __builtin_shufflevector(r0, r2, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
            const twb_v16f32 t0_2 = __builtin_shufflevector(r1, r3, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
            const twb_v16f32 t0_3 = __builtin_shufflevector(r1, r3, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
            const twb_v16f32 t1_0 = __builtin_shufflevector(t0_0, t0_2, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
            const twb_v16f32 t1_1 = __builtin_shufflevector(t0_0, t0_2, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
            const twb_v16f32 t1_2 = __builtin_shufflevector(t0_1, t0_3, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
            const twb_v16f32 t1_3 = __builtin_shufflevector(t0_1, t0_3, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
            *(twb_v16f32 *)(p + (q + 0) * width + i) = t1_0;
            *(twb_v16f32 *)(p + (q + 1) * width + i) = t1_1;
            *(twb_v16f32 *)(p + (q + 2) * width + i) = t1_2;
            *(twb_v16f32 *)(p + (q + 3) * width + i) = t1_3;
        }
    }
#endif
    for (int64_t i = 0; i < width; i++) for (int64_t q = i < whole ? k & -4 : 0; q < k; q++) p[q * width + i] = i < have ? b[i * ld + q] : 0;
}
#endif
static __attribute__((noinline, unused)) void twb_gemm_12x40x16_f16_f16_f32_16_16_40_nt(const uint16_t *a, const uint16_t *b, float *c, int clear, char *scratch) {
    float *pa = (float *)(scratch + 0);
    float *pb = (float *)(scratch + 1536);
    float *raw = (float *)(scratch + 4608);
    for (int64_t i = 0; i < 12; i++) {
        twb_copy_f16_to_f32(a + i * 16, pa + i * 32, 16);
    }
    for (int64_t j = 0; j < 1; j++) {
        const uint16_t *s = b + j * 16 + 0;
        for (int64_t q = 0; q < 40; q++) {
            twb_copy_f16_to_f32(s + q * 16, raw + q * 32, 16);
        }
        twb_turn_v16f32(16, 48, 40, raw, 32, pb + j * 16);
    }
    for (int64_t i = 0; i < 12; i += 6) {
        for (int64_t j = 0; j < 1; j++) twb_6x3_v16f32_t8_packed(16, pa + i * 32 + 0, 32, pb + j * 16, c + i * 40 + j, 40, 5, clear);
    }
}
