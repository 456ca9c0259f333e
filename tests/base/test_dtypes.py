"""Element types: names, limits against NumPy and ml_dtypes, and the promotion table."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tileworkbench.base.dtypes import FLOAT32, INT32, DType, promote

NAMES = ["bool", "int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32", "uint64",
         "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]  # fmt: skip
ALL = [DType(n) for n in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_a_dtype_is_its_name_and_there_is_one_of_each(name: str) -> None:
    assert DType(name) == name and f"{DType(name)}" == name
    assert DType(DType(name)) is DType(name)


@pytest.mark.parametrize(
    ("alias", "name"), [("float", "float32"), ("half", "float16"), ("int", "int32"), ("long", "int64"), ("torch.bfloat16", "bfloat16")]
)
def test_aliases(alias: str, name: str) -> None:
    assert DType(alias) is DType(name)


@pytest.mark.parametrize("given", [np.float32, np.dtype("float32"), float, "float32"])
def test_host_spellings(given: object) -> None:
    assert DType(given) is FLOAT32
    assert DType(np.dtype(ml_dtypes.bfloat16)) == "bfloat16"


@pytest.mark.parametrize("given", ["float7", "complex64", object(), None])
def test_unknown_dtypes_are_refused_by_name(given: object) -> None:
    with pytest.raises(ValueError, match="unknown dtype"):
        DType(given)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_limits_agree_with_numpy(dtype: DType) -> None:
    if dtype.is_bool:
        assert (dtype.min, dtype.max) == (0, 1)
        return
    info = (ml_dtypes.finfo if dtype.is_float else ml_dtypes.iinfo)(dtype.to_numpy())
    assert (float(dtype.min), float(dtype.max)) == (float(info.min), float(info.max))
    if dtype.is_float:
        assert dtype.unit_roundoff == float(info.eps) / 2
        assert dtype.has_infinity == (not np.isnan(np.array(np.inf).astype(dtype.to_numpy())))


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(ALL, 2)), ids=str)
def test_promotion_is_symmetric_and_never_narrows(a: DType, b: DType) -> None:
    out = promote(a, b)
    assert out is promote(b, a)
    counted = [x.bits for x in (a, b) if x.is_float == out.is_float and not (x.is_bool and out is not x)]
    assert out.bits >= max(counted)
    assert out.is_float == (a.is_float or b.is_float)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [("int32", "int64", "int64"), ("uint8", "int8", "int8"), ("uint32", "int8", "int32"), ("int8", "uint32", "int32"), ("bool", "uint8", "uint8"),
     ("float16", "bfloat16", "float32"), ("float8_e4m3fn", "float8_e5m2", "float32"), ("int64", "float16", "float16")],
)  # fmt: skip
def test_promotion_table(a: str, b: str, want: str) -> None:
    assert promote(DType(a), DType(b)) == want


def test_packed_sizes() -> None:
    assert (DType("int4").nbytes, INT32.nbytes, DType("bool").nbytes) == (0.5, 4, 1)
