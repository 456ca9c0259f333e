"""4-bit integers, two to a byte: element i is the low (even i) or the high (odd i) half of byte i / 2."""

from __future__ import annotations

from .function import DeviceFunction, pair, same

_SET = """\
uint8_t *at = (uint8_t *)p + (i >> 1);
uint32_t shift = ((uint64_t)at & 3) * 8 + (uint32_t)(i & 1) * 4;
unsigned *word = (unsigned *)((uint64_t)at & ~(uint64_t)3), seen, now = *(volatile unsigned *)word;
do { seen = now; now = atomicCAS(word, seen, (seen & ~(15u << shift)) | ((unsigned)v & 15u) << shift); } while (now != seen);"""
_SET_HERE = """\
uint8_t *at = (uint8_t *)p.moved(i >> 1).place(1, __is_same(P, twb_shared<uint8_t>) ? TWBE_ATOMIC : TWBE_STORE);
*at = i & 1 ? (*at & 15) | (v & 15) << 4 : (*at & 240) | (v & 15);"""


def nibble_functions() -> tuple[DeviceFunction, ...]:
    """Halves of bytes: read, put in, stored where another thread may store the other half; and integers made that small."""
    return (
        same("int8_t twb_nibble_i4(uint8_t byte, int64_t i)", "return (int8_t)(byte << (i & 1 ? 0 : 4)) >> 4;", "Element `i` of a byte, signed."),
        same("uint8_t twb_nibble_u4(uint8_t byte, int64_t i)", "return byte >> ((int)(i & 1) * 4) & 15;", "Element `i` of a byte, unsigned."),
        same(
            "uint8_t twb_with_nibble(uint8_t byte, int64_t i, int32_t v)",
            "return i & 1 ? (byte & 15) | (v & 15) << 4 : (byte & 240) | (v & 15);",
            "A byte whose element `i` is `v`.",
        ),
        pair(
            "template <class P> void twb_set_nibble(P p, int64_t i, int32_t v)",
            _SET,
            _SET_HERE,
            "Write element `i` of the bytes at `p`; other threads may write other elements of the same byte.",
        ),
        same("int8_t twb_wrap_i4(int64_t v)", "return (int8_t)(((v & 15) ^ 8) - 8);", "The low 4 bits, signed."),
        same("uint8_t twb_wrap_u4(int64_t v)", "return (uint8_t)(v & 15);", "The low 4 bits, unsigned."),
    )
