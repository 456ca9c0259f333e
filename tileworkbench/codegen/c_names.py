"""Names and literals of C."""

from __future__ import annotations

import re

import numpy as np

from ..base.dtypes import DType
from ..ir.expr import Const

_RESERVED_TEXT = """
auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return
short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof linux unix i386 main args threads
failed scratch int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t printf malloc free alignas alignof bool true
false nullptr thread_local static_assert constexpr
"""  # C, and what our own text calls things
_RESERVED_TEXT += """
and and_eq bitand bitor catch char8_t char16_t char32_t class compl concept const_cast consteval constinit decltype delete dynamic_cast explicit
export friend mutable namespace new noexcept not not_eq operator or or_eq private protected public reinterpret_cast requires static_cast template
this throw try typeid typename using virtual wchar_t xor xor_eq threadIdx blockIdx blockDim gridDim warpSize
"""  # C++ and CUDA
_RESERVED = frozenset(_RESERVED_TEXT.split())
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}
_WORD = re.compile(r"\W")


def c_name(name: str) -> str:
    """The author's name, made fit for C where it is not.

    >>> c_name("acc_s"), c_name("int"), c_name("twb_x")
    ('acc_s', 'int_', 'twb_x_')
    """
    text = _WORD.sub("_", name)
    if text in _RESERVED or text.startswith(("twb_", "__")):
        return text + "_"
    return f"_{text}" if text[:1].isdigit() else text


def literal(const: Const) -> str:
    """A literal of C; a negative one has its sign in front."""
    dtype, value = const.type, const.value
    if dtype.is_bool:
        return str(int(value))
    if dtype.is_int:
        return _integer(int(value), dtype)
    if dtype.bits < 32:
        return hex(int(np.array(float(value)).astype(dtype.to_numpy()).view(f"u{dtype.bits // 8}")))
    return _float(float(value), dtype)


def _integer(value: int, dtype: DType) -> str:
    if dtype.bits >= 32 and dtype.kind == "u":
        return f"{value}u" if value < 1 << 32 else f"{value}ull"
    if value == -(1 << 63):
        return "(-9223372036854775807 - 1)"
    return "(-2147483647 - 1)" if value == -(1 << 31) else str(value)


def _float(value: float, dtype: DType) -> str:
    end = "" if dtype == "float64" else "f"
    if value != value:
        return f'__builtin_nan{end}("")'
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}__builtin_inf{end}()"
    text = repr(value) if dtype == "float64" else str(np.float32(value))
    return text + ("" if "." in text or "e" in text else ".0") + end


def c_string(text: str) -> str:
    """A C string literal.

    >>> print(c_string('a "b"' + chr(10)))
    "a \\"b\\"\\n"
    """
    out = "".join(_ESCAPES.get(ch) or (ch if ch.isprintable() and ch.isascii() else "".join(f"\\{b:03o}" for b in ch.encode())) for ch in text)
    return f'"{out}"'
