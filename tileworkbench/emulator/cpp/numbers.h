// Narrow floats, by their bits. Rounding is to nearest, ties to even; NaN stays NaN; overflow gives infinity, or NaN where there is none.
TWB_DEVICE uint32_t twbe_bits(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
TWB_DEVICE float twbe_float(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
template <int E, int M, bool FINITE> static inline float twbe_up(uint32_t h) {
    const uint32_t top = (1u << E) - 1, mask = (1u << M) - 1, bias = (1u << (E - 1)) - 1;
    uint32_t sign = (h >> (E + M) & 1) << 31, e = h >> M & top, m = h & mask;
    if (e == top && (FINITE ? m == mask : true)) return twbe_float(sign | 0x7f800000u | (FINITE || m ? 0x400000u | m << (23 - M) : 0));
    if (e) return twbe_float(sign | (e + 127 - bias) << 23 | m << (23 - M));
    float small = (float)m * twbe_float((127 + 1 - bias - M) << 23);
    return sign ? -small : small;
}
template <> inline float twbe_up<8, 7, false>(uint32_t h) { return twbe_float(h << 16); }
template <int E, int M, bool FINITE> static inline uint32_t twbe_down(float x) {
    const uint32_t bias = (1u << (E - 1)) - 1, most = FINITE ? (1u << (E + M)) - 2 : ((1u << E) - 1) << M;
    uint32_t u = twbe_bits(x), a = u & 0x7fffffffu, sign = u >> 31 << (E + M), r;
    if (a > 0x7f800000u) return sign | (FINITE ? (1u << (E + M)) - 1 : most | 1u << (M - 1));
    if (a < (128 - bias) << 23) {
        const uint32_t magic = (127 + 23 + 1 - bias - M) << 23;  // adding it makes the sum round at the last bit that is kept
        r = twbe_bits(twbe_float(a) + twbe_float(magic)) - magic;
    } else r = (a - ((127 - bias) << 23) + (1u << (22 - M)) - 1 + (a >> (23 - M) & 1)) >> (23 - M);
    return sign | (r > most ? FINITE ? most + 1 : most : r);
}
static inline float twbe_f16(uint16_t h) { return twbe_up<5, 10, false>(h); }
static inline float twbe_bf16(uint16_t h) { return twbe_float((uint32_t)h << 16); }
static inline float twbe_e4m3(uint8_t h) { return twbe_up<4, 3, true>(h); }
static inline float twbe_e5m2(uint8_t h) { return twbe_up<5, 2, false>(h); }
enum { TWBE_F16, TWBE_BF16, TWBE_F32, TWBE_TF32, TWBE_E4M3, TWBE_E5M2, TWBE_S8, TWBE_U8, TWBE_S32, TWBE_F64 };
