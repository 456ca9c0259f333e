"""What a function of the C library is, and the short names of types that its name is made of.

`twb_exp_f32` is exp on float32; `twb_f32_to_f16` converts. Storage types: float16 and bfloat16 are uint16_t, float8 and
bool uint8_t, 4-bit integers two to a byte (low half first) and int8_t/uint8_t as values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import Template

from ...base.dtypes import DType

SUFFIX = {
    "float64": "f64", "float32": "f32", "tfloat32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bool": "u8", "int4": "i8", "uint4": "u8",
}  # fmt: skip
C_TYPE = {
    "f64": "double", "f32": "float", "f16": "uint16_t", "bf16": "uint16_t", "e4m3": "uint8_t", "e5m2": "uint8_t",
    **{f"{kind}{bits}": f"{'u' * (kind == 'u')}int{bits}_t" for kind in "iu" for bits in (8, 16, 32, 64)},
}  # fmt: skip
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
NARROW_FLOATS = ("f16", "bf16", "e4m3", "e5m2")

# gcc compiles faster what needs no better. TWB_RARE: functions around the blocks, which do little; at -O2 they take 17 % of an attention.
# TWB_PLAIN: functions that are vectors already and no sums of products, which -O1 would not make one instruction; they take 30 % less of it
PRELUDE = """\
typedef __INT8_TYPE__ int8_t; typedef __INT16_TYPE__ int16_t; typedef __INT32_TYPE__ int32_t; typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t; typedef __UINT16_TYPE__ uint16_t; typedef __UINT32_TYPE__ uint32_t; typedef __UINT64_TYPE__ uint64_t;
#define TWB_FN static inline __attribute__((always_inline, unused))
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define TWB_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#else
#define TWB_FMAF(a, b, c) ((a) * (b) + (c))
#endif
#ifdef __clang__
#define TWB_RARE
#define TWB_PLAIN
#else
#define TWB_RARE __attribute__((optimize(0)))
#define TWB_PLAIN __attribute__((optimize(1)))
#endif
"""


DEFINED = "TWB_APART"
HIDDEN = '__attribute__((visibility("hidden")))'  # so a call needs no table of addresses


def apart_text(head: str, body: str) -> str:
    """A function of a kernel's text of which only a declaration is left where TWB_APART is defined; `body` is what follows the head's brace."""
    return f"#ifdef {DEFINED}\nextern {HIDDEN} {head};\n#else\nstatic __attribute__((noinline, unused)) {head} {{\n{body}\n#endif"


@dataclass(frozen=True, slots=True)
class CFunction:
    """One C function: `head` is "result name(params)", `body` its statements, `needs` the functions it calls.

    `declares` is text at file scope that the function needs (a vector type); functions that share one get it once. It is inlined, or if it `is_apart`
    compiled once for all kernels that call it (`codegen.parts`): a call then has to do enough.
    """

    head: str
    body: str
    needs: tuple[str, ...] = ()
    declares: str = ""
    is_apart: bool = False

    @property
    def name(self) -> str:
        return self.head.partition("(")[0].split()[-1].lstrip("*")

    def text(self) -> str:
        """The definition as C text, without `declares`."""
        body = self.body.strip()
        lines = "    " + body.replace("\n", "\n    ") + "\n"
        if self.is_apart:
            return apart_text(self.head, lines + "}") + "\n"
        inner = f" {body} " if "\n" not in body and len(self.head) + len(body) < 120 else "\n" + lines
        return f"TWB_FN {self.head} {{{inner}}}\n"

    def alone(self) -> str:
        """The definition in a C file that is compiled apart, without `declares`."""
        body = self.body.strip().replace("\n", "\n    ")
        return f"{HIDDEN} {self.head} {{\n    {body}\n}}\n"


def function(head: str, body: str, *needs: str, declares: str = "", **values: str) -> CFunction:
    """A `CFunction` whose head and body have `$name` replaced from `values`."""
    return CFunction(_fill(head, values), _fill(body, values), needs, _fill(declares, values))


def apart(made: CFunction) -> CFunction:
    """The function, compiled once for all kernels that call it."""
    return replace(made, is_apart=True)


def _fill(text: str, values: dict[str, str]) -> str:
    return Template(text).substitute(values) if "$" in text else text


def suffix(dtype: DType) -> str:
    """The part of a function name that stands for `dtype`: "f32", "bf16", "i64" ..."""
    return SUFFIX[dtype]


def c_type(dtype: DType) -> str:
    """The C type that holds one value of `dtype`.

    >>> c_type(DType("bfloat16")), c_type(DType("int4"))
    ('uint16_t', 'int8_t')
    """
    return C_TYPE[SUFFIX[dtype]]


def int_bits(short: str) -> int:
    """Bits of an integer type given by its short name."""
    return int(short[1:])
