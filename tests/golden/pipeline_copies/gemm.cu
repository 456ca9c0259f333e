extern "C" __global__ void __launch_bounds__(128) gemm(twb_global<const twb_f16> A, twb_global<const twb_f16> B, twb_global<float> C) {
  const int64_t bx = twb_block_x();
  const int64_t by = twb_block_y();
  TWB_SHARED_MEMORY(scratch);
  const twb_shared<twb_f16> A_tile = twb_tile<twb_f16>(scratch, 0, 6144);
  const twb_shared<twb_f16> B_tile = twb_tile<twb_f16>(scratch, 12288, 6144);
  const int64_t tx = twb_thread_x();
  float acc_r[32];
  float sums[32];
  /* gemm.py:70: T.clear(acc) */
  #pragma unroll
  for (int64_t r = 0; r < 8; r += 1) {
    #pragma unroll
    for (int64_t x = 0; x < 4; x += 1) {
      acc_r[r * 4 + x] = 0.0f;
    }
  }
  /* gemm.py:72: T.copy(A[by * block_m, ko * block_k], A_tile) */
  #pragma unroll
  for (int64_t r = 0; r < 2; r += 1) {
    twb_cp_async<16>(A_tile + (tx / 4 + r * 32) * 32 + ((tx % 4) ^ ((tx / 4 + r * 32) / 2 % 4)) * 8 + 0, A + (by * 64 + tx / 4 + r * 32) * 128 + tx % 4 * 8, by * 64 + tx / 4 + r * 32 < 100);
  }
  /* gemm.py:73: T.copy(B[ko * block_k, bx * block_n], B_tile) */
  #pragma unroll
  for (int64_t r = 0; r < 2; r += 1) {
    twb_cp_async<16>(B_tile + (tx / 8 + r * 16) * 64 + ((tx % 8) ^ ((tx / 8 + r * 16) % 8)) * 8 + 0, B + (tx / 8 + r * 16) * 64 + bx * 64 + tx % 8 * 8, 1);
  }
  /* gemm.py:71: for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages): */
  twb_cp_async_commit();
  /* gemm.py:72: T.copy(A[by * block_m, ko * block_k], A_tile) */
  #pragma unroll
  for (int64_t r = 0; r < 2; r += 1) {
    twb_cp_async<16>(A_tile + (tx / 4 + r * 32) * 32 + 2048 + ((tx % 4) ^ ((tx / 4 + r * 32) / 2 % 4)) * 8 + 0, A + (by * 64 + tx / 4 + r * 32) * 128 + tx % 4 * 8 + 32, by * 64 + tx / 4 + r * 32 < 100);
  }
  /* gemm.py:73: T.copy(B[ko * block_k, bx * block_n], B_tile) */
  #pragma unroll
  for (int64_t r = 0; r < 2; r += 1) {
    twb_cp_async<16>(B_tile + (tx / 8 + r * 16) * 64 + 2048 + ((tx % 8) ^ ((tx / 8 + r * 16) % 8)) * 8 + 0, B + (tx / 8 + r * 16 + 32) * 64 + bx * 64 + tx % 8 * 8, 1);
  }
  /* gemm.py:71: for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages): */
  twb_cp_async_commit();
  for (int64_t ko = 0; ko < 4; ko += 1) {
    twb_cp_async_wait<1>();
    /* gemm.py:71: for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages): */
    twb_sync();
    const int64_t ahead = ko + 2;
    if (ahead < 4) {
      /* gemm.py:72: T.copy(A[by * block_m, ko * block_k], A_tile) */
      #pragma unroll
      for (int64_t r = 0; r < 2; r += 1) {
        twb_cp_async<16>(A_tile + ahead % 3 * 2048 + (tx / 4 + r * 32) * 32 + ((tx % 4) ^ ((tx / 4 + r * 32) / 2 % 4)) * 8 + 0, A + (by * 64 + tx / 4 + r * 32) * 128 + ahead * 32 + tx % 4 * 8, by * 64 + tx / 4 + r * 32 < 100);
      }
      /* gemm.py:73: T.copy(B[ko * block_k, bx * block_n], B_tile) */
      #pragma unroll
      for (int64_t r = 0; r < 2; r += 1) {
        twb_cp_async<16>(B_tile + ahead % 3 * 2048 + (tx / 8 + r * 16) * 64 + ((tx % 8) ^ ((tx / 8 + r * 16) % 8)) * 8 + 0, B + (ahead * 32 + tx / 8 + r * 16) * 64 + bx * 64 + tx % 8 * 8, 1);
      }
    }
    /* gemm.py:71: for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages): */
    twb_cp_async_commit();
    const int64_t now = ko % 3;
    /* gemm.py:74: T.gemm(A_tile, B_tile, acc) */
    #pragma unroll
    for (int64_t r = 0; r < 8; r += 1) {
      #pragma unroll
      for (int64_t x = 0; x < 4; x += 1) {
        sums[r * 4 + x] = acc_r[r * 4 + x];
      }
    }
    for (int64_t k = 0; k < 32; k += 1) {
      #pragma unroll
      for (int64_t r = 0; r < 8; r += 1) {
        #pragma unroll
        for (int64_t x = 0; x < 4; x += 1) {
          sums[r * 4 + x] = sums[r * 4 + x] + twb_f16_to_f32(A_tile[now * 2048 + (tx / 16 + r * 8) * 32 + ((k / 8) ^ ((tx / 16 + r * 8) / 2 % 4)) * 8 + k % 8]) * twb_f16_to_f32(B_tile[now * 2048 + k * 64 + (((x + tx % 16 * 4) / 8) ^ (k % 8)) * 8 + (x + tx % 16 * 4) % 8]);
        }
      }
    }
    #pragma unroll
    for (int64_t r = 0; r < 8; r += 1) {
      #pragma unroll
      for (int64_t x = 0; x < 4; x += 1) {
        acc_r[r * 4 + x] = sums[r * 4 + x];
      }
    }
  }
  /* gemm.py:78: T.copy(acc, C[by * block_m, bx * block_n]) */
  #pragma unroll
  for (int64_t r = 0; r < 8; r += 1) {
    float C_v[4];
    #pragma unroll
    for (int64_t x = 0; x < 4; x += 1) {
      const int64_t i = tx / 16 + r * 8;
      if (by * 64 + i < 100) {
        C_v[x] = acc_r[r * 4 + x];
      }
    }
    if (by * 64 + tx / 16 + r * 8 < 100) {
      twb_write<4>(C + by * 4096 + tx / 16 * 64 + r * 512 + bx * 64 + tx % 16 * 4, C_v);
    }
  }
}

