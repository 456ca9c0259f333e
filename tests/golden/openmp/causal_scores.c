/* causal_scores(Q: float32[256, 64], K: float32[256, 64], S: float32[256, 256]) */
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
TWB_RARE static char *twb_own_area(int64_t bytes) {
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
TWB_RARE void *twb_share(void *other) {
  if (other) twb_scratch = (char *(*)(int64_t))other;
  return (void *)twb_scratch;
}
#if defined(_OPENMP) && defined(__linux__)
extern int sched_getaffinity(int, __SIZE_TYPE__, void *), sched_setaffinity(int, __SIZE_TYPE__, const void *);
extern int omp_get_thread_num(void), omp_get_num_threads(void);
/* Worker n of a team as large as the machine stays on the n-th processor that it may use. Not "cold": all that is near the call would be, too. */
TWB_RARE static __attribute__((noinline)) void twb_pin(void) {
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
static __attribute__((noinline, unused)) void twb_6x4_v16f32_packed(int64_t k, const float *a, int64_t lda, const float *b, float *c, int64_t ldc, int64_t last, int clear) {
    __builtin_prefetch(c + 0 * ldc, 1);
    __builtin_prefetch(c + 1 * ldc, 1);
    __builtin_prefetch(c + 2 * ldc, 1);
    __builtin_prefetch(c + 3 * ldc, 1);
    __builtin_prefetch(c + 4 * ldc, 1);
    __builtin_prefetch(c + last * ldc, 1);
    lda *= 4, ldc *= 4; /* bytes */
    const char *a0 = (const char *)a + 0 * lda, *a_last = (const char *)a + last * lda;
    char *const c_last = (char *)c + last * ldc, *at;
    int64_t turns = (k < 256 ? k : k - 64) / 4, more = k / 4 - turns, rest = k % 4;
    __asm__ volatile(
        "vpxord %%zmm0, %%zmm0, %%zmm0; vpxord %%zmm1, %%zmm1, %%zmm1; vpxord %%zmm2, %%zmm2, %%zmm2; vpxord %%zmm3, %%zmm3, %%zmm3\n"
        "vpxord %%zmm4, %%zmm4, %%zmm4; vpxord %%zmm5, %%zmm5, %%zmm5; vpxord %%zmm6, %%zmm6, %%zmm6; vpxord %%zmm7, %%zmm7, %%zmm7\n"
        "vpxord %%zmm8, %%zmm8, %%zmm8; vpxord %%zmm9, %%zmm9, %%zmm9; vpxord %%zmm10, %%zmm10, %%zmm10; vpxord %%zmm11, %%zmm11, %%zmm11\n"
        "vpxord %%zmm12, %%zmm12, %%zmm12; vpxord %%zmm13, %%zmm13, %%zmm13; vpxord %%zmm14, %%zmm14, %%zmm14; vpxord %%zmm15, %%zmm15, %%zmm15\n"
        "vpxord %%zmm16, %%zmm16, %%zmm16; vpxord %%zmm17, %%zmm17, %%zmm17; vpxord %%zmm18, %%zmm18, %%zmm18; vpxord %%zmm19, %%zmm19, %%zmm19\n"
        "vpxord %%zmm20, %%zmm20, %%zmm20; vpxord %%zmm21, %%zmm21, %%zmm21; vpxord %%zmm22, %%zmm22, %%zmm22; vpxord %%zmm23, %%zmm23, %%zmm23\n"
        "test %[turns], %[turns]\n"
        "jz 2f\n"
        ".p2align 5\n"
        "1:\n"
        "vmovups 0(%[b]), %%zmm24; vmovups 64(%[b]), %%zmm25; vmovups 128(%[b]), %%zmm26; vmovups 192(%[b]), %%zmm27\n"
        "vbroadcastss 0(%[a0]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm0; vfmadd231ps %%zmm25, %%zmm28, %%zmm1; vfmadd231ps %%zmm26, %%zmm28, %%zmm2; vfmadd231ps %%zmm27, %%zmm28, %%zmm3\n"
        "vbroadcastss 0(%[a0], %[lda]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm4; vfmadd231ps %%zmm25, %%zmm28, %%zmm5; vfmadd231ps %%zmm26, %%zmm28, %%zmm6; vfmadd231ps %%zmm27, %%zmm28, %%zmm7\n"
        "vbroadcastss 0(%[a0], %[lda], 2), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm8; vfmadd231ps %%zmm25, %%zmm28, %%zmm9; vfmadd231ps %%zmm26, %%zmm28, %%zmm10; vfmadd231ps %%zmm27, %%zmm28, %%zmm11\n"
        "vbroadcastss 0(%[a0], %[lda3]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm12; vfmadd231ps %%zmm25, %%zmm28, %%zmm13; vfmadd231ps %%zmm26, %%zmm28, %%zmm14; vfmadd231ps %%zmm27, %%zmm28, %%zmm15\n"
        "vbroadcastss 0(%[a0], %[lda], 4), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm16; vfmadd231ps %%zmm25, %%zmm28, %%zmm17; vfmadd231ps %%zmm26, %%zmm28, %%zmm18; vfmadd231ps %%zmm27, %%zmm28, %%zmm19\n"
        "vbroadcastss 0(%[a_last]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm20; vfmadd231ps %%zmm25, %%zmm28, %%zmm21; vfmadd231ps %%zmm26, %%zmm28, %%zmm22; vfmadd231ps %%zmm27, %%zmm28, %%zmm23\n"
        "vmovups 256(%[b]), %%zmm24; vmovups 320(%[b]), %%zmm25; vmovups 384(%[b]), %%zmm26; vmovups 448(%[b]), %%zmm27\n"
        "vbroadcastss 4(%[a0]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm0; vfmadd231ps %%zmm25, %%zmm28, %%zmm1; vfmadd231ps %%zmm26, %%zmm28, %%zmm2; vfmadd231ps %%zmm27, %%zmm28, %%zmm3\n"
        "vbroadcastss 4(%[a0], %[lda]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm4; vfmadd231ps %%zmm25, %%zmm28, %%zmm5; vfmadd231ps %%zmm26, %%zmm28, %%zmm6; vfmadd231ps %%zmm27, %%zmm28, %%zmm7\n"
        "vbroadcastss 4(%[a0], %[lda], 2), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm8; vfmadd231ps %%zmm25, %%zmm28, %%zmm9; vfmadd231ps %%zmm26, %%zmm28, %%zmm10; vfmadd231ps %%zmm27, %%zmm28, %%zmm11\n"
        "vbroadcastss 4(%[a0], %[lda3]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm12; vfmadd231ps %%zmm25, %%zmm28, %%zmm13; vfmadd231ps %%zmm26, %%zmm28, %%zmm14; vfmadd231ps %%zmm27, %%zmm28, %%zmm15\n"
        "vbroadcastss 4(%[a0], %[lda], 4), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm16; vfmadd231ps %%zmm25, %%zmm28, %%zmm17; vfmadd231ps %%zmm26, %%zmm28, %%zmm18; vfmadd231ps %%zmm27, %%zmm28, %%zmm19\n"
        "vbroadcastss 4(%[a_last]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm20; vfmadd231ps %%zmm25, %%zmm28, %%zmm21; vfmadd231ps %%zmm26, %%zmm28, %%zmm22; vfmadd231ps %%zmm27, %%zmm28, %%zmm23\n"
        "vmovups 512(%[b]), %%zmm24; vmovups 576(%[b]), %%zmm25; vmovups 640(%[b]), %%zmm26; vmovups 704(%[b]), %%zmm27\n"
        "vbroadcastss 8(%[a0]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm0; vfmadd231ps %%zmm25, %%zmm28, %%zmm1; vfmadd231ps %%zmm26, %%zmm28, %%zmm2; vfmadd231ps %%zmm27, %%zmm28, %%zmm3\n"
        "vbroadcastss 8(%[a0], %[lda]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm4; vfmadd231ps %%zmm25, %%zmm28, %%zmm5; vfmadd231ps %%zmm26, %%zmm28, %%zmm6; vfmadd231ps %%zmm27, %%zmm28, %%zmm7\n"
        "vbroadcastss 8(%[a0], %[lda], 2), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm8; vfmadd231ps %%zmm25, %%zmm28, %%zmm9; vfmadd231ps %%zmm26, %%zmm28, %%zmm10; vfmadd231ps %%zmm27, %%zmm28, %%zmm11\n"
        "vbroadcastss 8(%[a0], %[lda3]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm12; vfmadd231ps %%zmm25, %%zmm28, %%zmm13; vfmadd231ps %%zmm26, %%zmm28, %%zmm14; vfmadd231ps %%zmm27, %%zmm28, %%zmm15\n"
        "vbroadcastss 8(%[a0], %[lda], 4), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm16; vfmadd231ps %%zmm25, %%zmm28, %%zmm17; vfmadd231ps %%zmm26, %%zmm28, %%zmm18; vfmadd231ps %%zmm27, %%zmm28, %%zmm19\n"
        "vbroadcastss 8(%[a_last]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm20; vfmadd231ps %%zmm25, %%zmm28, %%zmm21; vfmadd231ps %%zmm26, %%zmm28, %%zmm22; vfmadd231ps %%zmm27, %%zmm28, %%zmm23\n"
        "vmovups 768(%[b]), %%zmm24; vmovups 832(%[b]), %%zmm25; vmovups 896(%[b]), %%zmm26; vmovups 960(%[b]), %%zmm27\n"
        "vbroadcastss 12(%[a0]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm0; vfmadd231ps %%zmm25, %%zmm28, %%zmm1; vfmadd231ps %%zmm26, %%zmm28, %%zmm2; vfmadd231ps %%zmm27, %%zmm28, %%zmm3\n"
        "vbroadcastss 12(%[a0], %[lda]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm4; vfmadd231ps %%zmm25, %%zmm28, %%zmm5; vfmadd231ps %%zmm26, %%zmm28, %%zmm6; vfmadd231ps %%zmm27, %%zmm28, %%zmm7\n"
        "vbroadcastss 12(%[a0], %[lda], 2), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm8; vfmadd231ps %%zmm25, %%zmm28, %%zmm9; vfmadd231ps %%zmm26, %%zmm28, %%zmm10; vfmadd231ps %%zmm27, %%zmm28, %%zmm11\n"
        "vbroadcastss 12(%[a0], %[lda3]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm12; vfmadd231ps %%zmm25, %%zmm28, %%zmm13; vfmadd231ps %%zmm26, %%zmm28, %%zmm14; vfmadd231ps %%zmm27, %%zmm28, %%zmm15\n"
        "vbroadcastss 12(%[a0], %[lda], 4), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm16; vfmadd231ps %%zmm25, %%zmm28, %%zmm17; vfmadd231ps %%zmm26, %%zmm28, %%zmm18; vfmadd231ps %%zmm27, %%zmm28, %%zmm19\n"
        "vbroadcastss 12(%[a_last]), %%zmm28; vfmadd231ps %%zmm24, %%zmm28, %%zmm20; vfmadd231ps %%zmm25, %%zmm28, %%zmm21; vfmadd231ps %%zmm26, %%zmm28, %%zmm22; vfmadd231ps %%zmm27, %%zmm28, %%zmm23\n"
        "add $1024, %[b]\n"
        "add $16, %[a0]\n"
        "add $16, %[a_last]\n"
        "dec %[turns]\n"
        "jnz 1b\n"
        "2:\n"
        "mov %[more], %[turns]\n"
        "test %[turns], %[turns]\n"
        "jz 3f\n"
        "movq $0, %[more]\n"
        "mov %[c], %[at]; prefetcht0 0(%[at]); prefetcht0 64(%[at]); prefetcht0 128(%[at]); prefetcht0 192(%[at])\n"
        "add %[ldc], %[at]; prefetcht0 0(%[at]); prefetcht0 64(%[at]); prefetcht0 128(%[at]); prefetcht0 192(%[at])\n"
        "add %[ldc], %[at]; prefetcht0 0(%[at]); prefetcht0 64(%[at]); prefetcht0 128(%[at]); prefetcht0 192(%[at])\n"
        "add %[ldc], %[at]; prefetcht0 0(%[at]); prefetcht0 64(%[at]); prefetcht0 128(%[at]); prefetcht0 192(%[at])\n"
        "add %[ldc], %[at]; prefetcht0 0(%[at]); prefetcht0 64(%[at]); prefetcht0 128(%[at]); prefetcht0 192(%[at])\n"
        "mov %[last], %[at]; prefetcht0 0(%[at]); prefetcht0 64(%[at]); prefetcht0 128(%[at]); prefetcht0 192(%[at])\n"
        "jmp 1b\n"
        "3:\n"
        "cmpl $0, %[clear]\n"
        "jnz 6f\n"
        "mov %[c], %[at]; vaddps 0(%[at]), %%zmm0, %%zmm0; vaddps 64(%[at]), %%zmm1, %%zmm1; vaddps 128(%[at]), %%zmm2, %%zmm2; vaddps 192(%[at]), %%zmm3, %%zmm3\n"
        "add %[ldc], %[at]; vaddps 0(%[at]), %%zmm4, %%zmm4; vaddps 64(%[at]), %%zmm5, %%zmm5; vaddps 128(%[at]), %%zmm6, %%zmm6; vaddps 192(%[at]), %%zmm7, %%zmm7\n"
        "add %[ldc], %[at]; vaddps 0(%[at]), %%zmm8, %%zmm8; vaddps 64(%[at]), %%zmm9, %%zmm9; vaddps 128(%[at]), %%zmm10, %%zmm10; vaddps 192(%[at]), %%zmm11, %%zmm11\n"
        "add %[ldc], %[at]; vaddps 0(%[at]), %%zmm12, %%zmm12; vaddps 64(%[at]), %%zmm13, %%zmm13; vaddps 128(%[at]), %%zmm14, %%zmm14; vaddps 192(%[at]), %%zmm15, %%zmm15\n"
        "add %[ldc], %[at]; vaddps 0(%[at]), %%zmm16, %%zmm16; vaddps 64(%[at]), %%zmm17, %%zmm17; vaddps 128(%[at]), %%zmm18, %%zmm18; vaddps 192(%[at]), %%zmm19, %%zmm19\n"
        "mov %[last], %[at]; vaddps 0(%[at]), %%zmm20, %%zmm20; vaddps 64(%[at]), %%zmm21, %%zmm21; vaddps 128(%[at]), %%zmm22, %%zmm22; vaddps 192(%[at]), %%zmm23, %%zmm23\n"
        "6:\n"
        "mov %[c], %[at]; vmovups %%zmm0, 0(%[at]); vmovups %%zmm1, 64(%[at]); vmovups %%zmm2, 128(%[at]); vmovups %%zmm3, 192(%[at])\n"
        "add %[ldc], %[at]; vmovups %%zmm4, 0(%[at]); vmovups %%zmm5, 64(%[at]); vmovups %%zmm6, 128(%[at]); vmovups %%zmm7, 192(%[at])\n"
        "add %[ldc], %[at]; vmovups %%zmm8, 0(%[at]); vmovups %%zmm9, 64(%[at]); vmovups %%zmm10, 128(%[at]); vmovups %%zmm11, 192(%[at])\n"
        "add %[ldc], %[at]; vmovups %%zmm12, 0(%[at]); vmovups %%zmm13, 64(%[at]); vmovups %%zmm14, 128(%[at]); vmovups %%zmm15, 192(%[at])\n"
        "add %[ldc], %[at]; vmovups %%zmm16, 0(%[at]); vmovups %%zmm17, 64(%[at]); vmovups %%zmm18, 128(%[at]); vmovups %%zmm19, 192(%[at])\n"
        "mov %[last], %[at]; vmovups %%zmm20, 0(%[at]); vmovups %%zmm21, 64(%[at]); vmovups %%zmm22, 128(%[at]); vmovups %%zmm23, 192(%[at])\n"
        "vzeroupper\n"
        : [turns] "+r"(turns), [b] "+r"(b), [a0] "+r"(a0), [a_last] "+r"(a_last), [at] "=&r"(at), [more] "+m"(more)
        : [lda] "r"(lda), [lda3] "r"(lda * 3), [c] "m"(c), [ldc] "m"(ldc), [last] "m"(c_last), [clear] "m"(clear), [rest] "m"(rest)
        : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28");
}
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

TWB_RARE int32_t run_causal_scores(const int64_t *args, int32_t threads) {
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
