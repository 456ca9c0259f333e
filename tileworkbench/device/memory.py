"""Accesses of global and shared memory. Single elements are `p[i]`; these are the wide ones, and those that look at addresses."""

from __future__ import annotations

from dataclasses import replace

from .function import DeviceFunction, pair, same

STATUS = "twb_status"  # of a text for a GPU whose kernels call `twb_fail`

_LOAD = """\
typedef twb_vec<typename twb_pointee<P>::type, N> V;
static_assert(sizeof(V) <= 16, "a vector access has 16 bytes at most");
if constexpr (sizeof(V) == 16) { union { uint4 raw; V v; } u = {*reinterpret_cast<const uint4 *>(p)}; return u.v; }
else if constexpr (sizeof(V) == 8) { union { uint2 raw; V v; } u = {*reinterpret_cast<const uint2 *>(p)}; return u.v; }
else if constexpr (sizeof(V) == 4) { union { uint32_t raw; V v; } u = {*reinterpret_cast<const uint32_t *>(p)}; return u.v; }
else if constexpr (sizeof(V) == 2) { union { uint16_t raw; V v; } u = {*reinterpret_cast<const uint16_t *>(p)}; return u.v; }
else { V v; v.v[0] = *p; return v; }"""
_STORE = """\
typedef twb_vec<T, N> V;
static_assert(sizeof(V) <= 16, "a vector access has 16 bytes at most");
if constexpr (sizeof(V) == 16) { union { V v; uint4 raw; } u = {v}; *reinterpret_cast<uint4 *>(p) = u.raw; }
else if constexpr (sizeof(V) == 8) { union { V v; uint2 raw; } u = {v}; *reinterpret_cast<uint2 *>(p) = u.raw; }
else if constexpr (sizeof(V) == 4) { union { V v; uint32_t raw; } u = {v}; *reinterpret_cast<uint32_t *>(p) = u.raw; }
else if constexpr (sizeof(V) == 2) { union { V v; uint16_t raw; } u = {v}; *reinterpret_cast<uint16_t *>(p) = u.raw; }
else *p = v.v[0];"""
_POINTEE = "typename P::value"


def memory_functions() -> tuple[DeviceFunction, ...]:
    """Tiles of shared memory, casts of pointers, vector accesses, addresses."""
    return (
        pair(
            "template <class T> twb_shared<T> twb_tile(twb_shared<uint8_t> base, uint32_t byte_offset, uint32_t count)",
            "return reinterpret_cast<T *>(base + byte_offset);",
            "uint32_t at = base.at + byte_offset, last = at + count * (uint32_t)sizeof(T);\n"
            "return twb_shared<T>{at, at, last < base.high ? last : base.high, base.rank};",
            "The tile of `count` elements at a byte offset of shared memory; the emulator checks accesses against it.",
        ),
        pair(
            "template <class U, class P> auto twb_cast(P p)",
            "return reinterpret_cast<U *>(p);",
            "return twbe_cast<U>(p);",
            "The same address as a pointer to elements of type U.",
        ),
        pair(
            "template <class P> auto twb_pointer(P p)",
            "return p;",
            "return twbe_plain(p);",
            "A plain pointer for a function of the author's; the emulator does not see what that does with it.",
        ),
        same(
            "template <class T, class V> T twb_same_bits(V v)",
            'static_assert(sizeof(T) == sizeof(V), "types of one size");\nunion { V v; T t; } u = {v};\nreturn u.t;',
            "The bits of a value as one of type T.",
        ),
        pair(
            "template <int N, class P> auto twb_load(P p)",
            _LOAD,
            'typedef twb_vec<typename P::value, N> V;\nstatic_assert(sizeof(V) <= 16, "a vector access has 16 bytes at most");\n'
            "V v; __builtin_memcpy(&v, p.place(sizeof(V), TWBE_LOAD), sizeof(V)); return v;",
            "Read N elements in one access of 1, 2, 4, 8 or 16 bytes, aligned to its size.",
        ),
        pair(
            "template <int N, class P, class T> void twb_store(P p, twb_vec<T, N> v)",
            _STORE,
            'static_assert(sizeof(v) <= 16, "a vector access has 16 bytes at most");\n__builtin_memcpy(p.place(sizeof(v), TWBE_STORE), &v, sizeof(v));',
            "Write N elements in one access of 1, 2, 4, 8 or 16 bytes, aligned to its size.",
        ),
        same(
            "template <int N, class P, class T> void twb_read(P p, T *into)",
            "auto v = twb_load<N>(p);\n#pragma unroll\nfor (int i = 0; i < N; i++) into[i] = v[i];",
            "`twb_load` into N elements of an array of the thread.",
            "twb_load",
        ),
        same(
            "template <int N, class P, class T> void twb_write(P p, const T *from)",
            "twb_vec<T, N> v;\n#pragma unroll\nfor (int i = 0; i < N; i++) v[i] = from[i];\ntwb_store<N>(p, v);",
            "`twb_store` of N elements of an array of the thread.",
            "twb_store",
        ),
        same(
            "template <class U, int N, class T> auto &twb_registers(T *array)",
            "return *reinterpret_cast<U (*)[N]>(array);",
            "N registers of type U from a place of an array of the thread on, as products take them.",
        ),
        pair(
            "template <class P> uint32_t twb_shared_address(P p)",
            "return (uint32_t)__cvta_generic_to_shared(p);",
            "return p.at;",
            "The address within shared memory, as matrix descriptors want it.",
        ),
        same(
            "uint32_t twb_swizzle(uint32_t address, int span)",
            "return span == 128 ? address ^ (address >> 3 & 0x70) : span == 64 ? address ^ (address >> 3 & 0x30) : span == 32 ? address ^ (address >> 3 & 0x10) : address;",
            "A byte address with its 16-byte column permuted by its row, as TMA and wgmma do it for rows of `span` bytes (0: unchanged).",
        ),
        pair("void twb_fence_block()", "__threadfence_block();", "", "Order this thread's memory accesses for its block."),
        pair("void twb_fence_gpu()", "__threadfence();", "", "Order this thread's memory accesses for the whole GPU."),
        pair("void twb_fence_system()", "__threadfence_system();", "", "Order this thread's memory accesses for host and other GPUs too."),
        replace(
            pair(
                "void twb_fail(int number)",
                f"atomicCAS(&{STATUS}, 0u, (unsigned)number);",
                "twbe_fail(number);",
                "Assertion `number` (from 1) did not hold. A GPU remembers the first one, and the thread goes on; the emulator stops the kernel.",
            ),
            gpu_before=f"__device__ unsigned {STATUS};",
        ),
    )
