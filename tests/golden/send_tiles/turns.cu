 __shared__ __align__(1024) uint8_t twb_dynamic_shared[]; uint8_t *const name = twb_dynamic_shared
TWB_DEVICE void twb_at(int) {}
template <class P> struct twb_pointee;
template <class T> struct twb_pointee<T *> { typedef T type; };
template <class T> struct twb_pointee<const T *> { typedef T type; };
#define twb_print printf
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)
TWB_DEVICE uint32_t twb_block_x() { return blockIdx.x; }
template <class T> TWB_DEVICE twb_shared<T> twb_tile(twb_shared<uint8_t> base, uint32_t byte_offset, uint32_t count) { return reinterpret_cast<T *>(base + byte_offset); }
TWB_DEVICE uint32_t twb_thread_x() { return threadIdx.x; }
TWB_DEVICE void twb_mbarrier_init(twb_shared<uint64_t> bar, uint32_t count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((uint32_t)__cvta_generic_to_shared(bar)), "r"(count) : "memory"); }
TWB_DEVICE void twb_fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TWB_DEVICE void twb_sync() { __syncthreads(); }
template <int N> TWB_DEVICE void twb_set_max_registers_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }
template <class T> TWB_DEVICE T twb_shfl(T value, int lane, int width = 32, uint32_t mask = 0xffffffffu) {
    static_assert(sizeof(T) <= 8, "a shuffle moves 8 bytes at most");
    if constexpr (sizeof(T) == 8) {
        union { T v; uint32_t w[2]; } u = {value}; u.w[0] = __shfl_sync(mask, u.w[0], lane, width); u.w[1] = __shfl_sync(mask, u.w[1], lane, width); return u.v;
    } else {
        union U { uint32_t w; T v; } u; u.w = 0; u.v = value; u.w = __shfl_sync(mask, u.w, lane, width); return u.v;
    }
}
TWB_DEVICE uint32_t twb_blocks_x() { return gridDim.x; }
TWB_DEVICE bool twb_mbarrier_try_wait(twb_shared<uint64_t> bar, uint32_t parity) {
    uint32_t ok;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(ok) : "r"((uint32_t)__cvta_generic_to_shared(bar)), "r"(parity) : "memory");
    return ok != 0;
}
TWB_DEVICE void twb_mbarrier_wait(twb_shared<uint64_t> bar, uint32_t parity) { while (!twb_mbarrier_try_wait(bar, parity)) {} }
TWB_DEVICE uint64_t twb_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes, int span) {
    uint64_t mode = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)((leading_bytes & 0x3ffff) >> 4) << 16 | (uint64_t)((stride_bytes & 0x3ffff) >> 4) << 32 | mode << 62;
}
template <class P> TWB_DEVICE uint32_t twb_shared_address(P p) { return (uint32_t)__cvta_generic_to_shared(p); }
template <class T, int N> TWB_DEVICE void twb_keep(T (&d)[N]) {
    for (int i = 0; i < N; ++i) {
        if constexpr (sizeof(T) == 4 && T(0.5f) != T(0)) asm volatile("" : "+f"(d[i]) :: "memory");
        else asm volatile("" : "+r"(d[i]) :: "memory");
    }
}
TWB_DEVICE void twb_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
template <int TRANS_A, int TRANS_B> TWB_DEVICE void twb_wgmma_m64n256k16_f32_f16_f16(float (&d)[128], uint64_t a, uint64_t b, int scale_d) { asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, p, 1, 1, %131, %132;\n}" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127]) : "l"(a), "l"(b), "r"(scale_d), "n"(TRANS_A), "n"(TRANS_B)); }
TWB_DEVICE void twb_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> TWB_DEVICE void twb_wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
TWB_DEVICE uint32_t twb_thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
TWB_DEVICE uint32_t twb_lane() { return twb_thread() & 31u; }
TWB_DEVICE void twb_mbarrier_arrive(twb_shared<uint64_t> bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((uint32_t)__cvta_generic_to_shared(bar)) : "memory"); }
TWB_DEVICE void twb_mbarrier_arrive_warp_if(twb_shared<uint64_t> bar, bool really) {
    uint32_t go = really && twb_lane() == 0;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\n@p mbarrier.arrive.shared::cta.b64 _, [%0];\n}" :: "r"((uint32_t)__cvta_generic_to_shared(bar)), "r"(go) : "memory");
}
template <int N> TWB_DEVICE void twb_bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory"); }
TWB_DEVICE void twb_bar_sync(uint32_t id, uint32_t threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
TWB_DEVICE twb_f16 twb_f32_to_f16(float x) { twb_f16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x)); return r; }
TWB_DEVICE uint32_t twb_pack_f16(float low, float high) {
    #if TWB_ARCH >= 80
    uint32_t r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r;
    #else
    return (uint32_t)twb_f32_to_f16(low).bits | (uint32_t)twb_f32_to_f16(high).bits << 16;
    #endif
}
template <class P> TWB_DEVICE void twb_stmatrix_x4(P row, const uint32_t (&r)[4]) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"((uint32_t)__cvta_generic_to_shared(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory"); }
TWB_DEVICE void twb_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <class S> TWB_DEVICE void twb_tma_store_2d(const twb_tensor_map *map, S from, int c0, int c1) { asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" :: "l"((uint64_t)map), "r"((uint32_t)__cvta_generic_to_shared(from)), "r"(c0), "r"(c1) : "memory"); }
TWB_DEVICE void twb_bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> TWB_DEVICE void twb_set_max_registers_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }
TWB_DEVICE void twb_mbarrier_arrive_expect(twb_shared<uint64_t> bar, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((uint32_t)__cvta_generic_to_shared(bar)), "r"(bytes) : "memory"); }
template <class D> TWB_DEVICE void twb_tma_load_2d(D to, const twb_tensor_map *map, twb_shared<uint64_t> bar, int c0, int c1, uint64_t hint = 0x1000000000000000ull) { asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%4, %5}], [%2], %3;" :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"((uint64_t)map), "r"((uint32_t)__cvta_generic_to_shared(bar)), "l"(hint), "r"(c0), "r"(c1) : "memory"); }
extern "C" __global__ void __launch_bounds__(384, 1) mm(const __grid_constant__ twb_tensor_map A_map0, const __grid_constant__ twb_tensor_map B_map1, const __grid_constant__ twb_tensor_map C_map2) {
  const int32_t cta = twb_block_x();
  TWB_SHARED_MEMORY(scratch);
  const twb_shared<twb_f16> a_1 = twb_tile<twb_f16>(scratch, 0, 32768);
  const twb_shared<twb_f16> b_1 = twb_tile<twb_f16>(scratch, 65536, 65536);
  const twb_shared<uint64_t> a_b_full = twb_tile<uint64_t>(scratch, 196608, 4);
  const twb_shared<uint64_t> a_b_empty = twb_tile<uint64_t>(scratch, 196736, 4);
  const twb_shared<twb_f16> C_stage = twb_tile<twb_f16>(scratch, 197632, 16384);
  const int32_t thread = twb_thread_x();
  float acc_r[128];
  uint32_t a_b_loaded = {};
  uint32_t a_b_used = {};
  uint32_t before = {};
  uint32_t packed[4];
  if (thread == 0) {
    twb_mbarrier_init(a_b_full, 1);
    twb_mbarrier_init(a_b_empty, 8);
    twb_mbarrier_init(a_b_full + 1, 1);
    twb_mbarrier_init(a_b_empty + 1, 8);
    twb_mbarrier_init(a_b_full + 2, 1);
    twb_mbarrier_init(a_b_empty + 2, 8);
    twb_mbarrier_init(a_b_full + 3, 1);
    twb_mbarrier_init(a_b_empty + 3, 8);
    twb_fence_mbarrier_init();
  }
  twb_sync();
  /* test_send_tiles.py:37: with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), splits, thread... */
  if (thread < 256) {
    const int32_t tx = thread & 255;
    twb_set_max_registers_inc<232>();
    const int32_t group = twb_shfl(tx >> 7, 0);
    a_b_used = 0u;
    for (int32_t block = cta; block < 8; block += twb_blocks_x()) {
      const int32_t bx = block & 1;
      const int32_t by = block >> 1;
      /* test_send_tiles.py:40: T.clear(acc) */
      #pragma unroll
      for (int32_t r = 0; r < 64; r += 1) {
        #pragma unroll
        for (int32_t x = 0; x < 2; x += 1) {
          acc_r[r * 2 + x] = 0.0f;
        }
      }
      before = 0u;
      /* test_send_tiles.py:41: for step in T.Pipelined(T.ceildiv(k, block_k * splits), num_stages=stages): */
      for (int32_t step = 0; step < 4; step += 1) {
        /* test_send_tiles.py:45: T.gemm(a, b, acc, transpose_B=True) */
        const int32_t slot = (int32_t)((int64_t)a_b_used & 3);
        twb_mbarrier_wait(a_b_full + slot, (int32_t)((int64_t)a_b_used >> 2) & 1);
        const uint64_t b_1_at = twb_descriptor(twb_shared_address(b_1 + slot * 16384), 16, 1024, 128);
        const uint64_t a_1_at = twb_descriptor(twb_shared_address(a_1 + slot * 8192) + (uint32_t)group * 8192u, 16, 1024, 128);
        twb_keep(acc_r);
        twb_wgmma_fence();
        twb_wgmma_m64n256k16_f32_f16_f16<0, 0>(acc_r, a_1_at, b_1_at, 1);
        twb_wgmma_m64n256k16_f32_f16_f16<0, 0>(acc_r, a_1_at + 2u, b_1_at + 2u, 1);
        twb_wgmma_m64n256k16_f32_f16_f16<0, 0>(acc_r, a_1_at + 4u, b_1_at + 4u, 1);
        twb_wgmma_m64n256k16_f32_f16_f16<0, 0>(acc_r, a_1_at + 6u, b_1_at + 6u, 1);
        twb_wgmma_commit();
        twb_keep(acc_r);
        /* test_send_tiles.py:41: for step in T.Pipelined(T.ceildiv(k, block_k * splits), num_stages=stages): */
        twb_wgmma_wait<1>();
        /* test_send_tiles.py:45: T.gemm(a, b, acc, transpose_B=True) */
        twb_mbarrier_arrive_warp_if(a_b_empty + before, step > 0);
        before = (uint32_t)slot;
        a_b_used = a_b_used + 1u;
      }
      /* test_send_tiles.py:41: for step in T.Pipelined(T.ceildiv(k, block_k * splits), num_stages=stages): */
      twb_wgmma_wait<0>();
      twb_keep(acc_r);
      /* test_send_tiles.py:45: T.gemm(a, b, acc, transpose_B=True) */
      twb_mbarrier_arrive_warp_if(a_b_empty + before, 1);
      /* test_send_tiles.py:59: T.copy(result, C[by * block_m, bx * block_n]) */
      #pragma unroll
      for (int32_t piece = 0; piece < 4; piece += 1) {
        if ((tx & 127) == 0) {
          twb_bulk_wait_read<1>();
        }
        twb_bar_sync((int32_t)((int64_t)8 + group), 128);
        #pragma unroll
        for (int32_t step = 0; step < 4; step += 1) {
          #pragma unroll
          for (int32_t w = 0; w < 4; w += 1) {
            packed[w] = twb_pack_f16(acc_r[piece * 32 + step * 8 + w * 2], acc_r[piece * 32 + step * 8 + w * 2 + 1]);
          }
          twb_stmatrix_x4(C_stage + ((int64_t)group * 2 + (piece & 1)) * 4096 + ((((tx >> 5) & 3) * 16 + (tx & 15)) * 64 + ((step * 2 + ((tx >> 4) & 1)) ^ ((((tx >> 5) & 3) * 16 + (tx & 15)) & 7)) * 8), packed);
        }
        twb_fence_proxy_async();
        twb_bar_sync((int32_t)((int64_t)8 + group), 128);
        if ((tx & 127) == 0) {
          twb_tma_store_2d(&C_map2, C_stage + ((int64_t)group * 2 + (piece & 1)) * 4096, bx * 256 + piece * 64, (int32_t)((int64_t)group * 64 + by * 128));
          twb_bulk_commit();
        }
      }
    }
    /* test_send_tiles.py:37: with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), splits, thread... */
    twb_bulk_wait_read<0>();
  } else {
    twb_set_max_registers_dec<40>();
    if (thread == 256) {
      a_b_loaded = 0u;
      for (int32_t block = cta; block < 8; block += twb_blocks_x()) {
        const int32_t bx = block & 1;
        const int32_t by = block >> 1;
        const int32_t bz = 0;
        /* test_send_tiles.py:41: for step in T.Pipelined(T.ceildiv(k, block_k * splits), num_stages=stages): */
        for (int32_t step = 0; step < 4; step += 1) {
          /* test_send_tiles.py:42: at = (step * splits + bz) * block_k */
          const int32_t at = (step + bz) * 64;
          /* test_send_tiles.py:44: T.copy(B[bx * block_n, at], b) */
          const int32_t slot = (int32_t)((int64_t)a_b_loaded & 3);
          twb_mbarrier_wait(a_b_empty + slot, ((int32_t)((int64_t)a_b_loaded >> 2) & 1) ^ 1);
          twb_mbarrier_arrive_expect(a_b_full + slot, 49152);
          twb_tma_load_2d(a_1 + slot * 8192, &A_map0, a_b_full + slot, at, by * 128);
          twb_tma_load_2d(b_1 + slot * 16384, &B_map1, a_b_full + slot, at, bx * 256);
          a_b_loaded = a_b_loaded + 1u;
        }
      }
    }
  }
}

