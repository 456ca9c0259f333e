"""The C library: small `static inline` functions that emitted C calls, of which a kernel carries exactly those it uses.

`FUNCTIONS` lists them: name -> C signature. All may stand inside `#pragma omp simd` loops; those named `_f32` vectorise.
Float16, bfloat16 and float8 values are computed in float32: convert, call the `_f32` function, convert back.

>>> print(library(["twb_max_i32"]).splitlines()[-1])
TWB_FN int32_t twb_max_i32(int32_t a, int32_t b) { return a > b ? a : b; }
>>> call_name("exp", DType("float32")), cast_name(DType("float32"), DType("bfloat16")), atomic_name("add", DType("float16"))
('twb_exp_f32', 'twb_f32_to_bf16', 'twb_atomic_add_f16')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from ...base.cpu import Isa
from ...base.dtypes import DType
from .atomic import atomic_functions
from .convert import convert_functions
from .copies import copy_functions
from .dots import dot_functions
from .function import PRELUDE, CFunction, c_type, suffix
from .integer import integer_functions
from .math_common import common_functions, libm_functions
from .math_exp import exp_functions
from .math_trig import trig_functions
from .nibble import nibble_functions
from .rows import row_functions
from .stream import stream_functions
from .strips import strip_functions
from .turn import turn_functions
from .vectors import vector_functions

_TABLE: dict[str, CFunction] = {
    f.name: f
    for f in (
        *convert_functions(), *integer_functions(), *nibble_functions(), *atomic_functions(),
        *vector_functions(), *copy_functions(), *row_functions(), *strip_functions(), *dot_functions(), *turn_functions(), *stream_functions(),
        *common_functions("f32"), *common_functions("f64"), *libm_functions(), *exp_functions(), *trig_functions(),
    )
}  # fmt: skip
FUNCTIONS = MappingProxyType({name: f.head for name, f in _TABLE.items()})
# what the text needs of the compiler: IEEE results stay, but errno and the exception flags need not be kept, so loops vectorise
FLAGS = ("-fno-math-errno", "-fno-trapping-math")
LINK_FLAGS = ("-lm",)


def library(names: Iterable[str], isa: Isa | None = None) -> str:
    """C text of the prelude (integer types, `TWB_FN`) and of the functions in `names` with everything they need, callees first.

    `isa` lets functions use instructions of this processor that its compiler flags do not name.
    Raises: KeyError for a name that is not in `FUNCTIONS`.
    """
    return _text(_with_needs(names), isa, CFunction.text)


def file_apart(names: Iterable[str], isa: Isa | None = None, also: Iterable[str] = ()) -> str:
    """The C file of the functions that `library(names)` leaves to be compiled apart, and of those in `also`; "" for none.

    One for all: they go together in kernels, and a run of the compiler for each would cost as much as half of what it does.
    """
    apart = [*(f.name for f in _with_needs(names).values() if f.is_apart), *also]
    return _text(_with_needs(apart), isa, lambda f: f.alone() if f.is_apart else f.text()) if apart else ""


def _text(functions: Mapping[str, CFunction], isa: Isa | None, spell: Callable[[CFunction], str]) -> str:
    parts = [PRELUDE]
    if isa is not None and isa.has("avx512_bf16") and "twb_copy_f32_to_bf16" in functions:
        parts.append("#define TWB_AVX512_BF16\n")
    for f in functions.values():
        if f.declares not in parts:
            parts.append(f.declares)
        parts.append(spell(f))
    return "".join(parts)


def _with_needs(names: Iterable[str]) -> dict[str, CFunction]:
    """The functions by name with everything they need, callees first."""
    done: dict[str, CFunction] = {}
    for name in names:
        _add(name, done)
    return done


def _add(name: str, done: dict[str, CFunction]) -> None:
    if name in done:
        return
    for other in _TABLE[name].needs:
        _add(other, done)
    done[name] = _TABLE[name]


def call_name(op: str, dtype: DType) -> str:
    """The function of a unary or binary operation of `ir.expr` on float32, float64 or integers; KeyError if C has an operator for it."""
    name = f"twb_{op}_{suffix(dtype)}"
    if name not in FUNCTIONS:
        raise KeyError(f"no C function for {op} on {dtype}")
    return name


def cast_name(source: DType, target: DType) -> str:
    """The function that converts a stored value of `source` to `target`, or "" where a C cast is exact in meaning.

    Narrow floats convert to float32 only, integers to narrow floats through float64: cast in two steps there.
    """
    name = f"twb_{suffix(source)}_to_{suffix(target)}"
    return name if name in FUNCTIONS and not target.is_bool else ""


def atomic_name(op: str, dtype: DType) -> str:
    """The function of an atomic operation on a stored element: add max min and or xor exch load store."""
    name = f"twb_atomic_{op}_{suffix(dtype)}"
    if name not in FUNCTIONS:
        raise KeyError(f"no atomic {op} on {dtype}")
    return name


__all__ = ["FLAGS", "FUNCTIONS", "LINK_FLAGS", "atomic_name", "c_type", "call_name", "cast_name", "library", "suffix"]
