"""What stands in front of every kernel for a GPU: types, pointers that are plain pointers there, and how shared memory is declared.

The emulator's counterpart is `emulator/cpp/emu.h`.
"""

from __future__ import annotations

GPU_PRELUDE = """\
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; typedef unsigned long long uint64_t;
#define TWB_DEVICE static __device__ __forceinline__
struct twb_f16 { uint16_t bits; };
struct twb_bf16 { uint16_t bits; };
struct twb_e4m3 { uint8_t bits; };
struct twb_e5m2 { uint8_t bits; };
template <class T> using twb_global = T *;
template <class T> using twb_shared = T *;
template <class T, int N> struct alignas(sizeof(T) * N <= 16 && !((sizeof(T) * N) & (sizeof(T) * N - 1)) ? sizeof(T) * N : alignof(T)) twb_vec {
    T v[N];
    TWB_MEMBER T &operator[](int i) { return v[i]; }
    TWB_MEMBER const T &operator[](int i) const { return v[i]; }
};
struct alignas(64) twb_tensor_map { uint64_t words[16]; };
#define TWB_SHARED_MEMORY(name) extern __shared__ __align__(1024) uint8_t twb_dynamic_shared[]; uint8_t *const name = twb_dynamic_shared
TWB_DEVICE void twb_at(int) {}
template <class P> struct twb_pointee;
template <class T> struct twb_pointee<T *> { typedef T type; };
template <class T> struct twb_pointee<const T *> { typedef T type; };
#define twb_print printf
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)
""".replace("#define TWB_DEVICE static", "#define TWB_MEMBER __device__ __forceinline__\n#define TWB_DEVICE static")
