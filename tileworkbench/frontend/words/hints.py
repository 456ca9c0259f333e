"""Meanings of the words that only advise: recorded with the launch (or, outside one, with the kernel), never changing a result.

`T.annotate_safe_value` is the exception: it says what reads outside a global buffer give.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import TileTypeError, TileValueError
from ...ir.explicit import Asked
from ...ir.expr import Const
from ...language import hints as words
from ...language._dispatch import impl
from ...layout.annotated import recognised
from ...layout.swizzle import Swizzle
from .. import arith
from ..builder import current
from ..values import BufferValue, as_expr


def _record(name: str, text: object = "") -> None:
    builder = current(f"T.{name}")
    place = builder.launch.hints if builder.launch is not None else builder.attrs
    place.append((name, str(text)))


@impl(words.use_swizzle)
def _use_swizzle(panel_size: int = 10, order: str = "row", enable: bool = True) -> None:
    if enable:
        _record("use_swizzle", f"{panel_size}" if order == "row" else f"{panel_size} {order}")


@impl(words.annotate_layout)
def _annotate_layout(layout_map: Any, allow_reannotation: bool = False, allow_buffer_region: bool = False) -> None:
    _record("annotate_layout", ", ".join(_asked(b, layout) for b, layout in _mapping("T.annotate_layout", layout_map).items()))


def _asked(buffer: Any, layout: Any) -> str:
    """The name, and what is asked for, as `analysis.asked_layouts` reads it."""
    name = getattr(buffer, "name", "?")
    if isinstance(layout, Swizzle):
        return f"{name} {layout.span_bytes}"
    place = layout.forward_fn if isinstance(layout, words.Layout) else layout
    if not isinstance(buffer, BufferValue) or buffer.scope() != "shared" or not callable(place):
        return name
    shape = buffer.buffer.shape
    if not all(isinstance(d, Const) for d in shape):
        return f"{name} not: it has a symbolic dim"
    found = recognised(buffer.buffer.static_shape(), place)
    if isinstance(found, str):
        return f"{name} not: {found}"
    return f"{name} strides {' '.join(map(str, found.strides))}" + (f" xor {' '.join(map(str, found.xor))}" if found.xor else "")


@impl(words.annotate_safe_value)
def _annotate_safe_value(safe_value_map: Any) -> None:
    current("T.annotate_safe_value")
    for buffer, value in _mapping("T.annotate_safe_value", safe_value_map).items():
        if not isinstance(buffer, BufferValue):
            raise TileTypeError(f"T.annotate_safe_value needs buffers as keys, got {buffer!r}"[:200], hint="T.annotate_safe_value({A: 0.0})")
        if buffer.buffer.is_on_chip:
            raise TileValueError(
                f"T.annotate_safe_value: {buffer.name} is in {buffer.scope()} memory",
                hint="only reads of global buffers are guarded; annotate the argument",
            )
        constant = arith.cast(as_expr(value), buffer.dtype)
        if not isinstance(constant, Const):
            raise TileTypeError(
                f"the safe value of {buffer.name} is known only when the kernel runs", hint="use a constant, such as -T.infinity(dtype)"
            )
        # the node was made for this trace and is shared by every statement in it, so this is the one place to change
        object.__setattr__(buffer.buffer, "safe_value", constant.value)


def _mapping(word: str, value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return value
    raise TileTypeError(f"{word} needs a dict from buffers, got {type(value).__name__}", hint=f"{word}({{buffer: ...}})")


@impl(words.annotate_l2_hit_ratio)
def _annotate_l2_hit_ratio(l2_hit_ratio_map: Any) -> None:
    _record("annotate_l2_hit_ratio", ", ".join(f"{b.name} {r}" for b, r in _mapping("T.annotate_l2_hit_ratio", l2_hit_ratio_map).items()))


@impl(words.annotate_min_blocks_per_sm)
def _annotate_min_blocks_per_sm(n: int) -> None:
    if not isinstance(n, int) or n < 1:
        raise TileValueError(f"T.annotate_min_blocks_per_sm: {n!r} blocks", hint="a number from 1 on, known when the kernel is compiled")
    _record("annotate_min_blocks_per_sm", n)


@impl(words.annotate_compile_flags)
def _annotate_compile_flags(flags: Any) -> None:
    _record("annotate_compile_flags", flags)


@impl(words.annotate_pass_configs)
def _annotate_pass_configs(configs: Any) -> None:
    _record("annotate_pass_configs", configs)


@impl(words.annotate_restrict_buffers)
def _annotate_restrict_buffers(*buffers: Any) -> None:
    _record("annotate_restrict_buffers", ", ".join(b.name for b in buffers))


@impl(words.annotate_producer_reg_dealloc)
def _annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    _record("annotate_producer_reg_dealloc", reg_count)


@impl(words.annotate_consumer_reg_alloc)
def _annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    _record("annotate_consumer_reg_alloc", reg_count)


@impl(words.disable_warp_group_reg_alloc)
def _disable_warp_group_reg_alloc() -> None:
    _record("disable_warp_group_reg_alloc")


@impl(words.set_max_nreg)
def _set_max_nreg(reg_count: int, is_inc: Any = 0) -> None:
    _registers("set_max_nreg", reg_count, bool(is_inc))


@impl(words.inc_max_nreg)
def _inc_max_nreg(reg_count: int) -> None:
    _registers("inc_max_nreg", reg_count, True)


@impl(words.dec_max_nreg)
def _dec_max_nreg(reg_count: int) -> None:
    _registers("dec_max_nreg", reg_count, False)


def _registers(word: str, count: int, more: bool) -> None:
    """In a role, a statement; elsewhere a hint."""
    _record(word, count)
    builder = current(f"T.{word}")
    if any(s.kind == "ws" for s in builder.scopes):
        if not isinstance(count, int) or not 24 <= count <= 256 or count % 8:
            raise TileValueError(f"T.{word}: a thread cannot have {count!r} registers", hint="24 to 256, a multiple of 8")
        builder.emit(Asked(f"twb_set_max_registers_{'inc' if more else 'dec'}", (), (count,), word))


@impl(words.pdl_sync)
def _pdl_sync() -> None:
    _record("pdl_sync")


@impl(words.pdl_trigger)
def _pdl_trigger() -> None:
    _record("pdl_trigger")


@impl(words.ptx_commit_group)
def _ptx_commit_group() -> None:
    current("T.ptx_commit_group")


@impl(words.ptx_wait_group)
def _ptx_wait_group(num: int) -> None:
    current("T.ptx_wait_group")
