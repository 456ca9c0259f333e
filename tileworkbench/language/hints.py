"""Words that only advise a compiler for GPUs. They are accepted everywhere, recorded with the launch, and never change results.

>>> Layout((32, 32), lambda i, j: i * 33 + j).forward_fn(1, 0)
33
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._dispatch import alias, word


@dataclass(frozen=True, slots=True)
class Layout:
    """An index map for `T.annotate_layout`: the place of each element, in elements from the tile's start, or as indices of another shape."""

    shape: Any
    forward_fn: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """A map from elements to (thread, register) for `T.annotate_layout`."""

    shape: Any
    forward_fn: Callable[..., Any] | None = None
    forward_thread_fn: Callable[..., Any] | None = None
    replicate: int = 1
    forward_index_fn: Callable[..., Any] | None = None


@word
def use_swizzle(panel_size: int = 10, order: str = "row", enable: bool = True) -> None:
    """Visit the blocks in panels of `panel_size`, for reuse in the L2 cache."""


@word
def annotate_layout(layout_map: Any, allow_reannotation: bool = False, allow_buffer_region: bool = False) -> None:
    """Pin the layout of on-chip buffers: `{buffer: Layout | Fragment | function}`.

    On a GPU a shared tile lies as a `Layout` (or a function from indices to an offset in elements) says where that is strides, such as a padding,
    or an XOR of offsets on rows that follow one another, or as `tileworkbench.layout.make_..._swizzled_layout` says. Other requests are left, with
    a remark in `kernel.passes`. Matrix units and the tensor copy engine read permuted rows only: with another layout threads read element by
    element.
    Example: `T.annotate_layout({t: T.Layout((32, 32), lambda i, j: i * 33 + j)})`
    """


@word
def annotate_safe_value(safe_value_map: Any) -> None:
    """What reads outside a global buffer give, `{buffer: number}`. This one does change results; the default is 0.

    It holds for the whole kernel, also for statements before it. Example: `T.annotate_safe_value({A: -T.infinity("float32")})`
    """


@word
def annotate_l2_hit_ratio(l2_hit_ratio_map: Any) -> None:
    """Keep a share of a global buffer in the L2 cache."""


@word
def annotate_min_blocks_per_sm(n: int) -> None:
    """How many blocks a multiprocessor should hold at least. On a GPU this bounds the registers of a thread: 32 for two blocks of 1024 threads.

    Raises: TileValueError if `n` is no number from 1 on that is known when the kernel is compiled. Example: `T.annotate_min_blocks_per_sm(2)`
    """


@word
def annotate_compile_flags(flags: Any) -> None:
    """Extra flags for the device compiler."""


@word
def annotate_pass_configs(configs: Any) -> None:
    """Pass configurations of this launch, or outside of one of the kernel, `{name: value}`.

    Two mean something, on sm_90a: "tl.fast_accumulate" leaves sums of float8 in the matrix unit, which keeps 14 bits (results change);
    "tl.ping_pong" lets groups of warps issue their products in turn.
    """


@word
def annotate_restrict_buffers(*buffers: Any) -> None:
    """These parameters may overlap others."""


@word
def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """Registers that a producer warp group gives back."""


@word
def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """Registers that a consumer warp group asks for."""


@word
def disable_warp_group_reg_alloc() -> None:
    """Leave the registers of warp groups as they are."""


@word
def set_max_nreg(reg_count: int, is_inc: Any = 0) -> None:
    """Registers per thread from here on."""


@word
def inc_max_nreg(reg_count: int) -> None:
    """Raise the registers per thread."""


@word
def dec_max_nreg(reg_count: int) -> None:
    """Lower the registers per thread."""


@word
def pdl_sync() -> None:
    """Wait for the kernel before this one (programmatic dependent launch)."""


@word
def pdl_trigger() -> None:
    """Let the kernel after this one start (programmatic dependent launch)."""


@word
def ptx_commit_group() -> None:
    """Close a group of asynchronous copies."""


@word
def ptx_wait_group(num: int) -> None:
    """Wait until at most `num` groups of asynchronous copies are open. Copies here are complete when they return."""


no_set_max_nreg = alias("no_set_max_nreg", disable_warp_group_reg_alloc)
