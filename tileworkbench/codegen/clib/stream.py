"""Writing past the caches: whole lines at a time, which then need not be read first.

Only whole lines may go that way; a line that is also written the usual way would have to leave the cache again. A row that is made in pieces
keeps the begun line at the end of a piece in front of the next one, so only the first and the last line of the row are written the usual way,
element by element. `twb_stream_end` puts all these stores in front of all later ones, as others see them; it waits for memory, so a core calls it
once a launch, after its blocks.
"""

from __future__ import annotations

from .function import CFunction, function

# at: where in the piece the first line starts that is not written yet
_STREAM = """\
char *p = src, *q = dst;
int64_t at = 0;
#if defined(__x86_64__)
const int64_t begun = (int64_t)(__INTPTR_TYPE__)q & 63;
if (follows) at = -begun;
else for (const int64_t head = -begun & 63; at < head && at < bytes; at += $size) *(volatile $type *)(q + at) = *(const $type *)(p + at);
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
if (goes_on) { __builtin_memcpy(p - 64, p + bytes - 64, 64); return; }
#else
(void)follows, (void)goes_on;
#endif
for (; at < bytes; at += $size) *(volatile $type *)(q + at) = *(const $type *)(p + at);"""
_END = """\
#if defined(__x86_64__)
__builtin_ia32_sfence();
#endif"""


def stream_functions() -> tuple[CFunction, ...]:
    """`twb_stream_16` and `twb_stream_32`, for elements of 16 or 32 bits, and `twb_stream_end`.

    They move `bytes` bytes, a multiple of 64 unless it is the last piece, from `src`, which lies near by, to `dst`, past the caches. `follows`:
    there was a piece before this one, from the same `src`; `goes_on`: there will be another. In front of `src` there are 64 bytes for begun lines.
    """
    head = "void twb_stream_{}(void *dst, void *src, int64_t bytes, int follows, int goes_on)"
    return (
        *(function(head.format(bits), _STREAM, type=f"uint{bits}_t", size=str(bits // 8)) for bits in (16, 32)),
        function("void twb_stream_end(void)", _END),
    )
