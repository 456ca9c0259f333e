"""Words for arithmetic. All work on Python numbers too, outside kernels: `T.ceildiv(7, 2)` is 4.

Functions of floats keep the argument's dtype; integers are computed in float32. Operands of two dtypes are promoted: floats beat
integers, wider beats narrower, and a Python number takes the other operand's dtype.
"""

from __future__ import annotations

from typing import Any

from ._dispatch import alias, word


# ---------------------------------------------------------------------------------------------- integers
@word
def ceildiv(a: Any, b: Any) -> Any:
    """Division rounded up, for either sign of both. Example: `T.Kernel(T.ceildiv(N, 128))`"""


@word
def floordiv(a: Any, b: Any) -> Any:
    """Division rounded down, as Python's `//`."""


@word
def floormod(a: Any, b: Any) -> Any:
    """The remainder of `floordiv`, as Python's `%`: it has the sign of `b`."""


@word
def truncdiv(a: Any, b: Any) -> Any:
    """Division rounded towards zero, as C's `/`."""


@word
def truncmod(a: Any, b: Any) -> Any:
    """The remainder of `truncdiv`, as C's `%`: it has the sign of `a`."""


@word
def align_up(x: Any, y: Any) -> Any:
    """`x` rounded up to a multiple of `y`."""


@word
def shift_left(a: Any, b: Any) -> Any:
    """`a << b`."""


@word
def shift_right(a: Any, b: Any) -> Any:
    """`a >> b`; arithmetic for signed integers."""


@word
def bitwise_and(a: Any, b: Any) -> Any:
    """`a & b`."""


@word
def bitwise_or(a: Any, b: Any) -> Any:
    """`a | b`."""


@word
def bitwise_xor(a: Any, b: Any) -> Any:
    """`a ^ b`."""


@word
def bitwise_not(x: Any) -> Any:
    """`~x`."""


@word
def popcount(x: Any) -> Any:
    """How many bits of an integer are set."""


@word
def clz(x: Any) -> Any:
    """How many zero bits stand before the highest set bit; the width for 0."""


# ---------------------------------------------------------------------------------------------- two operands
@word
def max(a: Any, b: Any) -> Any:
    """The larger of two numbers; a NaN is ignored."""


@word
def min(a: Any, b: Any) -> Any:
    """The smaller of two numbers; a NaN is ignored."""


@word
def clamp(x: Any, lo: Any, hi: Any) -> Any:
    """`min(max(x, lo), hi)`."""


@word
def pow(x: Any, y: Any) -> Any:
    """`x` to the power of `y`, as `x ** y`."""


@word
def fmod(x: Any, y: Any) -> Any:
    """The remainder of float division, with the sign of `x`."""


@word
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y) in radians."""


@word
def copysign(x: Any, y: Any) -> Any:
    """The magnitude of `x` with the sign of `y`."""


@word
def hypot(x: Any, y: Any) -> Any:
    """`sqrt(x*x + y*y)` without overflow in between."""


@word
def div(a: Any, b: Any) -> Any:
    """`a / b`; integers are divided in float32."""


@word
def logical_and(*conditions: Any) -> Any:
    """True if all conditions hold; later ones are evaluated only if needed."""


@word
def logical_or(*conditions: Any) -> Any:
    """True if any condition holds; later ones are evaluated only if needed."""


@word
def logical_not(x: Any) -> Any:
    """True if `x` is zero or false."""


And = alias("And", logical_and)
Or = alias("Or", logical_or)
Not = alias("Not", logical_not)
truediv = alias("truediv", div)


# ---------------------------------------------------------------------------------------------- one operand
def _function(name: str, doc: str) -> Any:
    """A word of one operand `x`."""

    def stub(x: Any) -> Any: ...

    stub.__name__, stub.__doc__ = name, doc
    return word(stub)


abs = _function("abs", "The absolute value.")
exp = _function("exp", "e to the power of `x`.")
exp2 = _function("exp2", "2 to the power of `x`.")
exp10 = _function("exp10", "10 to the power of `x`.")
expm1 = _function("expm1", "`exp(x) - 1`, accurate near 0.")
log = _function("log", "The natural logarithm.")
log2 = _function("log2", "The logarithm to base 2.")
log10 = _function("log10", "The logarithm to base 10.")
log1p = _function("log1p", "`log(1 + x)`, accurate near 0.")
sqrt = _function("sqrt", "The square root.")
rsqrt = _function("rsqrt", "`1 / sqrt(x)`.")
sin = _function("sin", "The sine of an angle in radians.")
cos = _function("cos", "The cosine of an angle in radians.")
tan = _function("tan", "The tangent of an angle in radians.")
asin = _function("asin", "The arc sine, in radians.")
acos = _function("acos", "The arc cosine, in radians.")
atan = _function("atan", "The arc tangent, in radians.")
sinh = _function("sinh", "The hyperbolic sine.")
cosh = _function("cosh", "The hyperbolic cosine.")
tanh = _function("tanh", "The hyperbolic tangent.")
asinh = _function("asinh", "The inverse hyperbolic sine.")
acosh = _function("acosh", "The inverse hyperbolic cosine.")
atanh = _function("atanh", "The inverse hyperbolic tangent.")
erf = _function("erf", "The error function.")
sigmoid = _function("sigmoid", "The logistic function `1 / (1 + exp(-x))`.")
floor = _function("floor", "The largest integer not above `x`, in x's dtype.")
ceil = _function("ceil", "The smallest integer not below `x`, in x's dtype.")
trunc = _function("trunc", "`x` without its fraction, in x's dtype.")
round = _function("round", "The nearest integer, halves away from zero, in x's dtype.")
nearbyint = _function("nearbyint", "The nearest integer, halves to even, in x's dtype.")
isnan = _function("isnan", "True for NaN.")
isinf = _function("isinf", "True for plus and minus infinity.")
isfinite = _function("isfinite", "True for what is neither NaN nor infinite.")
fast_rcp = _function("fast_rcp", "`1 / x`.")

# the fast-math spellings of CUDA; here they are as accurate as the others
__exp = alias("__exp", exp)
__exp10 = alias("__exp10", exp10)
__log = alias("__log", log)
__log2 = alias("__log2", log2)
__log10 = alias("__log10", log10)
__sin = alias("__sin", sin)
__cos = alias("__cos", cos)
__tan = alias("__tan", tan)
rcp = alias("rcp", fast_rcp)


# ---------------------------------------------------------------------------------------------- IEEE operations by name
@word
def ieee_add(x: Any, y: Any, rounding: str = "rn") -> Any:
    """`x + y`; only rounding to nearest ("rn") is available, here and below."""


@word
def ieee_sub(x: Any, y: Any, rounding: str = "rn") -> Any:
    """`x - y`."""


@word
def ieee_mul(x: Any, y: Any, rounding: str = "rn") -> Any:
    """`x * y`."""


@word
def ieee_fdiv(x: Any, y: Any, rounding: str = "rn") -> Any:
    """`x / y`."""


@word
def ieee_frcp(x: Any, rounding: str = "rn") -> Any:
    """`1 / x`."""


@word
def ieee_fsqrt(x: Any, rounding: str = "rn") -> Any:
    """`sqrt(x)`."""


@word
def ieee_frsqrt(x: Any) -> Any:
    """`1 / sqrt(x)`."""


@word
def index_to_coordinates(index: Any, shape: Any) -> Any:
    """The row-major coordinates of element `index` of an array of `shape`, as a list."""
