/* threads_reduce(A: float32[512], B: float32[4]) */
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
TWB_FN int64_t twb_shr_i64(int64_t a, int64_t b) { return a >> ((uint64_t)b > 63 ? 63 : b); }
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

static void threads_reduce_block(const float *A, float *B, int64_t bx, int32_t *failed) {
  char *const scratch = twb_scratch(2112);
  if (!scratch) {
    *failed = -1;
    return;
  }
  float *const warp = (float *)(scratch + 0); /* shared (4) float32 */
  float *const sent = (float *)(scratch + 64); /* shared (128) float32 */
  int64_t *const asked = (int64_t *)(scratch + 576); /* shared (128) int64 */
  float *const v_2 = (float *)(scratch + 1600); /* shared (128, 1) float32 */
  /* programs.py:80: v = T.alloc_var("float32") */
  #pragma omp simd
  for (int32_t tx = 0; tx < 128; ++tx) {
    v_2[tx] = 0.0f;
    /* programs.py:81: v = A[bx * 128 + tx] */
    v_2[tx] = A[bx * 128 + tx];
  }
  /* programs.py:82: for r in T.unroll(5): */
  for (int64_t r = 0; r < 5; ++r) {
    /* programs.py:83: v = v + T.shfl_down(v, 16 >> r) */
    #pragma omp simd
    for (int32_t tx = 0; tx < 128; ++tx) {
      sent[tx] = v_2[tx];
      asked[tx] = (int32_t)twb_shr_i64(16, r);
    }
    for (int64_t tx_32 = 0; tx_32 < 4; ++tx_32) {
      #pragma omp simd
      for (int32_t tx = 0; tx < 32; ++tx) {
        const int32_t lane = tx;
        const int64_t target = lane + asked[tx_32 * 32 + tx];
        const float sent_tx = sent[tx_32 * 32 + tx];
        const float v_1 = (target >= 0) & (target < 32) ? sent[tx_32 * 32 + tx - lane + target] : sent_tx;
        v_2[tx_32 * 32 + tx] = v_2[tx_32 * 32 + tx] + v_1;
      }
    }
  }
  /* programs.py:84: if tx % 32 == 0: */
  for (int64_t tx_32 = 0; tx_32 < 4; ++tx_32) {
    #pragma omp simd
    for (int32_t tx = 0; tx < 32; ++tx) {
      if (tx == 0) {
        /* programs.py:85: warp[tx // 32] = v */
        warp[tx_32] = v_2[tx_32 * 32 + tx];
      }
    }
  }
  const float warp_0 = warp[0] + warp[1] + warp[2] + warp[3];
  /* programs.py:87: if tx == 0: */
  #pragma omp simd
  for (int32_t tx = 0; tx < 128; ++tx) {
    if (tx == 0) {
      /* programs.py:88: B[bx] = warp[0] + warp[1] + warp[2] + warp[3] */
      B[bx] = warp_0;
    }
  }
}

TWB_RARE int32_t run_threads_reduce(const int64_t *args, int32_t threads) {
  float *const A = (float *)args[0];
  float *const B = (float *)args[1];
  int32_t failed = 0;
  /* programs.py:77: with T.Kernel(4, threads=128) as bx: */
  for (int64_t bx = 0; bx < 4; ++bx)
    threads_reduce_block(A, B, bx, &failed);
  if (failed) return failed;
  (void)args, (void)threads;
  return 0;
}
