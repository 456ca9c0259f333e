"""Meanings of the words that print, check, call C, or leave a loop or a kernel."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import INT32
from ...base.errors import TileTypeError, TileValueError
from ...ir.expr import AddressOf, CallExtern, Expr, const
from ...ir.stmt import Assert, Break, Evaluate, Print, Return
from ...language import effects as words
from ...language._dispatch import impl
from ...language.types import as_dtype
from .. import arith
from ..builder import current
from ..values import BufferValue, RegionValue, Value, as_expr, as_side, is_number, shown
from .common import one_element


@impl(words.print)
def _print(obj: Any, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    builder = current("T.print")
    builder.require_launch("T.print")
    if not isinstance(msg, str):
        raise TileTypeError(f"T.print: msg must be a string, got {shown(msg)}", hint='T.print(value, msg="text"); one value a call')
    if isinstance(obj, BufferValue):
        builder.emit(Print(msg or obj.name, buffer=obj.buffer))
    elif isinstance(obj, RegionValue):
        raise TileTypeError("T.print prints a value or a whole buffer, not a slice", hint="copy the slice to a tile and print that")
    elif isinstance(obj, str):
        builder.emit(Print(f"{msg}{obj}"))
    else:
        builder.emit(Print(msg, (as_expr(obj),)))


@impl(words.device_assert)
def _device_assert(cond: Any, msg: str = "", no_stack_info: bool = False) -> None:
    if not isinstance(msg, str):
        raise TileTypeError(f"T.device_assert: msg must be a string, got {shown(msg)}", hint="the text to show when the condition does not hold")
    check = arith.to_bool(as_expr(cond))
    current("T.device_assert").emit(Assert(check, msg))


@impl(words.assume)
def _assume(cond: Any) -> None:
    as_expr(cond)


@impl(words.evaluate)
def _evaluate(value: Any) -> None:
    if isinstance(value, Value) and isinstance(value.expr, CallExtern):
        current("T.evaluate").emit(Evaluate(value.expr))


# ---------------------------------------------------------------------------------------------- C functions
@impl(words.call_extern)
def _call_extern(*args: Any, dtype: Any = None) -> Any:
    """The call happens here, once, and its result is bound: a C function may have effects."""
    builder = current("T.call_extern")
    before = 1 if dtype is not None else 2  # how many arguments stand before the function's own
    name = args[before - 1] if len(args) >= before else None
    if not isinstance(name, str):
        raise TileTypeError(f"T.call_extern needs the dtype, then the function's name, got {name!r}", hint='T.call_extern("float32", "f", x)')
    if dtype is None:
        dtype = args[0]
    operands = tuple(_argument(a) for a in args[before:])
    if str(dtype) in ("handle", "void", ""):
        builder.emit(Evaluate(CallExtern(name, operands, INT32)))
        return None
    hint = builder.take_hint("result")
    return Value(builder.bind(CallExtern(name, operands, as_dtype(dtype)), f"{name}_result" if hint == name else hint))  # C sees both names


def _argument(arg: Any) -> Expr:
    if isinstance(arg, BufferValue | RegionValue):
        return _address(arg, "T.call_extern")
    if is_number(arg) and isinstance(arg, int):
        return const(arg, INT32) if INT32.min <= arg <= INT32.max else as_expr(arg)
    return as_expr(arg)


@impl(words.import_source)
def _import_source(source: str | None) -> None:
    builder = current("T.import_source")
    if source is None:
        return
    if not isinstance(source, str):
        raise TileTypeError(f"T.import_source needs C source as a string, got {type(source).__name__}")
    builder.imports.append(source)


@impl(words.address_of)
def _address_of(element: Any) -> Any:
    return Value(_address(element, "T.address_of"))


@impl(words.access_ptr)
def _access_ptr(buf: Any, access: str = "r", *, extent: Any = None, offset: Any = 0) -> Any:
    if access not in ("r", "w", "rw"):
        raise TileValueError(f"T.access_ptr knows no access {access!r}", hint='one of "r", "w", "rw"')
    pointer = _address(buf, "T.access_ptr")
    if is_number(offset) and offset == 0:
        return Value(pointer)
    last = arith.binary("add", pointer.indices[-1], arith.as_index(as_expr(offset)))
    return Value(AddressOf(pointer.buffer, (*pointer.indices[:-1], last)))


def _address(operand: Any, word: str) -> AddressOf:
    as_side(operand, word)
    side = one_element(operand, word)
    return AddressOf(side.buffer, side.region.starts)


# ---------------------------------------------------------------------------------------------- leaving
@impl(words.loop_break)
def _loop_break() -> None:
    builder = current("T.loop_break")
    if not any(s.kind in ("serial", "pipelined", "while") for s in builder.scopes):
        raise TileValueError("T.loop_break stands outside a loop", hint="it leaves a T.serial, T.Pipelined or while loop")
    builder.emit(Break())


@impl(words.thread_return)
def _thread_return() -> None:
    builder = current("T.thread_return")
    builder.require_tile_op("T.thread_return")
    builder.emit(Return())
