"""Writing past the caches: whole lines at a time, which then need not be read first.

Only whole lines may go that way; a line that is also written the usual way would have to leave the cache again. What lies before the first and behind
the last of them is written the usual way, element by element. The fence puts these stores in front of all later ones, as others see them.
"""

from __future__ import annotations

from .function import CFunction, function

_STREAM = """\
const char *p = src; char *q = dst;
int64_t head = -(int64_t)(__INTPTR_TYPE__)q & 63;
if (head > bytes) head = bytes;
for (int64_t i = 0; i < head; i += $size) *(volatile $type *)(q + i) = *(const $type *)(p + i);
int64_t at = head;
#if defined(__x86_64__)
for (; at + 64 <= bytes; at += 64) {
#if defined(__AVX512F__)
typedef float v16 __attribute__((vector_size(64), may_alias)); typedef float v16u __attribute__((vector_size(64), aligned(1), may_alias));
const v16 v = *(const v16u *)(p + at);
#if defined(__clang__)
__builtin_nontemporal_store(v, (v16 *)(q + at));
#else
__builtin_ia32_movntps512((float *)(q + at), v);
#endif
#else
typedef float v4 __attribute__((vector_size(16), may_alias)); typedef float v4u __attribute__((vector_size(16), aligned(1), may_alias));
for (int64_t i = 0; i < 64; i += 16) {
const v4 v = *(const v4u *)(p + at + i);
#if defined(__clang__)
__builtin_nontemporal_store(v, (v4 *)(q + at + i));
#else
__builtin_ia32_movntps((float *)(q + at + i), v);
#endif
}
#endif
}
__builtin_ia32_sfence();
#endif
for (; at < bytes; at += $size) *(volatile $type *)(q + at) = *(const $type *)(p + at);"""


def stream_functions() -> tuple[CFunction, ...]:
    """`twb_stream_16` and `twb_stream_32`: `bytes` bytes of elements of 16 or 32 bits from `src`, which lies near by, to `dst`, past the caches."""
    return tuple(
        function(f"void twb_stream_{bits}(void *dst, const void *src, int64_t bytes)", _STREAM, type=f"uint{bits}_t", size=str(bits // 8))
        for bits in (16, 32)
    )
