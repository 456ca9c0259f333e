"""The C library's text, and conversions against NumPy and ml_dtypes: exact."""

from __future__ import annotations

import ctypes
import math
import re

import ml_dtypes
import numpy as np
import pytest
from codegen.c_harness import apply, build
from codegen.clib_values import EVERYWHERE, INTEGERS, NARROW, ROUNDING, random_floats

from tileworkbench.base.dtypes import DType
from tileworkbench.codegen import clib


# ---------------------------------------------------------------------------------------------- text
def test_library_holds_only_what_is_used_callees_first():
    text = clib.library(["twb_exp_f32"])
    defined = re.findall(r"^TWB_FN .*?(twb_\w+)\(", text, re.MULTILINE)
    assert defined[-1] == "twb_exp_f32" and len(defined) == len(set(defined)) == 3
    for i, name in enumerate(defined):
        assert all(name not in line for line in text.split("TWB_FN ")[1 : i + 1]), name
    with pytest.raises(KeyError):
        clib.library(["twb_no_such"])


def test_names_follow_from_operation_and_dtype():
    assert clib.call_name("tanh", DType("float32")) == "twb_tanh_f32"
    assert clib.cast_name(DType("float32"), DType("int8")) == "twb_f32_to_i8"
    assert clib.cast_name(DType("int32"), DType("float32")) == ""  # a C cast does it
    assert clib.atomic_name("max", DType("bfloat16")) == "twb_atomic_max_bf16"
    for op, dtype in (("exp", "int32"), ("exp", "float16")):
        with pytest.raises(KeyError):
            clib.call_name(op, DType(dtype))


@EVERYWHERE
def test_every_function_compiles_without_a_warning(compiler, isa):
    build(clib.library(clib.FUNCTIONS) + "void none(void) {}\n", isa, compiler)


def test_text_needs_no_header():
    assert "#include" not in clib.library(clib.FUNCTIONS)


# ---------------------------------------------------------------------------------------------- conversions
@EVERYWHERE
@pytest.mark.parametrize("short", NARROW)
def test_every_code_of_a_narrow_float_becomes_its_value(short, compiler, isa):
    kind = np.dtype(NARROW[short])
    codes = np.arange(1 << 8 * kind.itemsize).astype(f"u{kind.itemsize}")
    want = codes.view(kind).astype(np.float32)
    got = apply(f"twb_{short}_to_f32", codes, isa=isa, compiler=compiler, names=ROUNDING)
    numbers = ~np.isnan(want)
    assert np.array_equal(got.view(np.uint32)[numbers], want.view(np.uint32)[numbers]) and np.isnan(got[~numbers]).all()


@EVERYWHERE
@pytest.mark.parametrize("short", NARROW)
def test_float32_rounds_to_nearest_even(short, compiler, isa):
    kind = np.dtype(NARROW[short])
    values = np.arange(1 << 8 * kind.itemsize).astype(f"u{kind.itemsize}").view(kind).astype(np.float32)
    known = np.sort(values[np.isfinite(values)])
    middles = ((known[1:].astype(np.float64) + known[:-1]) / 2).astype(np.float32)  # ties, and their neighbours
    x = np.concatenate(
        [
            random_floats(1, -500, 500),
            random_floats(2, -7e4, 7e4),
            middles,
            np.nextafter(middles, np.float32(np.inf)),
            np.nextafter(middles, -np.float32(np.inf)),
            values,
        ]
    )
    with np.errstate(all="ignore"):
        want = x.astype(kind)
    got = apply(f"twb_f32_to_{short}", x, isa=isa, compiler=compiler, names=ROUNDING)
    numbers = ~np.isnan(want.astype(np.float32))
    assert np.array_equal(got[numbers], want.view(got.dtype)[numbers]) and np.isnan(got.view(kind)[~numbers].astype(np.float32)).all()


