extern "C" __global__ void __launch_bounds__(64) steps(twb_global<const twb_f16> A, twb_global<const twb_f16> B, twb_global<float> C, int32_t n) {
  const int32_t bx = twb_block_x();
  TWB_SHARED_MEMORY(scratch);
  const twb_shared<twb_f16> a = twb_tile<twb_f16>(scratch, 0, 1536);
  const twb_shared<twb_f16> b = twb_tile<twb_f16>(scratch, 3072, 1536);
  const int32_t tx = twb_thread_x();
  float acc_r[16];
  uint32_t a_1[8];
  uint32_t b_1[4];
  /* test_pipeline_copies.py:50: T.clear(acc) */
  #pragma unroll
  for (int32_t r = 0; r < 8; r += 1) {
    #pragma unroll
    for (int32_t x = 0; x < 2; x += 1) {
      acc_r[r * 2 + x] = 0.0f;
    }
  }
  /* test_pipeline_copies.py:51: for k in T.Pipelined(n, num_stages=stages): */
  if (0 < n) {
    /* test_pipeline_copies.py:52: T.copy(A[0, k * depth], a) */
    twb_cp_async<16>(a + (tx >> 1) * 16 + ((tx & 1) ^ (((tx >> 1) & 7) >> 2)) * 8, A + (tx >> 1) * 128 + (tx & 1) * 8, tx >> 1 < 27);
    /* test_pipeline_copies.py:53: T.copy(B[k * depth, 0], b) */
    twb_cp_async<16>(b + (tx >> 2) * 32 + ((tx & 3) ^ (((tx >> 2) & 7) >> 1)) * 8, B + (tx >> 2) * 32 + (tx & 3) * 8, 1);
  }
  /* test_pipeline_copies.py:51: for k in T.Pipelined(n, num_stages=stages): */
  twb_cp_async_commit();
  if (1 < n) {
    /* test_pipeline_copies.py:52: T.copy(A[0, k * depth], a) */
    twb_cp_async<16>(a + (tx >> 1) * 16 + 512 + ((tx & 1) ^ (((tx >> 1) & 7) >> 2)) * 8, A + (tx >> 1) * 128 + (tx & 1) * 8 + 16, tx >> 1 < 27);
    /* test_pipeline_copies.py:53: T.copy(B[k * depth, 0], b) */
    twb_cp_async<16>(b + (tx >> 2) * 32 + 512 + ((tx & 3) ^ (((tx >> 2) & 7) >> 1)) * 8, B + ((tx >> 2) + 16) * 32 + (tx & 3) * 8, 1);
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
      twb_cp_async<16>(a + (int32_t)(ahead % 3) * 512 + (tx >> 1) * 16 + ((tx & 1) ^ (((tx >> 1) & 7) >> 2)) * 8, A + ahead * 16 + ((tx >> 1) * 128 + (tx & 1) * 8), tx >> 1 < 27 && ahead * 16 + (tx & 1) * 8 < 128);
      /* test_pipeline_copies.py:53: T.copy(B[k * depth, 0], b) */
      twb_cp_async<16>(b + (int32_t)(ahead % 3) * 512 + (tx >> 2) * 32 + ((tx & 3) ^ (((tx >> 2) & 7) >> 1)) * 8, B + (ahead * 16 + (tx >> 2)) * 32 + (tx & 3) * 8, ahead * 16 + (tx >> 2) < 128);
    }
    /* test_pipeline_copies.py:51: for k in T.Pipelined(n, num_stages=stages): */
    twb_cp_async_commit();
    const int32_t now = (int32_t)(k % 3);
    /* test_pipeline_copies.py:54: T.gemm(a, b, acc) */
    const int32_t a_row = tx & 15;
    const int32_t b_row = tx & 15;
    #pragma unroll
    for (int32_t i = 0; i < 2; i += 1) {
      twb_ldmatrix_x4(twb_registers<uint32_t, 4>(a_1 + i * 4), a + now * 512 + (a_row + i * 16) * 16 + (((tx >> 4) & 1) ^ (((a_row + i * 16) & 7) >> 2)) * 8);
    }
    twb_ldmatrix_x4_trans(b_1, b + now * 512 + b_row * 32 + ((((tx >> 4) & 1) + (tx >> 5) * 2) ^ ((b_row & 7) >> 1)) * 8);
    #pragma unroll
    for (int32_t i = 0; i < 2; i += 1) {
      #pragma unroll
      for (int32_t j = 0; j < 2; j += 1) {
        twb_mma_m16n8k16_f32_f16(twb_registers<float, 4>(acc_r + (j * 2 + i) * 4), twb_registers<uint32_t, 4>(a_1 + i * 4), twb_registers<uint32_t, 2>(b_1 + j * 2));
      }
    }
  }
  /* test_pipeline_copies.py:55: T.copy(acc, C[0, 0]) */
  #pragma unroll
  for (int32_t r = 0; r < 8; r += 1) {
    #pragma unroll
    for (int32_t x = 0; x < 2; x += 1) {
      const int32_t i = ((tx >> 2) & 7) + (r & 1) * 8 + (((r * 2 + x) >> 2) & 1) * 16;
      const int32_t j = (tx & 3) * 2 + x + ((r * 2 + x) >> 3) * 8 + (tx >> 5) * 16;
      if (i < 27) {
        C[i * 32 + j] = acc_r[r * 2 + x];
      }
    }
  }
}

