extern "C" __global__ void __launch_bounds__(64) steps(twb_global<const twb_f16> A, twb_global<const twb_f16> B, twb_global<float> C, int32_t n) {
  const int64_t bx = twb_block_x();
  TWB_SHARED_MEMORY(scratch);
  const twb_shared<twb_f16> a = twb_tile<twb_f16>(scratch, 0, 1536);
  const twb_shared<twb_f16> b = twb_tile<twb_f16>(scratch, 3072, 1536);
  const int64_t tx = twb_thread_x();
  float acc_r[16];
  float sums[16];
  /* test_pipeline_copies.py:50: T.clear(acc) */
  #pragma unroll
  for (int64_t r = 0; r < 4; r += 1) {
    #pragma unroll
    for (int64_t x = 0; x < 4; x += 1) {
      acc_r[r * 4 + x] = 0.0f;
    }
  }
  /* test_pipeline_copies.py:51: for k in T.Pipelined(n, num_stages=stages): */
  if (0 < n) {
    /* test_pipeline_copies.py:52: T.copy(A[0, k * depth], a) */
    twb_cp_async<16>(a + tx / 2 * 16 + ((tx % 2) ^ (tx / 2 / 4 % 2)) * 8 + 0, A + tx / 2 * 128 + tx % 2 * 8, tx / 2 < 27);
    /* test_pipeline_copies.py:53: T.copy(B[k * depth, 0], b) */
    twb_cp_async<16>(b + tx / 4 * 32 + ((tx % 4) ^ (tx / 4 / 2 % 4)) * 8 + 0, B + tx / 4 * 32 + tx % 4 * 8, 1);
  }
  /* test_pipeline_copies.py:51: for k in T.Pipelined(n, num_stages=stages): */
  twb_cp_async_commit();
  if (1 < n) {
    /* test_pipeline_copies.py:52: T.copy(A[0, k * depth], a) */
    twb_cp_async<16>(a + tx / 2 * 16 + 512 + ((tx % 2) ^ (tx / 2 / 4 % 2)) * 8 + 0, A + tx / 2 * 128 + tx % 2 * 8 + 16, tx / 2 < 27);
    /* test_pipeline_copies.py:53: T.copy(B[k * depth, 0], b) */
    twb_cp_async<16>(b + tx / 4 * 32 + 512 + ((tx % 4) ^ (tx / 4 / 2 % 4)) * 8 + 0, B + (tx / 4 + 16) * 32 + tx % 4 * 8, 1);
  }
  /* test_pipeline_copies.py:51: for k in T.Pipelined(n, num_stages=stages): */
  twb_cp_async_commit();
  for (int64_t k = 0; k < n; k += 1) {
    twb_cp_async_wait<1>();
    /* test_pipeline_copies.py:51: for k in T.Pipelined(n, num_stages=stages): */
    twb_sync();
    const int64_t ahead = k + 2;
    if (ahead < n) {
      /* test_pipeline_copies.py:52: T.copy(A[0, k * depth], a) */
      twb_cp_async<16>(a + ahead % 3 * 512 + tx / 2 * 16 + ((tx % 2) ^ (tx / 2 / 4 % 2)) * 8 + 0, A + tx / 2 * 128 + ahead * 16 + tx % 2 * 8, tx / 2 < 27 && ahead * 16 + tx % 2 * 8 < 128);
      /* test_pipeline_copies.py:53: T.copy(B[k * depth, 0], b) */
      twb_cp_async<16>(b + ahead % 3 * 512 + tx / 4 * 32 + ((tx % 4) ^ (tx / 4 / 2 % 4)) * 8 + 0, B + (ahead * 16 + tx / 4) * 32 + tx % 4 * 8, ahead * 16 + tx / 4 < 128);
    }
    /* test_pipeline_copies.py:51: for k in T.Pipelined(n, num_stages=stages): */
    twb_cp_async_commit();
    const int64_t now = k % 3;
    /* test_pipeline_copies.py:54: T.gemm(a, b, acc) */
    #pragma unroll
    for (int64_t r = 0; r < 4; r += 1) {
      #pragma unroll
      for (int64_t x = 0; x < 4; x += 1) {
        sums[r * 4 + x] = acc_r[r * 4 + x];
      }
    }
    for (int64_t k_1 = 0; k_1 < 16; k_1 += 1) {
      #pragma unroll
      for (int64_t r = 0; r < 4; r += 1) {
        #pragma unroll
        for (int64_t x = 0; x < 4; x += 1) {
          sums[r * 4 + x] = sums[r * 4 + x] + twb_f16_to_f32(a[now * 512 + (tx / 8 + r * 8) * 16 + ((k_1 / 8) ^ ((tx / 8 + r * 8) / 4 % 2)) * 8 + k_1 % 8]) * twb_f16_to_f32(b[now * 512 + k_1 * 32 + (((x + tx % 8 * 4) / 8) ^ (k_1 / 2 % 4)) * 8 + (x + tx % 8 * 4) % 8]);
        }
      }
    }
    #pragma unroll
    for (int64_t r = 0; r < 4; r += 1) {
      #pragma unroll
      for (int64_t x = 0; x < 4; x += 1) {
        acc_r[r * 4 + x] = sums[r * 4 + x];
      }
    }
  }
  /* test_pipeline_copies.py:55: T.copy(acc, C[0, 0]) */
  #pragma unroll
  for (int64_t r = 0; r < 4; r += 1) {
    float C_v[4];
    #pragma unroll
    for (int64_t x = 0; x < 4; x += 1) {
      const int64_t i = tx / 8 + r * 8;
      if (i < 27) {
        C_v[x] = acc_r[r * 4 + x];
      }
    }
    if (tx / 8 + r * 8 < 27) {
      twb_write<4>(C + tx / 8 * 32 + r * 256 + tx % 8 * 4, C_v);
    }
  }
}