@pytest.mark.parametrize("short", NARROW)
def test_float64_rounds_once(short):
    """A value just above a tie of the narrow type, which float32 would round onto the tie and then down."""
    kind = np.dtype(NARROW[short])
    one_and_a_half_steps = 1 + 1.5 * float(ml_dtypes.finfo(kind).eps)
    x = np.array(
        [
            one_and_a_half_steps * (1 - 2.0**-40),
            one_and_a_half_steps * (1 + 2.0**-40),
            1 + 0.5 * float(ml_dtypes.finfo(kind).eps) * (1 + 2.0**-30),
            np.nan,
            np.inf,
            0.1,
        ]
    )
    got = apply(f"twb_f64_to_{short}", x).view(kind).astype(np.float64)
    eps = float(ml_dtypes.finfo(kind).eps)
    assert got[:3].tolist() == [1 + eps, 1 + 2 * eps, 1 + eps] and np.isnan(got[3]) and abs(got[5] - 0.1) <= 0.1 * eps


@EVERYWHERE
def test_whole_rows_of_half_convert_exactly(compiler, isa):
    codes = np.arange(1 << 16).astype(np.uint16)[:65533]
    calls = "".join(
        f"void {n}_all({src} *p, {dst} *q, int64_t n) {{ {n}(p, q, n); }}\n"
        for n, src, dst in (("twb_copy_f16_to_f32", "uint16_t", "float"), ("twb_copy_f32_to_f16", "float", "uint16_t"))
    )
    lib = build(clib.library(["twb_copy_f16_to_f32", "twb_copy_f32_to_f16"]) + calls, isa, compiler)
    wide, back = np.empty(codes.size, np.float32), np.empty(codes.size, np.uint16)
    lib.twb_copy_f16_to_f32_all(ctypes.c_void_p(codes.ctypes.data), ctypes.c_void_p(wide.ctypes.data), ctypes.c_int64(codes.size))
    lib.twb_copy_f32_to_f16_all(ctypes.c_void_p(wide.ctypes.data), ctypes.c_void_p(back.ctypes.data), ctypes.c_int64(codes.size))
    half = codes.view(np.float16)
    assert np.array_equal(wide, half.astype(np.float32), equal_nan=True) and np.array_equal(back.view(np.float16), half, equal_nan=True)


@EVERYWHERE
def test_whole_rows_round_to_bfloat16_as_single_numbers_do(compiler, isa):
    """Also where the processor's instruction would not: denormal numbers."""
    name = "twb_copy_f32_to_bf16"
    lib = build(clib.library([name], isa) + f"void all_(const float *p, uint16_t *q, int64_t n) {{ {name}(p, q, n); }}\n", isa, compiler)
    normal = random_floats(31, -500, 500, 4096)
    normal = normal[(np.abs(normal) >= 2.0**-126) | (normal == 0) | np.isnan(normal)]
    small = random_floats(32, -1e-38, 1e-38, 999)
    for x in (normal, *(normal[:n] for n in (31, 32, 1, 0)), small, np.array([1e-40] + [1.5] * 40, np.float32)):
        got = np.full(x.size + 1, 7, np.uint16)
        lib.all_(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(got.ctypes.data), ctypes.c_int64(x.size))
        with np.errstate(all="ignore"):
            want = x.astype(ml_dtypes.bfloat16)
        numbers = ~np.isnan(x)
        assert np.array_equal(got[:-1][numbers], want.view(np.uint16)[numbers]) and got[-1] == 7
        assert np.isnan(got[:-1].view(ml_dtypes.bfloat16)[~numbers].astype(np.float32)).all()


@EVERYWHERE
@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", INTEGERS)
def test_float_to_integer_truncates_and_saturates(source, target, compiler, isa):
    info = np.iinfo(f"{'u' * (target[0] == 'u')}int{target[1:]}")
    ends = [float(info.max) * f for f in (0.5, 1, 1.5)] + [float(info.min) * f for f in (0.5, 1, 1.5)]
    x = np.concatenate([random_floats(3, -300, 300, 2000), random_floats(4, -5e9, 5e9, 2000), np.array(ends, np.float32)])
    if source == "f64":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            x = np.concatenate([x.astype(np.float64), np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf)])
    want = [saturated(v, int(info.min), int(info.max)) for v in x.tolist()]
    names = [f"twb_{source}_to_{t}" for t in INTEGERS]
    assert apply(f"twb_{source}_to_{target}", x, isa=isa, compiler=compiler, names=names).tolist() == want


def saturated(value: float, low: int, high: int) -> int:
    if math.isnan(value):
        return 0
    return high if value >= high else low if value <= low else math.trunc(value)
