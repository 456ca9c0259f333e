extern "C" __global__ void __launch_bounds__(256) mm(const __grid_constant__ twb_tensor_map A_map0, const __grid_constant__ twb_tensor_map B_map1, const __grid_constant__ twb_tensor_map C_map2) {
  const int32_t bx = twb_block_x();
  const int32_t by = twb_block_y();
  const int32_t bz = twb_block_z();
  TWB_SHARED_MEMORY(scratch);
  const twb_shared<twb_f16> a_1 = twb_tile<twb_f16>(scratch, 0, 20480);
  const twb_shared<twb_f16> b_1 = twb_tile<twb_f16>(scratch, 40960, 81920);
  const twb_shared<uint64_t> a_b_full = twb_tile<uint64_t>(scratch, 204800, 5);
  const twb_shared<uint64_t> a_b_empty = twb_tile<uint64_t>(scratch, 204928, 5);
  const twb_shared<twb_f16> C_stage = twb_tile<twb_f16>(scratch, 205824, 8192);
  const int32_t thread = twb_thread_x();
  float acc_r[128];
  uint32_t before = {};
  uint32_t packed[4];
  if (thread == 0) {
    twb_tma_prefetch(&A_map0);
    twb_tma_prefetch(&B_map1);
    twb_tma_prefetch(&C_map2);
    twb_mbarrier_init(a_b_full, 1);
    twb_mbarrier_init(a_b_empty, 4);
    twb_mbarrier_init(a_b_full + 1, 1);
    twb_mbarrier_init(a_b_empty + 1, 4);
    twb_mbarrier_init(a_b_full + 2, 1);
    twb_mbarrier_init(a_b_empty + 2, 4);
    twb_mbarrier_init(a_b_full + 3, 1);
    twb_mbarrier_init(a_b_empty + 3, 4);
    twb_mbarrier_init(a_b_full + 4, 1);
    twb_mbarrier_init(a_b_empty + 4, 4);
    twb_fence_mbarrier_init();
  }
  twb_sync();
  twb_grid_launch();
  twb_grid_wait();
  /* test_send_tiles.py:37: with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), splits, thread... */
  if (thread < 128) {
    const int32_t tx = thread & 127;
    before = 0u;
    /* test_send_tiles.py:41: for step in T.Pipelined(T.ceildiv(k, block_k * splits), num_stages=stages): */
    for (int32_t step = 0; step < 4; step += 1) {
      /* test_send_tiles.py:45: T.gemm(a, b, acc, transpose_B=True) */
      const int32_t slot = step;
      twb_mbarrier_wait(a_b_full + slot, 0);
      const uint64_t b_1_at = twb_descriptor(twb_shared_address(b_1 + slot * 16384), 16, 1024, 128);
      const uint64_t a_1_at = twb_descriptor(twb_shared_address(a_1 + slot * 4096), 16, 1024, 128);
      twb_keep_f32x128(acc_r);
      twb_wgmma_fence();
      twb_wgmma_m64n256k16x4_f32_f16_f16<0, 0>(acc_r, a_1_at, a_1_at + 2u, a_1_at + 4u, a_1_at + 6u, b_1_at, b_1_at + 2u, b_1_at + 4u, b_1_at + 6u, step == 0 ? 0 : 1);
      twb_wgmma_commit();
      /* test_send_tiles.py:41: for step in T.Pipelined(T.ceildiv(k, block_k * splits), num_stages=stages): */
      twb_wgmma_wait<1>();
      /* test_send_tiles.py:45: T.gemm(a, b, acc, transpose_B=True) */
      twb_mbarrier_arrive_warp_if(a_b_empty + before, step > 0);
      before = (uint32_t)slot;
    }
    /* test_send_tiles.py:41: for step in T.Pipelined(T.ceildiv(k, block_k * splits), num_stages=stages): */
    twb_wgmma_wait<0>();
    twb_keep_f32x128(acc_r);
    /* test_send_tiles.py:45: T.gemm(a, b, acc, transpose_B=True) */
    twb_mbarrier_arrive_warp_if(a_b_empty + before, 1);
    /* test_send_tiles.py:59: T.copy(result, C[by * block_m, bx * block_n]) */
    #pragma unroll
    for (int32_t piece = 0; piece < 4; piece += 1) {
      if (tx == 0) {
        twb_bulk_wait_read<1>();
      }
      twb_bar_sync(8, 128);
      #pragma unroll
      for (int32_t step = 0; step < 4; step += 1) {
        #pragma unroll
        for (int32_t w = 0; w < 4; w += 1) {
          packed[w] = twb_pack_f16(acc_r[piece * 32 + step * 8 + w * 2], acc_r[piece * 32 + step * 8 + w * 2 + 1]);
        }
        twb_stmatrix_x4(C_stage + (piece & 1) * 4096 + ((tx >> 5) * 16 + (tx & 15)) * 64 + ((step * 2 + ((tx >> 4) & 1)) ^ (((tx >> 5) * 16 + (tx & 15)) & 7)) * 8, packed);
      }
      twb_fence_proxy_async();
      twb_bar_sync(8, 128);
      if (tx == 0) {
        twb_tma_store_2d(&C_map2, C_stage + (piece & 1) * 4096, bx * 256 + piece * 64, by * 64);
        twb_bulk_commit();
      }
    }
    /* test_send_tiles.py:37: with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), splits, thread... */
    twb_bulk_wait_read<0>();
  } else {
    if (thread == 128) {
      /* test_send_tiles.py:41: for step in T.Pipelined(T.ceildiv(k, block_k * splits), num_stages=stages): */
      for (int32_t step = 0; step < 4; step += 1) {
        /* test_send_tiles.py:42: at = (step * splits + bz) * block_k */
        const int32_t at = (step + bz) * 64;
        /* test_send_tiles.py:43: T.copy(A[by * block_m, at], a) */
        const int32_t slot = step;
        twb_mbarrier_wait(a_b_empty + slot, 0 ^ 1);
        twb_mbarrier_arrive_expect(a_b_full + slot, 40960);
        twb_tma_load_2d(a_1 + slot * 4096, &A_map0, a_b_full + slot, at, by * 64);
        /* test_send_tiles.py:44: T.copy(B[bx * block_n, at], b) */
        twb_tma_load_2d(b_1 + slot * 16384, &B_map1, a_b_full + slot, at, bx * 256);
      }
    }
  }
}

