/* row_softmax(X: float32[m, 100], Y: float32[m, 100]) */
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
TWB_FN int64_t twb_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
#ifndef TWB_LANES
#if defined(__AVX512F__)
#define TWB_LANES 16
#elif defined(__AVX__)
#define TWB_LANES 8
#else
#define TWB_LANES 4
#endif
typedef float twb_vf __attribute__((vector_size(4 * TWB_LANES), aligned(4), may_alias));
typedef int32_t twb_vi __attribute__((vector_size(4 * TWB_LANES), aligned(4), may_alias));
#if __has_builtin(__builtin_shufflevector)
#define TWB_SHUFFLE(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define TWB_SHUFFLE(v, ...) __builtin_shuffle(v, (twb_vi){__VA_ARGS__})
#endif
#endif
TWB_FN twb_vf twb_pick_max_f32(twb_vf x, twb_vf y) {
    #if TWB_LANES == 16 && !defined(__clang__)
    typedef float v16 __attribute__((vector_size(64)));
    return (twb_vf)__builtin_ia32_maxps512_mask((v16)x, (v16)y, (v16)y, (unsigned short)-1, 4);
    #elif TWB_LANES == 8 && !defined(__clang__)
    typedef float v8 __attribute__((vector_size(32)));
    return (twb_vf)__builtin_ia32_maxps256((v8)x, (v8)y);
    #else
    const twb_vi m = x > y;
    return (twb_vf)((m & (twb_vi)x) | (~m & (twb_vi)y));
    #endif
}
TWB_FN float twb_fold_max_f32(twb_vf v) {
    #if TWB_LANES == 16
    v = twb_pick_max_f32(v, TWB_SHUFFLE(v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    v = twb_pick_max_f32(v, TWB_SHUFFLE(v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    v = twb_pick_max_f32(v, TWB_SHUFFLE(v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    v = twb_pick_max_f32(v, TWB_SHUFFLE(v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    #elif TWB_LANES == 8
    v = twb_pick_max_f32(v, TWB_SHUFFLE(v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = twb_pick_max_f32(v, TWB_SHUFFLE(v, 2, 3, 0, 1, 6, 7, 4, 5));
    v = twb_pick_max_f32(v, TWB_SHUFFLE(v, 1, 0, 3, 2, 5, 4, 7, 6));
    #elif TWB_LANES == 4
    v = twb_pick_max_f32(v, TWB_SHUFFLE(v, 2, 3, 0, 1));
    v = twb_pick_max_f32(v, TWB_SHUFFLE(v, 1, 0, 3, 2));
    #endif
    return v[0];
}
static __attribute__((noinline, cold)) float twb_unless_nan_f32(const float *x, int64_t n, float r) {
    for (int64_t l = 0; l < n; l++) if (x[l] == x[l]) return r;
    return __builtin_nanf("");
}
TWB_FN float twb_row_max_f32(const float *x_, int64_t n) {
    twb_vf a = (twb_vf){0} + -__builtin_inff(), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * TWB_LANES <= n; i += 4 * TWB_LANES) {
        a = twb_pick_max_f32(*(const twb_vf *)(x_ + i + 0 * TWB_LANES), a); b = twb_pick_max_f32(*(const twb_vf *)(x_ + i + 1 * TWB_LANES), b);
        c = twb_pick_max_f32(*(const twb_vf *)(x_ + i + 2 * TWB_LANES), c); d = twb_pick_max_f32(*(const twb_vf *)(x_ + i + 3 * TWB_LANES), d);
    }
    for (; i + TWB_LANES <= n; i += TWB_LANES) a = twb_pick_max_f32(*(const twb_vf *)(x_ + i + 0 * TWB_LANES), a);
    float r = twb_fold_max_f32(twb_pick_max_f32(twb_pick_max_f32(a, b), twb_pick_max_f32(c, d)));
    for (int64_t l = 0; l < n - i; l++) { const float x = x_[i + l]; r = x > r ? x : r; }
    return r == -__builtin_inff() ? twb_unless_nan_f32(x_, n, r) : r;
}
TWB_FN uint32_t twb_bits_f32(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
TWB_FN float twb_f32_bits(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
TWB_FN float twb_exp_f32(float x) {
    float t = x * 0x1.715476p+0f + 12582912.0f, n = t - 12582912.0f;
    float r = (x - n * 0x1.62e400p-1f) - n * 0x1.7f7d1cp-20f;
    uint32_t u = twb_bits_f32((((((0x1.6a4eeep-10f * r + 0x1.123982p-7f) * r + 0x1.5558aep-5f) * r + 0x1.555492p-3f) * r + 0x1.fffffcp-2f) * r * r + r) + 1.0f) + (twb_bits_f32(t) << 23);
    u = x < -0x1.5d589ep+6f ? 0 : u;
    float e = twb_f32_bits(u);
    return x < 0x1.62e430p+6f ? e : x * __builtin_inff();
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

static void row_softmax_block(const float *X, float *Y, int64_t m, int64_t bx, int32_t *failed) {
  char *const scratch = twb_scratch(4224);
  if (!scratch) {
    *failed = -1;
    return;
  }
  float *const x = (float *)(scratch + 0); /* fragment (8, 128) float32 */
  float *const top = (float *)(scratch + 4096); /* fragment (8) float32 */
  float *const total = (float *)(scratch + 4160); /* fragment (8) float32 */
  /* programs.py:41: T.copy(X[bx * 8, 0], x) */
  const int64_t end = twb_max_i64(twb_min_i64(m - bx * 8, 8), 0);
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t valid = i < end ? 100 : 0;
    __builtin_memcpy(&x[i * 128], &X[(bx * 8 + i) * 100], valid * sizeof(float));
    #pragma omp simd
    for (int32_t j = (int32_t)valid; j < 128; ++j) {
      x[i * 128 + j] = -__builtin_inff();
    }
  }
  /* programs.py:42: T.reduce_max(x, top, dim=1) */
  for (int64_t i = 0; i < 8; ++i) {
    top[i] = twb_row_max_f32(&x[i * 128], 128);
    /* programs.py:43: for i, j in T.Parallel(8, 128): */
    const float top_0 = top[i];
    float sum = 0.0f;
    #pragma omp simd reduction(+:sum)
    for (int32_t j = 0; j < 128; ++j) {
      /* programs.py:44: x[i, j] = T.exp(x[i, j] - top[i]) */
      const float x_j = twb_exp_f32(x[i * 128 + j] - top_0);
      x[i * 128 + j] = x_j;
      /* programs.py:45: T.reduce_sum(x, total, dim=1) */
      sum = sum + x_j;
    }
    total[i] = sum;
  }
  const int64_t i_last = twb_min_i64(m - bx * 8, 8);
  /* programs.py:46: for i, j in T.Parallel(8, 100): */
  for (int64_t i = 0; i < i_last; ++i) {
    const float total_0 = total[i];
    #pragma omp simd
    for (int32_t j = 0; j < 100; ++j) {
      /* programs.py:47: Y[bx * 8 + i, j] = x[i, j] / total[i] */
      Y[(bx * 8 + i) * 100 + j] = x[i * 128 + j] / total_0;
    }
  }
}

TWB_RARE int32_t run_row_softmax(const int64_t *args, int32_t threads) {
  float *const X = (float *)args[0];
  float *const Y = (float *)args[1];
  const int64_t m = args[2];
  int32_t failed = 0;
  /* programs.py:36: with T.Kernel(T.ceildiv(M, 8), threads=128) as bx: */
  #pragma omp parallel num_threads(threads) if (threads > 1)
  {
    twb_pin();
    #pragma omp for schedule(dynamic, 1) nowait
    for (int64_t bx = 0; bx < (m + 7) / 8; ++bx)
      row_softmax_block(X, Y, m, bx, &failed);
  }
  if (failed) return failed;
  (void)args, (void)threads;
  return 0;
}
