/* gemm_relu(A: float16[256, 128], B: float16[128, 256], C: float16[256, 256]) */
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

TWB_RARE int32_t run_gemm_relu(const int64_t *args, int32_t threads) {
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
