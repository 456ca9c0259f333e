"""The instruction set follows from feature flags alone."""

from __future__ import annotations

from tileworkbench.base.cpu import AVX2, AVX512, host_isa, isa_from_flags


def test_flags_choose_the_widest_set():
    assert isa_from_flags(AVX512.flags).name == "avx512"
    assert isa_from_flags(AVX512.flags - {"avx512vl"}).name == "avx2"
    assert isa_from_flags(AVX2.flags - {"fma"}).name == "generic"


def test_extensions_are_kept_apart_from_the_level():
    isa = isa_from_flags(AVX512.flags | {"avx512_fp16"})
    assert isa.extensions == ("-mavx512fp16",) and "-mavx512fp16" not in isa.march
    assert isa.has("avx512_fp16") and not AVX512.has("avx512_fp16")


def test_host_never_asks_for_native():
    assert "-march=native" not in host_isa().march
