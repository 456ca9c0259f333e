/* histogram(D: int32[64, 32], W: int4[64, 32], bins: int32[16]) */
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
TWB_FN int32_t twb_floormod_i32(int32_t a, int32_t b) {
    if (b == 0 || b == -1) return 0;
    int32_t r = a % b;
    return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);
}
TWB_FN int8_t twb_load_i4(const uint8_t *p, int64_t i) { return (int8_t)(((p[i >> 1] >> ((int)(i & 1) * 4) & 15) ^ 8) - 8); }
TWB_FN int32_t twb_atomic_add_i32(int32_t *p, int32_t v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
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

static void histogram_block(const int32_t *D, const uint8_t *W, int32_t *bins, int64_t bx, int32_t *failed) {
  /* programs.py:99: for i in T.Parallel(32): */
  for (int64_t i = 0; i < 32; ++i) {
    /* programs.py:100: T.device_assert(D[bx, i] >= 0, "negative") */
    if (!(D[bx * 32 + i] >= 0)) {
      *failed = 1;
      return;
    }
    /* programs.py:101: T.atomic_add(bins[D[bx, i] % 16], T.cast(W[bx, i], "int32")) */
    twb_atomic_add_i32(&bins[twb_floormod_i32(D[bx * 32 + i], 16)], (int32_t)twb_load_i4(W, bx * 32 + i));
  }
}

TWB_RARE int32_t run_histogram(const int64_t *args, int32_t threads) {
  int32_t *const D = (int32_t *)args[0];
  uint8_t *const W = (uint8_t *)args[1];
  int32_t *const bins = (int32_t *)args[2];
  int32_t failed = 0;
  /* programs.py:98: with T.Kernel(64, threads=32) as bx: */
  #pragma omp parallel num_threads(threads) if (threads > 1)
  {
    twb_pin();
    #pragma omp for schedule(dynamic, 1) nowait
    for (int64_t bx = 0; bx < 64; ++bx)
      histogram_block(D, W, bins, bx, &failed);
  }
  if (failed) return failed;
  (void)args, (void)threads;
  return 0;
}
