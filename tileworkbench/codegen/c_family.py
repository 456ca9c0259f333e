"""Expressions and statements of lowered IR as C. It decides nothing: one spelling for each node, precedence for the parentheses.

Integers: `-fwrapv` makes signed overflow wrap, types narrower than int are cast back after each operation, and a 64-bit operation whose
operands C would compute in int gets a cast. Float16, bfloat16 and float8 elements are bits (uint16_t, uint8_t) that only casts touch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..base.dtypes import BOOL, INDEX, DType
from ..base.errors import InternalError, UnsupportedError
from ..ir.expr import Binary, Buffer, CallExtern, Cast, Const, Expr, Reinterpret, Select, Unary, Var
from ..ir.lowered import Address, Apart, AtomicOp, Element, LibraryCall
from .c_names import c_name, literal
from .clib import FUNCTIONS, atomic_name, c_type, call_name, cast_name, suffix

_INFIX = {
    "or": ("||", 2), "and": ("&&", 3), "bitor": ("|", 4), "bitxor": ("^", 5), "bitand": ("&", 6), "eq": ("==", 7), "ne": ("!=", 7),
    "lt": ("<", 8), "le": ("<=", 8), "gt": (">", 8), "ge": (">=", 8), "shl": ("<<", 9), "shr": (">>", 9), "add": ("+", 10), "sub": ("-", 10),
    "mul": ("*", 11), "div": ("/", 11), "truncdiv": ("/", 11), "truncmod": ("%", 11),
}  # fmt: skip
_TERNARY, _UNARY, _ATOM = 1, 12, 14
# what float functions are on integers: a literal, or the number itself
_OF_INTEGERS = {"isnan": "0", "isinf": "0", "isfinite": "1", **dict.fromkeys(("floor", "ceil", "trunc", "round", "nearbyint"), "")}
_COMPARES = ("eq", "ne", "lt", "le", "gt", "ge")
_MIXES = ("and", "or", "bitand", "bitor", "bitxor", "shl", "shr")  # operators whose operands are easier to read in parentheses


class CFamily:
    """Spells expressions; remembers which library functions it called, and what variables are called in C where it stands.

    Names are unique in a kernel but need not be in C: a variable has the author's name wherever no enclosing scope uses it.
    """

    def __init__(self) -> None:
        self.called: dict[str, None] = {}
        self.spelled: dict[str, str] = {}  # variable -> C name
        self.taken: set[str] = set()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names bound inside are free again afterwards."""
        spelled, taken = dict(self.spelled), set(self.taken)
        yield
        self.spelled, self.taken = spelled, taken

    def bind(self, var: Var) -> str:
        """A C name for `var`, which the next lines declare."""
        base = name = c_name(var.hint or var.name)
        count = 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        self.spelled[var.name] = name
        return name

    def name(self, var: Var) -> str:
        """What `var` is called here."""
        return self.spelled.get(var.name) or c_name(var.name)

    # ------------------------------------------------------------------------------------------ expressions
    def expr(self, e: Expr, tight: int = 0) -> str:
        """`e`, in parentheses if it binds less tightly than `tight`."""
        match e:
            case Const():
                text = literal(e)
                return f"({text})" if text.startswith("-") and tight >= _UNARY else text
            case Var():
                return self.name(e)
            case Element(buffer, offset):
                return self.element(buffer, offset)
            case Binary():
                return self.binary(e, tight)
            case Cast(x, to):
                return self.cast(x, to, tight)
            case Unary(op, x):
                return self.unary(e, op, x, tight)
            case Select(cond, then, other):
                text = f"{self.expr(cond, _TERNARY + 1)} ? {self.choice(e, then, _TERNARY + 1)} : {self.choice(e, other, _TERNARY)}"
                return f"({text})" if tight > _TERNARY else text
            case LibraryCall(name, args):
                return self.call(name, *(self.plain(a) for a in args))
            case Address(buffer, offset):
                return self.address(buffer, offset)
            case Apart(a, b):
                return f"((const void *){c_name(a.name)} != (const void *){c_name(b.name)})"
            case AtomicOp():
                return self.atomic(e)
            case CallExtern(name, args):
                return f"{name}({', '.join(self.plain(a) for a in args)})"
            case Reinterpret(x, to):
                return self.reinterpret(x, to)
            case _:
                raise InternalError(f"no C for {type(e).__name__}")

    def choice(self, e: Select, side: Expr, tight: int) -> str:
        """One side of `e`."""
        return self.expr(side, tight)

    def plain(self, e: Expr) -> str:
        """`e` where C converts by itself: a subscript, an argument, an initial value."""
        if isinstance(e, Cast) and e.type == INDEX and e.x.dtype.is_int and e.x.dtype.bits < 64:
            return self.expr(e.x)
        return self.expr(e)

    def element(self, buffer: Buffer, offset: Expr) -> str:
        if buffer.scope == "var":
            return c_name(buffer.name)
        if buffer.type.bits < 8:
            return self.call(f"twb_load_{'i' if buffer.type.kind == 'i' else 'u'}4", c_name(buffer.name), self.plain(offset))
        return f"{c_name(buffer.name)}[{self.plain(offset)}]"

    def address(self, buffer: Buffer, offset: Expr) -> str:
        if buffer.scope == "var":
            return f"&{c_name(buffer.name)}"
        if buffer.type.bits < 8:
            return f"&{c_name(buffer.name)}[({self.plain(offset)}) / 2]"
        if isinstance(offset, Const) and offset.value == 0:
            return c_name(buffer.name)
        return f"&{c_name(buffer.name)}[{self.plain(offset)}]"

    def call(self, name: str, *args: str) -> str:
        """A call of a library function."""
        if name.startswith("twb_"):
            if name not in FUNCTIONS:
                raise InternalError(f"the C library has no {name}")
            self.called[name] = None
        return f"{name}({', '.join(args)})"

    def atomic(self, e: AtomicOp) -> str:
        args = [self.address(e.buffer, e.offset)]
        if e.buffer.scope == "var" or isinstance(e.offset, Const) and e.offset.value == 0:
            args = [f"&{c_name(e.buffer.name)}{'' if e.buffer.scope == 'var' else '[0]'}"]
        return self.call(atomic_name(e.op, e.buffer.type), *args, *(() if e.value is None else (self.plain(e.value),)))

    # ------------------------------------------------------------------------------------------ operators
    def binary(self, e: Binary, tight: int) -> str:
        op, a, b = e.op, e.a, e.b
        if not self.has_operator(e):
            text = self.call(call_name(op, a.dtype), self.plain(a), self.plain(b))
            return self.wrapped(text, e.dtype, tight) if e.dtype.bits < 8 else text
        word, rank = _INFIX[op]
        low = _UNARY if op in _MIXES else rank
        if op in ("and", "or", "bitand", "bitor", "bitxor") and a.dtype == BOOL:
            low = _INFIX["eq"][1] if op in ("and", "or") else _UNARY
        left, right = self.sides(e, low, rank)
        text = f"{left} {word} {right}"
        small = e.dtype.is_int and e.dtype.bits < 32 and op not in _COMPARES
        if small:
            return self.wrapped(text, e.dtype, tight)
        return f"({text})" if rank < tight else text

    def sides(self, e: Binary, low: int, rank: int) -> tuple[str, str]:
        """The operands; chains of one operator need no parentheses. A 64-bit result needs one operand that C sees as 64 bits wide."""
        a, b = e.a, e.b
        chain = e.op in ("add", "mul", "and", "or", "bitand", "bitor", "bitxor")

        def level(x: Expr, right: bool) -> int:
            if isinstance(x, Binary) and x.op == e.op and chain and (not right or x.dtype.is_int or x.dtype.is_bool):
                return rank
            return max(low, rank + right)

        if e.a.dtype.bits == 64 and e.a.dtype.is_int and e.op not in _COMPARES:
            wide_a, wide_b = is_wide(a), is_wide(b)
            if e.op == "shl":
                wide_b = False
            if not wide_a and not wide_b:
                return f"({c_type(a.dtype)}){self.narrow(a, _UNARY)}", self.narrow(b, level(b, True))
            return self.narrow(a, level(a, False)), self.narrow(b, level(b, True))
        if e.a.dtype == INDEX and not (_is_unsigned_int(a) or _is_unsigned_int(b)):
            return self.narrow(a, level(a, False)), self.narrow(b, level(b, True))
        return self.expr(a, level(a, False)), self.expr(b, level(b, True))

    def narrow(self, e: Expr, tight: int) -> str:
        """An operand of 64-bit arithmetic: C widens an int32 by itself."""
        if isinstance(e, Cast) and e.type == INDEX and e.x.dtype.is_int and e.x.dtype.bits < 64:
            return self.expr(e.x, tight)
        return self.expr(e, tight)

    def has_operator(self, e: Binary) -> bool:
        """Whether C's operator means the same."""
        dtype, b = e.a.dtype, e.b
        match e.op:
            case "truncdiv" | "truncmod":
                return dtype.is_int and isinstance(b, Const) and b.value not in (0, -1)
            case "div":
                return dtype.is_float
            case "shl" | "shr":
                return isinstance(b, Const) and 0 <= int(b.value) < dtype.bits
            case op:
                return op in _INFIX

    def wrapped(self, text: str, dtype: DType, tight: int) -> str:
        """A result that C computed in int, in its own type again."""
        if dtype.bits < 8:
            return self.call(f"twb_wrap_{'i' if dtype.kind == 'i' else 'u'}4", text)
        text = f"({c_type(dtype)})({text})"
        return f"({text})" if tight > _UNARY else text

    def unary(self, e: Unary, op: str, x: Expr, tight: int) -> str:
        if x.dtype.is_int and op in _OF_INTEGERS:
            return _OF_INTEGERS[op] or self.expr(x, tight)
        word = {"neg": "-", "not": "!", "bitnot": "~"}.get(op)
        if word is None:
            name = f"twb_{op}_{suffix(x.dtype)}"
            if name not in FUNCTIONS:
                raise UnsupportedError(f"{op} of {x.dtype}", span=e.span, hint="cast the value to float32 first")
            return self.nibble_unary(name, op, x) if x.dtype.bits < 8 else self.call(name, self.plain(x))
        inner = self.expr(x, _UNARY + 1) if op == "neg" else self.expr(x, _UNARY)
        if op != "not" and x.dtype.is_int and x.dtype.bits < 32:
            return self.wrapped(f"{word}{inner}", x.dtype, tight)
        if op != "not" and x.dtype.is_int and x.dtype.bits == 64 and not is_wide(x):
            inner = f"({c_type(x.dtype)}){inner}"
        return f"({word}{inner})" if tight > _UNARY else word + inner

    def nibble_unary(self, name: str, op: str, x: Expr) -> str:
        """A function of a 4-bit integer, which C holds in a byte: bits are counted in its four."""
        if op not in ("popcount", "clz"):
            return self.wrapped(self.call(name, self.plain(x)), x.dtype, 0)
        text = self.call(name, f"{self.expr(x, _UNARY)} & 15")
        return f"({text} - 4)" if op == "clz" else text

    # ------------------------------------------------------------------------------------------ conversions
    def cast(self, x: Expr, to: DType, tight: int) -> str:
        source = x.dtype
        if to.is_bool:
            if source.is_bool:
                return self.expr(x, tight)
            text = f"{self.expr(x, 8)} != 0"
            return f"({text})" if tight > 7 else text
        if to.bits < 8:
            return self.to_nibble(x, to)
        name = cast_name(source, to)
        if name:
            return self.call(name, self.plain(x))
        if suffix(source) == suffix(to):
            return self.expr(x, tight)
        text = f"({c_type(to)}){self.expr(x, _UNARY)}"
        return f"({text})" if tight > _UNARY else text

    def to_nibble(self, x: Expr, to: DType) -> str:
        wrap = f"twb_wrap_{'i' if to.kind == 'i' else 'u'}4"
        if not x.dtype.is_float:
            return self.call(wrap, self.plain(x))
        wide = DType("int8" if to.kind == "i" else "uint8")
        value = Binary("min", Binary("max", Cast(x, wide), Const(int(to.min), wide)), Const(int(to.max), wide))
        return self.call(wrap, self.expr(value))

    def reinterpret(self, x: Expr, to: DType) -> str:
        """The same bits: a number of one class is a C cast, float32 and float64 go through a library function."""
        source = x.dtype
        text = self.expr(x)
        if source.is_float and source.bits >= 32:
            text = self.call(f"twb_bits_{suffix(source)}", text)
        if to.is_float and to.bits >= 32:
            return self.call(f"twb_{suffix(to)}_bits", text)
        return f"({c_type(to)})({text})"


def _is_unsigned_int(e: Expr) -> bool:
    """Whether `e` is a uint32 made an index: without the cast C would compare a signed operand as unsigned."""
    return isinstance(e, Cast) and e.x.dtype == "uint32"


def is_wide(e: Expr) -> bool:
    """Whether C computes `e`, a 64-bit integer, in 64 bits as it is spelled."""
    match e:
        case Const(value, dtype):
            return not -(1 << 31) < int(value) < 1 << 31 or dtype.kind == "u" and int(value) >= 1 << 32
        case Cast(x, to):
            return not (to == INDEX and x.dtype.is_int and x.dtype.bits < 64)
        case _:
            return True  # arithmetic has made its own operands wide
