"""Halves of bytes, and the bits of a value as another type."""

from __future__ import annotations

from typing import Any

import numpy as np
from device.suite import Case, rng

K = 'extern "C" __global__ void k'


def _nibbles() -> Case:
    """Every thread writes one half; neighbours share a byte, in global and in shared memory."""
    text = (
        K
        + """(twb_global<const uint8_t> a, twb_global<uint8_t> b, twb_global<uint8_t> c, twb_global<int32_t> d) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<uint8_t> s = twb_tile<uint8_t>(memory, 0, 32);
        uint32_t i = twb_thread_x();
        if (i < 32) s[i] = 0;
        twb_sync();
        int64_t back = 63 - i;
        twb_set_nibble(b, i, twb_nibble_u4(a[back >> 1], back));
        twb_set_nibble(s, i, twb_nibble_i4(a[i >> 1], i) + 1);
        twb_sync();
        if (i < 32) c[i] = s[i];
        d[i] = twb_nibble_i4(a[i >> 1], i) * 1000 + twb_nibble_u4(twb_with_nibble(a[i >> 1], i, (int)i + 3), i);
        d[64 + i] = twb_wrap_i4((int64_t)i * 5 - 7) * 100 + twb_wrap_u4((int64_t)i * 5 - 7);
        d[128 + i] = twb_same_bits<int16_t, twb_bf16>(twb_bf16{(uint16_t)(i * 1021)});
        uint8_t own = (uint8_t)(i + 1);
        d[192 + i] = *twb_pointer(a + i / 2) * 1000 + *twb_pointer(&own);
    }"""
    )
    a = rng(5).integers(0, 256, 32).astype(np.uint8)

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        low = np.stack([a & 15, a >> 4], -1).reshape(-1).astype(np.int64)
        signed = (low ^ 8) - 8
        i = np.arange(64)
        b, c = low[::-1], signed + 1 & 15
        wrapped = i * 5 - 7 & 15
        pointed = a.astype(np.int64)[i // 2] * 1000 + i + 1
        d = [signed * 1000 + (i + 3 & 15), ((wrapped ^ 8) - 8) * 100 + wrapped, (i * 1021).astype(np.uint16).view(np.int16), pointed]
        return {1: (b[0::2] | b[1::2] << 4).astype(np.uint8), 2: (c[0::2] | c[1::2] << 4).astype(np.uint8), 3: np.concatenate(d).astype(np.int32)}

    def args() -> list[Any]:
        return [a, np.full(32, 0xA5, np.uint8), np.zeros(32, np.uint8), np.zeros(256, np.int32)]

    return Case("nibbles", text, args, expected, arch="sm_75", block=(64, 1, 1), shared=1024)


CASES = (_nibbles(),)
