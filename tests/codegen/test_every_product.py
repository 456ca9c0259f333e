"""Every micro-kernel at ragged and tiny sizes, on every instruction set that this processor can run: one file of C for each types and set.

The products of a file share kernels, as those of a program do. `test_microgemm` draws sizes at random; this is the list that always runs.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest
from codegen.c_harness import HOST, build
from codegen.test_microgemm import GUARD, guarded, operands

from tileworkbench.base.cpu import AMX, AVX2, AVX512, GENERIC, NEON
from tileworkbench.base.dtypes import DType
from tileworkbench.codegen import clib
from tileworkbench.codegen.gemm_plan import GemmSpec
from tileworkbench.codegen.microgemm import gemm_name, gemm_needs, gemm_scratch_bytes, gemm_text

TYPES = {  # (a, b, c) by name; int4 operands are unpacked to int8 before they come here
    "f32": ("float32", "float32", "float32"),
    "f64": ("float64", "float64", "float64"),
    "f16": ("float16", "float16", "float32"),
    "f16_all": ("float16", "float16", "float16"),
    "bf16": ("bfloat16", "bfloat16", "float32"),
    "bf16_all": ("bfloat16", "bfloat16", "bfloat16"),
    "int8": ("int8", "int8", "int32"),
    "uint8": ("uint8", "uint8", "int32"),
    "uint8_int8": ("uint8", "int8", "int32"),
    "e4m3": ("float8_e4m3fn", "float8_e4m3fn", "float32"),
    "e5m2": ("float8_e5m2", "float8_e4m3fn", "float32"),
    "int4_unpacked": ("int8", "int8", "int32"),
    "weights": ("float32", "bfloat16", "float32"),
}
SIZES = (  # one of everything, a row, a column, tails of every kind of vector, one more or less than a register tile, several blocks of k
    (1, 1, 1), (1, 33, 7), (9, 1, 5), (2, 3, 70), (5, 17, 16), (7, 31, 33), (16, 16, 64), (13, 65, 3), (33, 47, 65), (3, 18, 530),
)  # fmt: skip
LAYOUTS = ("nn", "nt", "tn", "tt")
MATRIX_UNIT = ("bf16", "bf16_all", "int8", "uint8", "uint8_int8")
# NEON's and the generic text have no instruction of their own: any compiler of vector types takes them, also the one here
SETS = {"avx512": AVX512, "avx2": AVX2, "neon": NEON, "generic": GENERIC, "amx": AMX}
CASES = [(kind, name) for kind in TYPES for name in SETS if name != "amx" or kind in MATRIX_UNIT]


def specs(kind: str, name: str) -> list[GemmSpec]:
    """Every size once; the layouts move on with types and set, so that each size has each layout somewhere. Some rows are longer than used."""
    shift = list(TYPES).index(kind) + list(SETS).index(name)
    out = []
    for number, (m, n, k) in enumerate(SIZES):
        layout = LAYOUTS[(number + shift) % len(LAYOUTS)]
        trans_a, trans_b = layout[0] == "t", layout[1] == "t"
        pad = 5 * (number % 3 == 1)
        strides = (m if trans_a else k) + pad, (k if trans_b else n) + pad, n + pad
        out.append(GemmSpec(m, n, k, *(DType(t) for t in TYPES[kind]), *strides, trans_a, trans_b, SETS[name]))
    return out


@cache
def library(kind: str, name: str) -> ctypes.CDLL:
    """All products of these types for this instruction set."""
    found = specs(kind, name)
    needs = [need for spec in found for need in gemm_needs(spec)]
    entries = "".join(
        f"void run{i}(const void *a, const void *b, void *c, int clear, char *s) {{ {gemm_name(spec)}(a, b, c, clear, s); }}\n"
        for i, spec in enumerate(found)
    )
    return build(clib.library(needs) + gemm_text(*found) + entries, SETS[name])


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_product(kind: str, name: str) -> None:
    if name != "neon" and not SETS[name].flags <= HOST.flags:
        pytest.skip(f"this processor or its system has no {name}")
    lib = library(kind, name)
    for number, spec in enumerate(specs(kind, name)):
        for clear in (True, False):
            a, b, c = operands(spec, number)
            if kind == "int4_unpacked":
                a, b = a % 16 - 8, b % 16 - 8
            got = call(getattr(lib, f"run{number}"), spec, a, b, c, clear)
            compare(spec, got, a, b, np.zeros_like(c) if clear else c)


def call(function: ctypes._CFuncPtr, spec: GemmSpec, a: np.ndarray, b: np.ndarray, c: np.ndarray, clear: bool) -> np.ndarray:
    """c after the product; fails if anything outside c's elements or the scratch changed."""
    (whole_a, _), (whole_b, _), (whole_c, tile) = guarded(a, spec.lda), guarded(b, spec.ldb), guarded(c, spec.ldc)
    before = whole_c.copy()
    room = np.full(gemm_scratch_bytes(spec) + 192, 0x5A, np.uint8)
    start = -room.ctypes.data % 64 + 64
    first = [ctypes.c_void_p(x.ctypes.data + GUARD * x.itemsize) for x in (whole_a, whole_b, whole_c)]
    function(*first, ctypes.c_int(clear), ctypes.c_void_p(room.ctypes.data + start))
    assert (room[:start] == 0x5A).all() and (room[start + gemm_scratch_bytes(spec) :] == 0x5A).all(), spec
    result = tile.copy()
    tile[...] = before[GUARD : before.size - GUARD].reshape(spec.m, spec.ldc)[:, : spec.n]
    assert whole_c.tobytes() == before.tobytes(), spec
    return result


def compare(spec: GemmSpec, got: np.ndarray, a: np.ndarray, b: np.ndarray, old: np.ndarray) -> None:
    """Integers exactly; floats within a rounding for each step in the sum's type, and one in the result's."""
    wide = np.int64 if spec.c.is_int else np.float64
    x, y, before = (v.astype(wide) for v in (a.T if spec.trans_a else a, b.T if spec.trans_b else b, old))
    want = x @ y + before
    if spec.c.is_int:
        assert np.array_equal(got, want.astype(got.dtype)), spec
        return
    size = np.abs(x) @ np.abs(y) + np.abs(before)
    tolerance = (spec.k + 3) * spec.acc.unit_roundoff * size + spec.c.unit_roundoff * np.abs(want) + 2.0**-24 * (spec.c == "float16")
    assert (np.abs(got.astype(np.float64) - want) <= tolerance).all(), spec


def test_the_list_is_what_it_says() -> None:
    """Each size has each layout on some set, in all types together, and the matrix unit is on the list."""
    everything = [spec for kind, name in CASES for spec in specs(kind, name)]
    for m, n, k in SIZES:
        assert {(s.trans_a, s.trans_b) for s in everything if (s.m, s.n, s.k) == (m, n, k)} == {(a, b) for a in (False, True) for b in (False, True)}
    assert {s.kernel for s in specs("bf16", "amx")} == {"amx", "fma"} and {s.kernel for s in specs("bf16", "avx512")} == {"fma"}
