/* causal_scores(Q: float32[256, 64], K: float32[256, 64], S: float32[256, 256]) */
typedef __INT8_TYPE__ int8_t; typedef __INT16_TYPE__ int16_t; typedef __INT32_TYPE__ int32_t; typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t; typedef __UINT16_TYPE__ uint16_t; typedef __UINT32_TYPE__ uint32_t; typedef __UINT64_TYPE__ uint64_t;
#define TWB_FN static inline __attribute__((always_inline, unused))
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define TWB_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#else
#define TWB_FMAF(a, b, c) ((a) * (b) + (c))
#endif
TWB_FN int64_t twb_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
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
#ifdef TWB_APART
extern __attribute__((visibility("hidden"))) void twb_turn_v16f32(int64_t k, int64_t width, int64_t have, const float *b, int64_t ld, float *p);
#else
static __attribute__((noinline, unused)) void twb_turn_v16f32(int64_t k, int64_t width, int64_t have, const float *b, int64_t ld, float *p) {
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
        for (int64_t q = k & -4; q < k; q++) for (int64_t r = 0; r < 16; r++) p[q * width + i + r] = b[(i + r) * ld + q];
    }
#endif
    for (int64_t i = whole; i < have; i++) for (int64_t q = 0; q < k; q++) p[q * width + i] = b[i * ld + q];
    for (int64_t i = have; i < width; i++) for (int64_t q = 0; q < k; q++) p[q * width + i] = 0;
}
#endif
static __attribute__((noinline, unused)) void twb_gemm_64x64x64_f32_f32_f32_64_64_64_nt_farb(const float *a, const float *b, float *c, int clear, char *scratch) {
    float *pb = (float *)(scratch + 0);
    for (int64_t j = 0; j < 64; j += 64) {
        twb_turn_v16f32(64, 64, 64, b + j * 64 + 0, 64, pb + j * 64);
    }
    for (int64_t i = 0; i < 54; i += 6) {
        for (int64_t j = 0; j < 64; j += 64) twb_6x4_v16f32_packed(64, a + i * 64 + 0, 64, pb + j * 64, c + i * 64 + j, 64, 5, clear);
    }
    for (int64_t i = 54; i < 64; i += 5) {
        for (int64_t j = 0; j < 64; j += 64) twb_6x4_v16f32_packed(64, a + i * 64 + 0, 64, pb + j * 64, c + i * 64 + j, 64, 4, clear);
    }
}

static void causal_scores_block(const float *Q, const float *K, float *S, int64_t bx, int32_t *failed) {
  char *const scratch = twb_scratch(49152);
  if (!scratch) {
    *failed = -1;
    return;
  }
  float *const q = (float *)(scratch + 0); /* shared (64, 64) float32 */
  float *const s = (float *)(scratch + 16384); /* fragment (64, 64) float32 */
  /* programs.py:61: T.copy(Q[bx * 64, 0], q) */
  __builtin_memcpy(q, &Q[bx * 4096], 4096 * sizeof(float));
  /* programs.py:62: for ko in T.Pipelined(bx + 1, num_stages=1): */
  for (int64_t ko = 0; ko < bx + 1; ++ko) {
    /* programs.py:64: for i, j in T.Parallel(64, 64): */
    for (int64_t i = 0; i < 64; ++i) {
      const int32_t j_end = (int32_t)twb_min_i64(bx * 64 + i - ko * 64 + 1, 64);
      #pragma omp simd
      for (int32_t j = 0; j < 64; ++j) {
        /* programs.py:65: s[i, j] = T.if_then_else(bx * 64 + i >= ko * 64 + j, 0, -T.infinity("float32")) */
        s[i * 64 + j] = j < j_end ? 0.0f : -__builtin_inff();
      }
    }
    /* programs.py:66: T.gemm(q, k, s, transpose_B=True) */
    twb_gemm_64x64x64_f32_f32_f32_64_64_64_nt_farb(q, &K[ko * 4096], s, 0, scratch + 32768);
    /* programs.py:67: T.copy(s, S[bx * 64, ko * 64]) */
    for (int64_t i = 0; i < 64; ++i) {
      __builtin_memcpy(&S[(bx * 64 + i) * 256 + ko * 64], &s[i * 64], 64 * sizeof(float));
    }
  }
}

int32_t run_causal_scores(const int64_t *args, int32_t threads) {
  float *const Q = (float *)args[0];
  float *const K = (float *)args[1];
  float *const S = (float *)args[2];
  int32_t failed = 0;
  /* programs.py:57: with T.Kernel(4, threads=128) as bx: */
  #pragma omp parallel num_threads(threads) if (threads > 1)
  {
    twb_pin();
    #pragma omp for schedule(dynamic, 1) nowait
    for (int64_t bx = 0; bx < 4; ++bx)
      causal_scores_block(Q, K, S, bx, &failed);
  }
  if (failed) return failed;
  (void)args, (void)threads;
  return 0;
}
