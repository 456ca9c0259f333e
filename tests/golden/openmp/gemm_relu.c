/* gemm_relu(A: float16[256, 128], B: float16[128, 256], C: float16[256, 256]) */
typedef __INT8_TYPE__ int8_t; typedef __INT16_TYPE__ int16_t; typedef __INT32_TYPE__ int32_t; typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t; typedef __UINT16_TYPE__ uint16_t; typedef __UINT32_TYPE__ uint32_t; typedef __UINT64_TYPE__ uint64_t;
#define TWB_FN static inline __attribute__((always_inline, unused))
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define TWB_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#else
#define TWB_FMAF(a, b, c) ((a) * (b) + (c))
#endif
TWB_FN float twb_max_f32(float a, float b) {
    float m = a > b ? a : b;
    return b != b ? a : m;
}
TWB_FN uint32_t twb_bits_f32(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
TWB_FN float twb_f32_bits(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
TWB_FN uint16_t twb_f32_to_f16(float x) {
    #if defined(__aarch64__) || (defined(__clang__) && __clang_major__ >= 15 && defined(__F16C__))
    _Float16 f = (_Float16)x; uint16_t h; __builtin_memcpy(&h, &f, 2); return h;
    #else
    uint32_t u = twb_bits_f32(x), a = u & 0x7fffffffu, s = u >> 16 & 0x8000;
    uint32_t n = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
    uint32_t d = twb_bits_f32(twb_f32_bits(a) + twb_f32_bits(0x3f000000u)) - 0x3f000000u;
    uint32_t small = -(uint32_t)(a < 0x38800000u), nan = -(uint32_t)(a > 0x7f800000u), r = (d & small) | (n & ~small);
    uint32_t over = -(uint32_t)(r > 0x7c00);
    r = ((0x7c00 & over) | (r & ~over)) & ~nan;
    return (uint16_t)(r | (0x7e00 & nan) | s);
    #endif
}
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
extern void *aligned_alloc(__SIZE_TYPE__, __SIZE_TYPE__); extern void free(void *); extern int madvise(void *, __SIZE_TYPE__, int);
static _Thread_local char *twb_area; static _Thread_local int64_t twb_area_bytes;
/* This core's tile memory: it grows, and stays for the next call. */
static char *twb_own_area(int64_t bytes) {
  if (twb_area_bytes < bytes) {
    const int64_t page = bytes < 1048576 ? 4096 : 2097152; /* small tiles do not fill a huge page */
    free(twb_area);
    twb_area_bytes = (bytes + page - 1) & -page;
    twb_area = aligned_alloc(page, twb_area_bytes);
    if (!twb_area) twb_area_bytes = 0;
    else if (page > 4096) madvise(twb_area, twb_area_bytes, 14);
  }
  return twb_area;
}
static char *(*twb_scratch)(int64_t) = twb_own_area;
/* Take the tile memory of another kernel of this process; gives back whose is in use. */
void *twb_share(void *other) {
  if (other) twb_scratch = (char *(*)(int64_t))other;
  return (void *)twb_scratch;
}
#if defined(_OPENMP) && defined(__linux__)
extern int sched_getaffinity(int, __SIZE_TYPE__, void *), sched_setaffinity(int, __SIZE_TYPE__, const void *);
extern int omp_get_thread_num(void), omp_get_num_threads(void);
/* Worker n of a team as large as the machine stays on the n-th processor that it may use. Not "cold": all that is near the call would be, too. */
static __attribute__((noinline)) void twb_pin(void) {
  static _Thread_local int seen;
  const int number = omp_get_thread_num(), team = omp_get_num_threads();
  if (number == 0 || seen == team) return;
  seen = team;
  uint64_t mask[128] = {0}, own[128] = {0};
  int count = 0, place = -1;
  if (sched_getaffinity(0, sizeof mask, mask)) return;
  for (int i = 0; i < 8192; ++i) {
    if (mask[i / 64] >> i % 64 & 1 && count++ == number) place = i;
  }
  if (count != team || place < 0) return;
  own[place / 64] = (uint64_t)1 << place % 64;
  sched_setaffinity(0, sizeof own, own);
}
#else
static void twb_pin(void) {}
#endif
typedef float twb_v16f32 __attribute__((vector_size(64), aligned(4), may_alias));
#ifdef TWB_APART
extern __attribute__((visibility("hidden"))) void twb_6x4_v16f32_packed(int64_t k, const float *a, int64_t lda, const float *b, float *c, int64_t ldc, int64_t last, int clear);
#else
static __attribute__((noinline, unused)) void twb_6x4_v16f32_packed(int64_t k, const float *a, int64_t lda, const float *b, float *c, int64_t ldc, int64_t last, int clear) {
    __builtin_prefetch(c + 0 * ldc, 1);
    __builtin_prefetch(c + 1 * ldc, 1);
    __builtin_prefetch(c + 2 * ldc, 1);
    __builtin_prefetch(c + 3 * ldc, 1);
    __builtin_prefetch(c + 4 * ldc, 1);
    __builtin_prefetch(c + last * ldc, 1);
    twb_v16f32 c0_0 = {0}, c0_1 = {0}, c0_2 = {0}, c0_3 = {0};
    twb_v16f32 c1_0 = {0}, c1_1 = {0}, c1_2 = {0}, c1_3 = {0};
    twb_v16f32 c2_0 = {0}, c2_1 = {0}, c2_2 = {0}, c2_3 = {0};
    twb_v16f32 c3_0 = {0}, c3_1 = {0}, c3_2 = {0}, c3_3 = {0};
    twb_v16f32 c4_0 = {0}, c4_1 = {0}, c4_2 = {0}, c4_3 = {0};
    twb_v16f32 c5_0 = {0}, c5_1 = {0}, c5_2 = {0}, c5_3 = {0};
    lda *= 4; /* bytes */
    const char *b0 = (const char *)b, *a0 = (const char *)a + 0 * lda, *a3 = (const char *)a + 3 * lda, *a_last = (const char *)a + last * lda;
    int64_t x = 0;
    for (int64_t end = k < 256 ? k : k - 64;; end = k) {
        for (; x < end - 3; x += 4) {
            {
                const twb_v16f32 b_0 = *(const twb_v16f32 *)(b0 + 0 + 0), b_1 = *(const twb_v16f32 *)(b0 + 0 + 64), b_2 = *(const twb_v16f32 *)(b0 + 0 + 128), b_3 = *(const twb_v16f32 *)(b0 + 0 + 192);
                const twb_v16f32 v0 = *(const float *)(a0 + 0 * lda + 0) - (twb_v16f32){0}; c0_0 += v0 * b_0; c0_1 += v0 * b_1; c0_2 += v0 * b_2; c0_3 += v0 * b_3;
                const twb_v16f32 v1 = *(const float *)(a0 + 1 * lda + 0) - (twb_v16f32){0}; c1_0 += v1 * b_0; c1_1 += v1 * b_1; c1_2 += v1 * b_2; c1_3 += v1 * b_3;
                const twb_v16f32 v2 = *(const float *)(a0 + 2 * lda + 0) - (twb_v16f32){0}; c2_0 += v2 * b_0; c2_1 += v2 * b_1; c2_2 += v2 * b_2; c2_3 += v2 * b_3;
                const twb_v16f32 v3 = *(const float *)(a3 + 0 * lda + 0) - (twb_v16f32){0}; c3_0 += v3 * b_0; c3_1 += v3 * b_1; c3_2 += v3 * b_2; c3_3 += v3 * b_3;
                const twb_v16f32 v4 = *(const float *)(a3 + 1 * lda + 0) - (twb_v16f32){0}; c4_0 += v4 * b_0; c4_1 += v4 * b_1; c4_2 += v4 * b_2; c4_3 += v4 * b_3;
                const twb_v16f32 v5 = *(const float *)(a_last + 0) - (twb_v16f32){0}; c5_0 += v5 * b_0; c5_1 += v5 * b_1; c5_2 += v5 * b_2; c5_3 += v5 * b_3;
            }
            {
                const twb_v16f32 b_0 = *(const twb_v16f32 *)(b0 + 256 + 0), b_1 = *(const twb_v16f32 *)(b0 + 256 + 64), b_2 = *(const twb_v16f32 *)(b0 + 256 + 128), b_3 = *(const twb_v16f32 *)(b0 + 256 + 192);
                const twb_v16f32 v0 = *(const float *)(a0 + 0 * lda + 4) - (twb_v16f32){0}; c0_0 += v0 * b_0; c0_1 += v0 * b_1; c0_2 += v0 * b_2; c0_3 += v0 * b_3;
                const twb_v16f32 v1 = *(const float *)(a0 + 1 * lda + 4) - (twb_v16f32){0}; c1_0 += v1 * b_0; c1_1 += v1 * b_1; c1_2 += v1 * b_2; c1_3 += v1 * b_3;
                const twb_v16f32 v2 = *(const float *)(a0 + 2 * lda + 4) - (twb_v16f32){0}; c2_0 += v2 * b_0; c2_1 += v2 * b_1; c2_2 += v2 * b_2; c2_3 += v2 * b_3;
                const twb_v16f32 v3 = *(const float *)(a3 + 0 * lda + 4) - (twb_v16f32){0}; c3_0 += v3 * b_0; c3_1 += v3 * b_1; c3_2 += v3 * b_2; c3_3 += v3 * b_3;
                const twb_v16f32 v4 = *(const float *)(a3 + 1 * lda + 4) - (twb_v16f32){0}; c4_0 += v4 * b_0; c4_1 += v4 * b_1; c4_2 += v4 * b_2; c4_3 += v4 * b_3;
                const twb_v16f32 v5 = *(const float *)(a_last + 4) - (twb_v16f32){0}; c5_0 += v5 * b_0; c5_1 += v5 * b_1; c5_2 += v5 * b_2; c5_3 += v5 * b_3;
            }
            {
                const twb_v16f32 b_0 = *(const twb_v16f32 *)(b0 + 512 + 0), b_1 = *(const twb_v16f32 *)(b0 + 512 + 64), b_2 = *(const twb_v16f32 *)(b0 + 512 + 128), b_3 = *(const twb_v16f32 *)(b0 + 512 + 192);
                const twb_v16f32 v0 = *(const float *)(a0 + 0 * lda + 8) - (twb_v16f32){0}; c0_0 += v0 * b_0; c0_1 += v0 * b_1; c0_2 += v0 * b_2; c0_3 += v0 * b_3;
                const twb_v16f32 v1 = *(const float *)(a0 + 1 * lda + 8) - (twb_v16f32){0}; c1_0 += v1 * b_0; c1_1 += v1 * b_1; c1_2 += v1 * b_2; c1_3 += v1 * b_3;
                const twb_v16f32 v2 = *(const float *)(a0 + 2 * lda + 8) - (twb_v16f32){0}; c2_0 += v2 * b_0; c2_1 += v2 * b_1; c2_2 += v2 * b_2; c2_3 += v2 * b_3;
                const twb_v16f32 v3 = *(const float *)(a3 + 0 * lda + 8) - (twb_v16f32){0}; c3_0 += v3 * b_0; c3_1 += v3 * b_1; c3_2 += v3 * b_2; c3_3 += v3 * b_3;
                const twb_v16f32 v4 = *(const float *)(a3 + 1 * lda + 8) - (twb_v16f32){0}; c4_0 += v4 * b_0; c4_1 += v4 * b_1; c4_2 += v4 * b_2; c4_3 += v4 * b_3;
                const twb_v16f32 v5 = *(const float *)(a_last + 8) - (twb_v16f32){0}; c5_0 += v5 * b_0; c5_1 += v5 * b_1; c5_2 += v5 * b_2; c5_3 += v5 * b_3;
            }
            {
                const twb_v16f32 b_0 = *(const twb_v16f32 *)(b0 + 768 + 0), b_1 = *(const twb_v16f32 *)(b0 + 768 + 64), b_2 = *(const twb_v16f32 *)(b0 + 768 + 128), b_3 = *(const twb_v16f32 *)(b0 + 768 + 192);
                const twb_v16f32 v0 = *(const float *)(a0 + 0 * lda + 12) - (twb_v16f32){0}; c0_0 += v0 * b_0; c0_1 += v0 * b_1; c0_2 += v0 * b_2; c0_3 += v0 * b_3;
                const twb_v16f32 v1 = *(const float *)(a0 + 1 * lda + 12) - (twb_v16f32){0}; c1_0 += v1 * b_0; c1_1 += v1 * b_1; c1_2 += v1 * b_2; c1_3 += v1 * b_3;
                const twb_v16f32 v2 = *(const float *)(a0 + 2 * lda + 12) - (twb_v16f32){0}; c2_0 += v2 * b_0; c2_1 += v2 * b_1; c2_2 += v2 * b_2; c2_3 += v2 * b_3;
                const twb_v16f32 v3 = *(const float *)(a3 + 0 * lda + 12) - (twb_v16f32){0}; c3_0 += v3 * b_0; c3_1 += v3 * b_1; c3_2 += v3 * b_2; c3_3 += v3 * b_3;
                const twb_v16f32 v4 = *(const float *)(a3 + 1 * lda + 12) - (twb_v16f32){0}; c4_0 += v4 * b_0; c4_1 += v4 * b_1; c4_2 += v4 * b_2; c4_3 += v4 * b_3;
                const twb_v16f32 v5 = *(const float *)(a_last + 12) - (twb_v16f32){0}; c5_0 += v5 * b_0; c5_1 += v5 * b_1; c5_2 += v5 * b_2; c5_3 += v5 * b_3;
            }
            a0 += 16; a3 += 16; a_last += 16; b0 += 1024;
        }
        if (end == k) break;
        for (int64_t i = 0; i < 6; i++) { const float *row = c + (i < 5 ? i : last) * ldc; __builtin_prefetch(row + 0, 1); __builtin_prefetch(row + 16, 1); __builtin_prefetch(row + 32, 1); __builtin_prefetch(row + 48, 1); }
    }
    if (!clear) {
        c0_0 += *(const twb_v16f32 *)(c + 0 * ldc + 0);
        c0_1 += *(const twb_v16f32 *)(c + 0 * ldc + 16);
        c0_2 += *(const twb_v16f32 *)(c + 0 * ldc + 32);
        c0_3 += *(const twb_v16f32 *)(c + 0 * ldc + 48);
        c1_0 += *(const twb_v16f32 *)(c + 1 * ldc + 0);
        c1_1 += *(const twb_v16f32 *)(c + 1 * ldc + 16);
        c1_2 += *(const twb_v16f32 *)(c + 1 * ldc + 32);
        c1_3 += *(const twb_v16f32 *)(c + 1 * ldc + 48);
        c2_0 += *(const twb_v16f32 *)(c + 2 * ldc + 0);
        c2_1 += *(const twb_v16f32 *)(c + 2 * ldc + 16);
        c2_2 += *(const twb_v16f32 *)(c + 2 * ldc + 32);
        c2_3 += *(const twb_v16f32 *)(c + 2 * ldc + 48);
        c3_0 += *(const twb_v16f32 *)(c + 3 * ldc + 0);
        c3_1 += *(const twb_v16f32 *)(c + 3 * ldc + 16);
        c3_2 += *(const twb_v16f32 *)(c + 3 * ldc + 32);
        c3_3 += *(const twb_v16f32 *)(c + 3 * ldc + 48);
        c4_0 += *(const twb_v16f32 *)(c + 4 * ldc + 0);
        c4_1 += *(const twb_v16f32 *)(c + 4 * ldc + 16);
        c4_2 += *(const twb_v16f32 *)(c + 4 * ldc + 32);
        c4_3 += *(const twb_v16f32 *)(c + 4 * ldc + 48);
        c5_0 += *(const twb_v16f32 *)(c + last * ldc + 0);
        c5_1 += *(const twb_v16f32 *)(c + last * ldc + 16);
        c5_2 += *(const twb_v16f32 *)(c + last * ldc + 32);
        c5_3 += *(const twb_v16f32 *)(c + last * ldc + 48);
    }
    *(twb_v16f32 *)(c + 0 * ldc + 0) = c0_0;
    *(twb_v16f32 *)(c + 0 * ldc + 16) = c0_1;
    *(twb_v16f32 *)(c + 0 * ldc + 32) = c0_2;
    *(twb_v16f32 *)(c + 0 * ldc + 48) = c0_3;
    *(twb_v16f32 *)(c + 1 * ldc + 0) = c1_0;
    *(twb_v16f32 *)(c + 1 * ldc + 16) = c1_1;
    *(twb_v16f32 *)(c + 1 * ldc + 32) = c1_2;
    *(twb_v16f32 *)(c + 1 * ldc + 48) = c1_3;
    *(twb_v16f32 *)(c + 2 * ldc + 0) = c2_0;
    *(twb_v16f32 *)(c + 2 * ldc + 16) = c2_1;
    *(twb_v16f32 *)(c + 2 * ldc + 32) = c2_2;
    *(twb_v16f32 *)(c + 2 * ldc + 48) = c2_3;
    *(twb_v16f32 *)(c + 3 * ldc + 0) = c3_0;
    *(twb_v16f32 *)(c + 3 * ldc + 16) = c3_1;
    *(twb_v16f32 *)(c + 3 * ldc + 32) = c3_2;
    *(twb_v16f32 *)(c + 3 * ldc + 48) = c3_3;
    *(twb_v16f32 *)(c + 4 * ldc + 0) = c4_0;
    *(twb_v16f32 *)(c + 4 * ldc + 16) = c4_1;
    *(twb_v16f32 *)(c + 4 * ldc + 32) = c4_2;
    *(twb_v16f32 *)(c + 4 * ldc + 48) = c4_3;
    *(twb_v16f32 *)(c + last * ldc + 0) = c5_0;
    *(twb_v16f32 *)(c + last * ldc + 16) = c5_1;
    *(twb_v16f32 *)(c + last * ldc + 32) = c5_2;
    *(twb_v16f32 *)(c + last * ldc + 48) = c5_3;
}
#endif
static __attribute__((noinline)) void twb_gemm_64x64x32_f16_f16_f32_128_256_64_farab_pack(int64_t k, const uint16_t *b, float *p) {
    for (int64_t q = 0; q < k; q++, b += 256) {
        for (int64_t j = 0; j < 64; j += 64) {
            float *d = p + j * 32 + q * 64;
            twb_copy_f16_to_f32(b + j, d, 64);
        }
    }
}
static __attribute__((noinline, unused)) void twb_gemm_64x64x32_f16_f16_f32_128_256_64_farab(const uint16_t *a, const uint16_t *b, float *c, int clear, char *scratch) {
    float *pa = (float *)(scratch + 0);
    float *pb = (float *)(scratch + 12288);
    for (int64_t i = 0; i < 64; i++) {
        twb_copy_f16_to_f32(a + i * 128, pa + i * 48, 32);
    }
    twb_gemm_64x64x32_f16_f16_f32_128_256_64_farab_pack(32, b + 0 * 256, pb);
    for (int64_t i = 0; i < 54; i += 6) {
        for (int64_t j = 0; j < 64; j += 64) twb_6x4_v16f32_packed(32, pa + i * 48 + 0, 48, pb + j * 32, c + i * 64 + j, 64, 5, clear);
    }
    for (int64_t i = 54; i < 64; i += 5) {
        for (int64_t j = 0; j < 64; j += 64) twb_6x4_v16f32_packed(32, pa + i * 48 + 0, 48, pb + j * 32, c + i * 64 + j, 64, 4, clear);
    }
}

static void gemm_relu_block(const uint16_t *A, const uint16_t *B, uint16_t *C, int64_t bx, int64_t by, int32_t *failed) {
  char *const scratch = twb_scratch(36864);
  if (!scratch) {
    *failed = -1;
    return;
  }
  float *const C_local = (float *)(scratch + 0); /* fragment (64, 64) float32 */
  /* programs.py:18: T.clear(C_local) */
  #pragma omp simd
  for (int32_t i = 0; i < 4096; ++i) {
    C_local[i] = 0.0f;
  }
  /* programs.py:19: for ko in T.Pipelined(T.ceildiv(128, 32), num_stages=2): */
  for (int64_t ko = 0; ko < 4; ++ko) {
    /* programs.py:22: T.gemm(A_shared, B_shared, C_local) */
    twb_gemm_64x64x32_f16_f16_f32_128_256_64_farab(&A[by * 8192 + ko * 32], &B[ko * 8192 + bx * 64], C_local, 0, scratch + 16384);
  }
  /* programs.py:23: for i, j in T.Parallel(64, 64): */
  for (int64_t i = 0; i < 64; ++i) {
    #pragma omp simd
    for (int32_t j = 0; j < 64; ++j) {
      /* programs.py:24: C_local[i, j] = T.max(C_local[i, j], 0.0) */
      C[(by * 64 + i) * 256 + bx * 64 + j] = twb_f32_to_f16(twb_max_f32(C_local[i * 64 + j], 0.0f));
    }
  }
}

int32_t run_gemm_relu(const int64_t *args, int32_t threads) {
  uint16_t *const A = (uint16_t *)args[0];
  uint16_t *const B = (uint16_t *)args[1];
  uint16_t *const C = (uint16_t *)args[2];
  int32_t failed = 0;
  /* programs.py:14: with T.Kernel(T.ceildiv(256, 64), T.ceildiv(256, 64), threads=128) as (bx, by): */
  #pragma omp parallel num_threads(threads) if (threads > 1)
  {
    twb_pin();
    #pragma omp for collapse(2) schedule(dynamic, 1) nowait
    for (int64_t by = 0; by < 4; ++by)
      for (int64_t bx = 0; bx < 4; ++bx)
        gemm_relu_block(A, B, C, bx, by, &failed);
  }
  if (failed) return failed;
  (void)args, (void)threads;
  return 0;
}
