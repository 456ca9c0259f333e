"""4-bit integers: element i is the low (even i) or the high (odd i) half of byte i / 2; indices are not negative."""

from __future__ import annotations

from .function import CFunction, function

_STORE = "int s = (int)(i & 1) * 4;\np[i >> 1] = (uint8_t)((p[i >> 1] & ~(15 << s)) | ((v & 15) << s));"
_SHARED_STORE = """\
int s = (int)(i & 1) * 4;
uint8_t old = __atomic_load_n(p + (i >> 1), __ATOMIC_RELAXED), now;
do now = (uint8_t)((old & ~(15 << s)) | ((v & 15) << s));
while (!__atomic_compare_exchange_n(p + (i >> 1), &old, now, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));"""


def nibble_functions() -> tuple[CFunction, ...]:
    """Load, store, and a store for bytes whose other half another thread may write."""
    return (
        function("int8_t twb_load_i4(const uint8_t *p, int64_t i)", "return (int8_t)(((p[i >> 1] >> ((int)(i & 1) * 4) & 15) ^ 8) - 8);"),
        function("uint8_t twb_load_u4(const uint8_t *p, int64_t i)", "return p[i >> 1] >> ((int)(i & 1) * 4) & 15;"),
        function("void twb_store_i4(uint8_t *p, int64_t i, int32_t v)", _STORE),
        function("void twb_store_i4_shared(uint8_t *p, int64_t i, int32_t v)", _SHARED_STORE),
        function("int8_t twb_wrap_i4(int64_t v)", "return (int8_t)(((v & 15) ^ 8) - 8);"),
        function("uint8_t twb_wrap_u4(int64_t v)", "return (uint8_t)(v & 15);"),
    )
