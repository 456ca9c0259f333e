extern long syscall(long, ...);
static __attribute__((constructor)) void twb_amx_ask(void) { syscall(158, 0x1023L, 18L); }
static const struct __attribute__((packed)) { uint8_t palette, start, rest[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } twb_amx_tiles = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
static __attribute__((noinline, unused)) void twb_amx_tdpbf16ps_1x1(int64_t steps, const char *a, int64_t a_row, int64_t a_tile, int64_t a_step, const char *b, int64_t b_strip, char *c, int64_t c_row, int keep) {
    if (keep) { __asm__ volatile("tileloadd (%0,%1,1),%%tmm0" : : "r"(c + 0 * c_row + 0), "r"(c_row) : "memory"); } else { __asm__ volatile("tilezero %%tmm0" : : ); }
    (void)a_tile, (void)b_strip;
    for (; steps; steps--, a += a_step, b += 1024) {
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm4" : : "r"(a + 0 * a_tile), "r"(a_row) : "memory");
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm6" : : "r"(b + 0 * b_strip), "r"((int64_t)64) : "memory");
        __asm__ volatile("tdpbf16ps %%tmm6,%%tmm4,%%tmm0" : : );
    }
    __asm__ volatile("tilestored %%tmm0,(%0,%1,1)" : : "r"(c + 0 * c_row + 0), "r"(c_row) : "memory");
}
static __attribute__((noinline, unused)) void twb_amx_tdpbf16ps_1x2(int64_t steps, const char *a, int64_t a_row, int64_t a_tile, int64_t a_step, const char *b, int64_t b_strip, char *c, int64_t c_row, int keep) {
    if (keep) { __asm__ volatile("tileloadd (%0,%1,1),%%tmm0" : : "r"(c + 0 * c_row + 0), "r"(c_row) : "memory"); __asm__ volatile("tileloadd (%0,%1,1),%%tmm1" : : "r"(c + 0 * c_row + 64), "r"(c_row) : "memory"); } else { __asm__ volatile("tilezero %%tmm0" : : ); __asm__ volatile("tilezero %%tmm1" : : ); }
    (void)a_tile, (void)b_strip;
    for (; steps; steps--, a += a_step, b += 1024) {
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm4" : : "r"(a + 0 * a_tile), "r"(a_row) : "memory");
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm6" : : "r"(b + 0 * b_strip), "r"((int64_t)64) : "memory");
        __asm__ volatile("tdpbf16ps %%tmm6,%%tmm4,%%tmm0" : : );
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm7" : : "r"(b + 1 * b_strip), "r"((int64_t)64) : "memory");
        __asm__ volatile("tdpbf16ps %%tmm7,%%tmm4,%%tmm1" : : );
    }
    __asm__ volatile("tilestored %%tmm0,(%0,%1,1)" : : "r"(c + 0 * c_row + 0), "r"(c_row) : "memory");
    __asm__ volatile("tilestored %%tmm1,(%0,%1,1)" : : "r"(c + 0 * c_row + 64), "r"(c_row) : "memory");
}
static __attribute__((noinline, unused)) void twb_amx_tdpbf16ps_2x1(int64_t steps, const char *a, int64_t a_row, int64_t a_tile, int64_t a_step, const char *b, int64_t b_strip, char *c, int64_t c_row, int keep) {
    if (keep) { __asm__ volatile("tileloadd (%0,%1,1),%%tmm0" : : "r"(c + 0 * c_row + 0), "r"(c_row) : "memory"); __asm__ volatile("tileloadd (%0,%1,1),%%tmm2" : : "r"(c + 16 * c_row + 0), "r"(c_row) : "memory"); } else { __asm__ volatile("tilezero %%tmm0" : : ); __asm__ volatile("tilezero %%tmm2" : : ); }
    (void)a_tile, (void)b_strip;
    for (; steps; steps--, a += a_step, b += 1024) {
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm4" : : "r"(a + 0 * a_tile), "r"(a_row) : "memory");
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm6" : : "r"(b + 0 * b_strip), "r"((int64_t)64) : "memory");
        __asm__ volatile("tdpbf16ps %%tmm6,%%tmm4,%%tmm0" : : );
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm5" : : "r"(a + 1 * a_tile), "r"(a_row) : "memory");
        __asm__ volatile("tdpbf16ps %%tmm6,%%tmm5,%%tmm2" : : );
    }
    __asm__ volatile("tilestored %%tmm0,(%0,%1,1)" : : "r"(c + 0 * c_row + 0), "r"(c_row) : "memory");
    __asm__ volatile("tilestored %%tmm2,(%0,%1,1)" : : "r"(c + 16 * c_row + 0), "r"(c_row) : "memory");
}
static __attribute__((noinline, unused)) void twb_amx_tdpbf16ps_2x2(int64_t steps, const char *a, int64_t a_row, int64_t a_tile, int64_t a_step, const char *b, int64_t b_strip, char *c, int64_t c_row, int keep) {
    if (keep) { __asm__ volatile("tileloadd (%0,%1,1),%%tmm0" : : "r"(c + 0 * c_row + 0), "r"(c_row) : "memory"); __asm__ volatile("tileloadd (%0,%1,1),%%tmm1" : : "r"(c + 0 * c_row + 64), "r"(c_row) : "memory"); __asm__ volatile("tileloadd (%0,%1,1),%%tmm2" : : "r"(c + 16 * c_row + 0), "r"(c_row) : "memory"); __asm__ volatile("tileloadd (%0,%1,1),%%tmm3" : : "r"(c + 16 * c_row + 64), "r"(c_row) : "memory"); } else { __asm__ volatile("tilezero %%tmm0" : : ); __asm__ volatile("tilezero %%tmm1" : : ); __asm__ volatile("tilezero %%tmm2" : : ); __asm__ volatile("tilezero %%tmm3" : : ); }
    (void)a_tile, (void)b_strip;
    for (; steps; steps--, a += a_step, b += 1024) {
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm4" : : "r"(a + 0 * a_tile), "r"(a_row) : "memory");
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm6" : : "r"(b + 0 * b_strip), "r"((int64_t)64) : "memory");
        __asm__ volatile("tdpbf16ps %%tmm6,%%tmm4,%%tmm0" : : );
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm7" : : "r"(b + 1 * b_strip), "r"((int64_t)64) : "memory");
        __asm__ volatile("tdpbf16ps %%tmm7,%%tmm4,%%tmm1" : : );
        __asm__ volatile("tileloadd (%0,%1,1),%%tmm5" : : "r"(a + 1 * a_tile), "r"(a_row) : "memory");
        __asm__ volatile("tdpbf16ps %%tmm6,%%tmm5,%%tmm2" : : );
        __asm__ volatile("tdpbf16ps %%tmm7,%%tmm5,%%tmm3" : : );
    }
    __asm__ volatile("tilestored %%tmm0,(%0,%1,1)" : : "r"(c + 0 * c_row + 0), "r"(c_row) : "memory");
    __asm__ volatile("tilestored %%tmm1,(%0,%1,1)" : : "r"(c + 0 * c_row + 64), "r"(c_row) : "memory");
    __asm__ volatile("tilestored %%tmm2,(%0,%1,1)" : : "r"(c + 16 * c_row + 0), "r"(c_row) : "memory");
    __asm__ volatile("tilestored %%tmm3,(%0,%1,1)" : : "r"(c + 16 * c_row + 64), "r"(c_row) : "memory");
}
typedef uint16_t twb_p16bf16 __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint16_t twb_p32bf16 __attribute__((vector_size(64), may_alias));
static __attribute__((noinline)) void twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_pack(const uint16_t *b, uint16_t *to) {
    for (int64_t q = 0; q < 16; q += 2, to += 64) {
        int64_t j = 0;
        uint16_t *p = to;
#if __has_builtin(__builtin_shufflevector)
        if (q + 1 < 16) for (; j < 32; j += 16, p += 512) {
            const uint16_t *s = b + q * 80 + j;
            { const twb_p16bf16 r0 = *(const twb_p16bf16 *)(s + 0), r1 = *(const twb_p16bf16 *)(s + 40); *(twb_p32bf16 *)(p + 0) = __builtin_shufflevector(r0, r1, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31); }
            { const twb_p16bf16 r0 = *(const twb_p16bf16 *)(s + 80), r1 = *(const twb_p16bf16 *)(s + 120); *(twb_p32bf16 *)(p + 32) = __builtin_shufflevector(r0, r1, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31); }
        }
#endif
        for (; j < 48; j += 16, p += 512) for (int64_t x = 0; x < 32; x++) for (int64_t v = 0; v < 2; v++) {
            const int64_t r = (q + x / 16) * 2 + v;
            p[x * 2 + v] = r < 32 && j + x % 16 < 40 ? b[r * 40 + j + x % 16] : 0;
        }
    }
}
static __attribute__((noinline)) void twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_rows(const uint16_t *a, int64_t i, int64_t count, uint16_t *to) {
    for (int64_t r = 0; r < count; r++) for (int64_t q = 0; q < 32; q++)
        to[q / 32 * 1024 + r * 32 + q % 32] = i + r < 40 && q < 32 ? a[(i + r) * 32 + q] : 0;
}
static __attribute__((noinline)) void twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_old(const float *c, float *pc, int64_t rows, int64_t columns) {
    (void)columns; for (int64_t r = 0; r < rows; r++) { _Pragma("omp simd") for (int64_t x = 0; x < columns; x++) (pc + r * 32)[x] = (c + r * 40)[x]; }
}
static __attribute__((noinline)) void twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_new(const float *pc, float *c, int64_t rows, int64_t columns) {
    (void)columns; for (int64_t r = 0; r < rows; r++) { _Pragma("omp simd") for (int64_t x = 0; x < columns; x++) (c + r * 40)[x] = (pc + r * 32)[x]; }
}
static __attribute__((noinline, unused)) void twb_gemm_40x40x32_bf16_bf16_f32_32_40_40(const uint16_t *a, const uint16_t *b, float *c, int clear, char *scratch) {
    uint16_t *pb = (uint16_t *)(scratch + 0);
    uint16_t *pa = (uint16_t *)(scratch + 3072);
    float *pc = (float *)(scratch + 5120);
    twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_pack(b, pb);
    __asm__ volatile("ldtilecfg %0" : : "m"(twb_amx_tiles));
    for (int64_t i = 0; i < 32; i += 32) {
        twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_rows(a, i, 32, pa);
        const char *at = (const char *)pa; const int64_t row = 64, tile = 1024, step = 2048;
        for (int64_t j = 0; j < 32; j += 32) {
            if (!clear) twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_old(c + i * 40 + j, pc, 40 - i < 32 ? 40 - i : 32, 40 - j < 32 ? 40 - j : 32);
            twb_amx_tdpbf16ps_2x2(1, at, row, tile, step, (const char *)pb + j / 16 * 1024, 1024, (char *)pc, 128, !clear);
            twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_new(pc, c + i * 40 + j, 40 - i < 32 ? 40 - i : 32, 40 - j < 32 ? 40 - j : 32);
        }
        for (int64_t j = 32; j < 48; j += 16) {
            if (!clear) twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_old(c + i * 40 + j, pc, 40 - i < 32 ? 40 - i : 32, 40 - j < 16 ? 40 - j : 16);
            twb_amx_tdpbf16ps_2x1(1, at, row, tile, step, (const char *)pb + j / 16 * 1024, 1024, (char *)pc, 128, !clear);
            twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_new(pc, c + i * 40 + j, 40 - i < 32 ? 40 - i : 32, 40 - j < 16 ? 40 - j : 16);
        }
    }
    for (int64_t i = 32; i < 48; i += 16) {
        twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_rows(a, i, 16, pa);
        const char *at = (const char *)pa; const int64_t row = 64, tile = 1024, step = 2048;
        for (int64_t j = 0; j < 32; j += 32) {
            if (!clear) twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_old(c + i * 40 + j, pc, 40 - i < 16 ? 40 - i : 16, 40 - j < 32 ? 40 - j : 32);
            twb_amx_tdpbf16ps_1x2(1, at, row, tile, step, (const char *)pb + j / 16 * 1024, 1024, (char *)pc, 128, !clear);
            twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_new(pc, c + i * 40 + j, 40 - i < 16 ? 40 - i : 16, 40 - j < 32 ? 40 - j : 32);
        }
        for (int64_t j = 32; j < 48; j += 16) {
            if (!clear) twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_old(c + i * 40 + j, pc, 40 - i < 16 ? 40 - i : 16, 40 - j < 16 ? 40 - j : 16);
            twb_amx_tdpbf16ps_1x1(1, at, row, tile, step, (const char *)pb + j / 16 * 1024, 1024, (char *)pc, 128, !clear);
            twb_gemm_40x40x32_bf16_bf16_f32_32_40_40_new(pc, c + i * 40 + j, 40 - i < 16 ? 40 - i : 16, 40 - j < 16 ? 40 - j : 16);
        }
    }
    __asm__ volatile("tilerelease" : : );
}
