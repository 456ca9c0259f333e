"""Whole vectors out of 16-byte pieces that lie apart, for transposing.

The portable spelling makes gcc shuffle each piece into place through the one port that has shuffles; its insert instruction takes the piece
from memory and needs none (64 x 64 float32 values on a Sapphire Rapids core: 0.33 us instead of 0.50; clang finds it by itself).
"""

from __future__ import annotations

from .function import CFunction, function

_TYPES = {bytes_: f"typedef float twb_v{bytes_ // 4}f32 __attribute__((vector_size({bytes_}), aligned(4), may_alias));\n" for bytes_ in (16, 32, 64)}
_PIECE = "*(const twb_v4f32 *)"
_JOIN2 = f"return __builtin_shufflevector({_PIECE}p, {_PIECE}q, 0, 1, 2, 3, 4, 5, 6, 7);"
_JOIN4 = f"""
#if defined(__AVX512F__) && !defined(__clang__)
typedef float v4 __attribute__((vector_size(16)));
typedef float v16 __attribute__((vector_size(64)));
v16 x = __builtin_ia32_ps512_ps((v4){_PIECE}p);
x = __builtin_ia32_insertf32x4_mask(x, (v4){_PIECE}q, 1, x, (unsigned short)-1);
x = __builtin_ia32_insertf32x4_mask(x, (v4){_PIECE}r, 2, x, (unsigned short)-1);
return (twb_v16f32)__builtin_ia32_insertf32x4_mask(x, (v4){_PIECE}s, 3, x, (unsigned short)-1);
#else
return __builtin_shufflevector(twb_join2(p, q), twb_join2(r, s), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif"""


def vector_functions() -> tuple[CFunction, ...]:
    """`twb_join2` and `twb_join4`: two or four 16-byte pieces, as a vector of float32 (cast it to what they are)."""
    return (
        function("twb_v8f32 twb_join2(const void *p, const void *q)", _JOIN2, declares=_TYPES[16] + _TYPES[32]),
        function(
            "twb_v16f32 twb_join4(const void *p, const void *q, const void *r, const void *s)", _JOIN4, "twb_join2", declares=_TYPES[16] + _TYPES[64],
        ),
    )  # fmt: skip
