extern "C" __global__ void __launch_bounds__(384, 1) mm(const __grid_constant__ twb_tensor_map A_map0, const __grid_constant__ twb_tensor_map B_map1, const __grid_constant__ twb_tensor_map C_map2) {
  const int32_t cta = twb_block_x();
  TWB_SHARED_MEMORY(scratch);
  const twb_shared<twb_f16> a_1 = twb_tile<twb_f16>(scratch, 0, 24576);
  const twb_shared<twb_f16> b_1 = twb_tile<twb_f16>(scratch, 49152, 24576);
  const twb_shared<uint64_t> a_b_full = twb_tile<uint64_t>(scratch, 98304, 3);
  const twb_shared<uint64_t> a_b_empty = twb_tile<uint64_t>(scratch, 98432, 3);
  const twb_shared<twb_f16> C_stage = twb_tile<twb_f16>(scratch, 99328, 16384);
  const twb_shared<uint64_t> C_stage_full = twb_tile<uint64_t>(scratch, 132096, 4);
  const twb_shared<uint64_t> C_stage_free = twb_tile<uint64_t>(scratch, 132224, 4);
  const int32_t thread = twb_thread_x();
  float acc_r[64];
  uint32_t a_b_loaded = {};
  uint32_t a_b_used = {};
  uint32_t before = {};
  uint32_t tiles_given = {};
  uint32_t tiles_stored = {};
  uint32_t packed[4];
  if (thread == 0) {
    twb_tma_prefetch(&A_map0);
    twb_tma_prefetch(&B_map1);
    twb_tma_prefetch(&C_map2);
    twb_mbarrier_init(C_stage_full, 4);
    twb_mbarrier_init(C_stage_free, 1);
    twb_mbarrier_init(C_stage_full + 1, 4);
    twb_mbarrier_init(C_stage_free + 1, 1);
    twb_mbarrier_init(C_stage_full + 2, 4);
    twb_mbarrier_init(C_stage_free + 2, 1);
    twb_mbarrier_init(C_stage_full + 3, 4);
    twb_mbarrier_init(C_stage_free + 3, 1);
    twb_mbarrier_init(a_b_full, 1);
    twb_mbarrier_init(a_b_empty, 8);
    twb_mbarrier_init(a_b_full + 1, 1);
    twb_mbarrier_init(a_b_empty + 1, 8);
    twb_mbarrier_init(a_b_full + 2, 1);
    twb_mbarrier_init(a_b_empty + 2, 8);
    twb_fence_mbarrier_init();
  }
  twb_sync();
  twb_grid_launch();
  twb_grid_wait();
  /* test_specialise_warps.py:37: with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=... */
  if (thread < 256) {
    const int32_t tx = thread & 255;
    twb_set_max_registers_inc<232>();
    const int32_t group = twb_shfl(tx >> 7, 0);
    tiles_given = 0u;
    a_b_used = 0u;
    for (int32_t block = cta; block < 16; block += twb_blocks_x()) {
      before = 0u;
      /* test_specialise_warps.py:44: for step in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages): */
      for (int32_t step = 0; step < 4; step += 1) {
        /* test_specialise_warps.py:53: T.gemm(a, b, acc, transpose_A=ta, transpose_B=tb) */
        const int32_t slot = (int32_t)((int64_t)a_b_used % 3);
        twb_mbarrier_wait(a_b_full + slot, (int32_t)((int64_t)a_b_used / 3) & 1);
        const uint64_t b_1_at = twb_descriptor(twb_shared_address(b_1 + slot * 8192), 16, 1024, 128);
        const uint64_t a_1_at = twb_descriptor(twb_shared_address(a_1 + slot * 8192) + (uint32_t)group * 8192u, 16, 1024, 128);
        twb_keep_f32x64(acc_r);
        twb_wgmma_fence();
        twb_wgmma_m64n128k16x4_f32_f16_f16<0, 0>(acc_r, a_1_at, a_1_at + 2u, a_1_at + 4u, a_1_at + 6u, b_1_at, b_1_at + 2u, b_1_at + 4u, b_1_at + 6u, step == 0 ? 0 : 1);
        twb_wgmma_commit();
        /* test_specialise_warps.py:44: for step in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages): */
        twb_wgmma_wait<1>();
        /* test_specialise_warps.py:53: T.gemm(a, b, acc, transpose_A=ta, transpose_B=tb) */
        twb_mbarrier_arrive_warp_if(a_b_empty + before, step > 0);
        before = (uint32_t)slot;
        a_b_used = a_b_used + 1u;
      }
      /* test_specialise_warps.py:44: for step in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages): */
      twb_wgmma_wait<0>();
      twb_keep_f32x64(acc_r);
      /* test_specialise_warps.py:53: T.gemm(a, b, acc, transpose_A=ta, transpose_B=tb) */
      twb_mbarrier_arrive_warp_if(a_b_empty + before, 1);
      /* test_specialise_warps.py:54: T.copy(acc, C[by * block_m, bx * block_n]) */
      #pragma unroll
      for (int32_t unit = 0; unit < 2; unit += 1) {
        twb_mbarrier_wait(C_stage_free + (int64_t)group * 2 + unit, (int32_t)(((int64_t)tiles_given + 1) & 1));
        #pragma unroll
        for (int32_t step = 0; step < 4; step += 1) {
          #pragma unroll
          for (int32_t w = 0; w < 4; w += 1) {
            packed[w] = twb_pack_f16(acc_r[unit * 32 + step * 8 + w * 2], acc_r[unit * 32 + step * 8 + w * 2 + 1]);
          }
          twb_stmatrix_x4(C_stage + ((int64_t)group * 2 + unit) * 4096 + ((((tx >> 5) & 3) * 16 + (tx & 15)) * 64 + ((step * 2 + ((tx >> 4) & 1)) ^ ((((tx >> 5) & 3) * 16 + (tx & 15)) & 7)) * 8), packed);
        }
        twb_fence_proxy_async();
        twb_mbarrier_arrive_warp(C_stage_full + (int64_t)group * 2 + unit);
      }
      tiles_given = tiles_given + 1u;
    }
    /* test_specialise_warps.py:37: with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=... */
    twb_bulk_wait_read<0>();
  } else {
    twb_set_max_registers_dec<40>();
    if (thread == 256) {
      a_b_loaded = 0u;
      for (int32_t block = cta; block < 16; block += twb_blocks_x()) {
        const int32_t by = 0 + (block & 3);
        const int32_t bx = block >> 2;
        /* test_specialise_warps.py:44: for step in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages): */
        for (int32_t step = 0; step < 4; step += 1) {
          /* test_specialise_warps.py:48: T.copy(A[by * block_m, step * block_k], a) */
          const int32_t slot = (int32_t)((int64_t)a_b_loaded % 3);
          twb_mbarrier_wait(a_b_empty + slot, ((int32_t)((int64_t)a_b_loaded / 3) & 1) ^ 1);
          twb_mbarrier_arrive_expect(a_b_full + slot, 32768);
          twb_tma_load_2d(a_1 + slot * 8192, &A_map0, a_b_full + slot, step * 64, by * 128);
          /* test_specialise_warps.py:50: T.copy(B[bx * block_n, step * block_k], b) */
          twb_tma_load_2d(b_1 + slot * 8192, &B_map1, a_b_full + slot, step * 64, bx * 128);
          a_b_loaded = a_b_loaded + 1u;
        }
      }
    } else {
      if (thread == 288) {
        tiles_stored = 0u;
        /* test_specialise_warps.py:37: with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=... */
        for (int32_t block = cta; block < 16; block += twb_blocks_x()) {
          const int32_t by = 0 + (block & 3);
          const int32_t bx = block >> 2;
          /* test_specialise_warps.py:54: T.copy(acc, C[by * block_m, bx * block_n]) */
          twb_mbarrier_wait(C_stage_full, (int32_t)((int64_t)tiles_stored & 1));
          twb_tma_store_2d(&C_map2, C_stage, bx * 128, by * 128);
          twb_bulk_commit();
          twb_mbarrier_wait(C_stage_full + 1, (int32_t)((int64_t)tiles_stored & 1));
          twb_tma_store_2d(&C_map2, C_stage + 4096, bx * 128 + 64, by * 128);
          twb_bulk_commit();
          twb_mbarrier_wait(C_stage_full + 2, (int32_t)((int64_t)tiles_stored & 1));
          twb_tma_store_2d(&C_map2, C_stage + 8192, bx * 128, by * 128 + 64);
          twb_bulk_commit();
          twb_mbarrier_wait(C_stage_full + 3, (int32_t)((int64_t)tiles_stored & 1));
          twb_tma_store_2d(&C_map2, C_stage + 12288, bx * 128 + 64, by * 128 + 64);
          twb_bulk_commit();
          twb_bulk_wait_read<3>();
          twb_mbarrier_arrive(C_stage_free);
          twb_bulk_wait_read<2>();
          twb_mbarrier_arrive(C_stage_free + 1);
          twb_bulk_wait_read<1>();
          twb_mbarrier_arrive(C_stage_free + 2);
          twb_bulk_wait_read<0>();
          twb_mbarrier_arrive(C_stage_free + 3);
          tiles_stored = tiles_stored + 1u;
        }
      }
    }
  }
}

