"""The C library's integers, which never trap, and its atomics."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest
from codegen.c_harness import HOST, apply, build, types_of
from codegen.clib_values import INTEGERS

from tileworkbench.base.cpu import AVX2, AVX512
from tileworkbench.base.dtypes import DType
from tileworkbench.codegen import clib


# ---------------------------------------------------------------------------------------------- integers
def expected(op: str, a: int, b: int, bits: int, signed: bool) -> int:
    wrap = (lambda v: (v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)) if signed else (lambda v: v % (1 << bits))
    shift_in_range = 0 <= b < bits
    match op:
        case "floordiv" | "floormod" | "truncdiv" | "truncmod" if b == 0:
            return 0
        case "floordiv":
            return wrap(a // b)
        case "floormod":
            return a % b
        case "truncdiv":
            return wrap(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))
        case "truncmod":
            return abs(a) % abs(b) * (-1 if a < 0 else 1)
        case "shl":
            return wrap(a << b) if shift_in_range else 0
        case "shr":
            return a >> b if shift_in_range else (-1 if a < 0 else 0)
        case "min" | "max":
            return {"min": min, "max": max}[op](a, b)
    raise AssertionError(op)


@pytest.mark.parametrize("short", INTEGERS)
def test_integer_operations_never_trap_and_follow_the_language(short):
    bits, signed = int(short[1:]), short[0] == "i"
    info = np.iinfo(f"{'' if signed else 'u'}int{bits}")
    if bits == 8:
        values = list(range(info.min, info.max + 1))
    else:
        rng = np.random.default_rng(bits)
        edges = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, info.max, info.max - 1, info.min, info.min + 1] + ([-1, -2, -7] if signed else [])
        values = sorted({*edges, *rng.integers(info.min, info.max, 40, info.dtype, endpoint=True).tolist()})
    a, b = (g.ravel() for g in np.meshgrid(np.array(values, info.dtype), np.array(values, info.dtype)))
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    names = [f"twb_{op}_{short}" for op in ("floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr", "min", "max")]
    for name in names:
        assert apply(name, a, b, names=names).tolist() == [expected(name.split("_")[1], x, y, bits, signed) for x, y in pairs], name
    one = np.array(values, info.dtype)
    mask = (1 << bits) - 1
    assert apply(f"twb_popcount_{short}", one).tolist() == [(v & mask).bit_count() for v in values]
    assert apply(f"twb_clz_{short}", one).tolist() == [bits - (v & mask).bit_length() for v in values]
    assert apply(f"twb_abs_{short}", one).tolist() == [v if v == info.min else abs(v) for v in values]


def test_integer_power_wraps():
    a, b = np.array([2, 3, -2, 10, 5, 0, -1, -1, 4], np.int32), np.array([10, 21, 3, 10, 0, 0, -3, -2, -1], np.int32)
    assert apply("twb_pow_i32", a, b).tolist() == [
        1024,
        (3**21 + 2**31) % 2**32 - 2**31,
        -8,
        10**10 % 2**32 - 2**32 * (10**10 % 2**32 >= 2**31),
        1,
        1,
        -1,
        1,
        0,
    ]


def test_nibbles():
    text = (
        clib.library(["twb_load_i4", "twb_load_u4", "twb_store_i4", "twb_store_i4_shared"])
        + """
void pack(uint8_t *p, const int8_t *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) { if (i % 3) twb_store_i4(p, i, v[i]); else twb_store_i4_shared(p, i, v[i]); }
}
void unpack(const uint8_t *p, int8_t *s, uint8_t *u, int64_t n) {
    for (int64_t i = 0; i < n; i++) { s[i] = twb_load_i4(p, i); u[i] = twb_load_u4(p, i); }
}
"""
    )
    lib = build(text)
    values = np.random.default_rng(0).integers(-8, 8, 101, np.int8)
    packed, signed, unsigned = np.full(51, 0xA5, np.uint8), np.empty(101, np.int8), np.empty(101, np.uint8)
    at = lambda x: ctypes.c_void_p(x.ctypes.data)
    lib.pack(at(packed), at(values), ctypes.c_int64(101))
    lib.unpack(at(packed), at(signed), at(unsigned), ctypes.c_int64(101))
    assert np.array_equal(signed, values) and np.array_equal(unsigned, values.view(np.uint8) & 15)
    assert packed[0] & 15 == values[0] & 15 and packed[50] >> 4 == 0xA  # low half first; the half behind the end is untouched


# ---------------------------------------------------------------------------------------------- atomics
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64"])
def test_atomics_return_the_old_value(dtype):
    kind = DType(dtype)
    storage, numpy = clib.c_type(kind), kind.to_numpy()
    ops = ["add", "max", "min", "exch"] + ([] if kind.is_float else ["and", "or", "xor"])
    names = [clib.atomic_name(op, kind) for op in (*ops, "load", "store")]
    text = clib.library(names) + "".join(
        f"void do_{op}({storage} *p, {storage} *v, {storage} *old) {{ *old = {clib.atomic_name(op, kind)}(p, *v); }}\n" for op in ops
    )
    text += f"void copy({storage} *p, {storage} *q) {{ {clib.atomic_name('store', kind)}(q, {clib.atomic_name('load', kind)}(p)); }}\n"
    lib = build(text)
    steps = {
        "add": lambda a, b: a + b,
        "max": max,
        "min": min,
        "exch": lambda a, b: b,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }
    at = lambda x: ctypes.c_void_p(x.ctypes.data)
    for start, value in ((5, 3), (3, 5), (12, 12)):
        for op in ops:
            cell, operand, old = np.array([start], numpy), np.array([value], numpy), np.zeros(1, numpy)
            getattr(lib, f"do_{op}")(at(cell), at(operand), at(old))
            assert (float(cell[0]), float(old[0])) == (steps[op](start, value), start), op
    cell, copy = np.array([7], numpy), np.zeros(1, numpy)
    lib.copy(at(cell), at(copy))
    assert copy[0] == cell[0]


@pytest.mark.parametrize("short", ["f16", "bf16", "f32", "i32"])
def test_atomic_additions_of_two_threads_are_all_counted(short):
    storage, kind = {
        "f16": ("uint16_t", np.float16),
        "bf16": ("uint16_t", ml_dtypes.bfloat16),
        "f32": ("float", np.float32),
        "i32": ("int32_t", np.int32),
    }[short]
    text = (
        clib.library([f"twb_atomic_add_{short}"])
        + f"""
void count({storage} *p, {storage} *one, int64_t n) {{
    #pragma omp parallel for num_threads(2) schedule(static, 1)
    for (int64_t i = 0; i < n; i++) twb_atomic_add_{short}(p, *one);
}}
"""
    )
    total = 200 if short == "bf16" else 2000  # exact in the type
    cell, one = np.zeros(1, kind), np.ones(1, kind)
    build(text, extra=("-fopenmp",)).count(ctypes.c_void_p(cell.ctypes.data), ctypes.c_void_p(one.ctypes.data), ctypes.c_int64(total))
    assert float(cell[0]) == total


def test_signatures_are_what_the_harness_and_emitters_read():
    assert types_of("twb_f32_to_bf16") == ("uint16_t", ["float"])
    assert HOST.flags >= AVX2.flags or AVX512.name != HOST.name
