"""Where the buffers of *this* kernel lie: as they are where it was compiled, on another GPU as the model sees them.

Every answer says where it comes from. `source` is "exact" for what the compiler decided and the text does, "modelled" for what a GPU compiler would
be expected to do. What a target compiled is a `LayoutProvider`, if it knows its own layouts: kernels for "cuda" and "emulate:..." do, with no GPU.

>>> from tileworkbench.base.cpu import AVX512
>>> from tileworkbench.kernels.gemm import program
>>> for b in layouts_of(program(128, 128, 128, 64, 64, 64, 1, "float32", "float32", False), isa=AVX512):
...     print(f"{b.buffer:<14} {b.role:<12} {b.layout.rows} x {b.layout.columns} at {b.layout.base}")
A              argument     128 x 128 at 0
B              argument     128 x 128 at 0
C              argument     128 x 128 at 0
acc            tile         64 x 64 at 0
C in vectors   accumulators 64 x 64 at 0
B packed       packed operand 64 x 64 at 16384
acc in vectors accumulators 64 x 64 at 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..base.cpu import AVX2, AVX512, GENERIC, NEON, Isa, host_isa
from ..base.machine import Machine
from ..base.span import Span
from ..layout.access import Access
from ..layout.algebra import Layout, Table
from ..layout.banks import CacheShape, l1_shape
from ..layout.tile_layout import TileLayout
from .placement_c import c_layouts
from .placement_gpu import arguments, gpu_layouts
from .tile_accesses import program_of, shared_tile


@dataclass(frozen=True, slots=True)
class BufferLayout:
    """One buffer and how it lies. `role` is "argument", "tile", "packed operand", "accumulators", "shared" or "fragment".

    `source` is "exact", "modelled" or, from a target that ran, "measured"; `why` is one line about the choice. `span` is where it was allocated.
    A shared tile may have `stages`, each `stage_bytes` behind the one before; `layout` is that of the first. What the compiler made for itself is a
    "scratch" tile or "barriers". `units` touch it besides plain loads and stores: "ldmatrix", "stmatrix", "wgmma", "tensor map", "bulk", "cp.async".
    `launch` names the kernel of the text whose tile it is.
    """

    buffer: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    layout: TileLayout
    source: str
    why: str
    span: Span | None = None
    stages: int = 1
    stage_bytes: int = 0
    units: tuple[str, ...] = ()
    launch: str = ""

    def __str__(self) -> str:
        return f"{self.buffer} ({self.role}, {self.dtype}{list(self.shape)}): {self.layout}; {self.source}: {self.why}"


@runtime_checkable
class LayoutProvider(Protocol):
    """What a compiled kernel, or its `executable`, answers about its buffers. Who has this method is asked before the model is."""

    def layouts(self) -> tuple[BufferLayout, ...]:
        """Every on-chip buffer, in the order of allocation; fragments with owner and slot, shared tiles with their place."""


def layouts_of(
    kernel: Any, machine: Machine | None = None, *, isa: Isa | None = None, dims: Mapping[str, int] | None = None
) -> tuple[BufferLayout, ...]:
    """The layouts of a kernel's buffers on `machine` (default: this one, through the C target).

    Args:
        kernel: a compiled kernel, a `T.prim_func`, or a `LayoutProvider`. One that was compiled for a GPU says how its tiles do lie, unless
            `machine` is of another kind than it was compiled for.
        isa: the instruction set whose vectors are meant, if not the machine's.
        dims: values of symbolic dims; arguments with a dim that has none are left out.
    """
    if isinstance(kernel, LayoutProvider):
        return kernel.layouts()
    program, made = program_of(kernel), getattr(kernel, "executable", None)
    if isinstance(made, LayoutProvider) and isa is None and _is_for(made, machine):
        return (*(BufferLayout(*parts) for parts in arguments(program, dims or {}, "exact")), *made.layouts())
    if machine is not None and machine.is_gpu:
        return tuple(BufferLayout(*parts) for parts in gpu_layouts(program, machine, dims or {}))
    return tuple(BufferLayout(*parts) for parts in c_layouts(program, isa or isa_of(machine), dims or {}))


def layout_of(
    kernel: Any, buffer: str, machine: Machine | None = None, *, isa: Isa | None = None, dims: Mapping[str, int] | None = None
) -> BufferLayout:
    """The layout of one buffer. Raises: KeyError with the names there are."""
    found = {b.buffer: b for b in layouts_of(kernel, machine, isa=isa, dims=dims)}
    if buffer not in found:
        raise KeyError(f"no buffer is called {buffer!r}; there are {', '.join(found)}")
    return found[buffer]


def _is_for(made: LayoutProvider, machine: Machine | None) -> bool:
    """Whether the layouts of what was compiled are those on `machine`: of the same compute capability."""
    arch = str(getattr(made, "arch", "")).rstrip("af")
    return machine is None or (machine.gpu is not None and machine.gpu.arch == arch)


def scratch_map(kernel: Any, machine: Machine | None = None, *, isa: Isa | None = None) -> BufferLayout:
    """The core's scratch memory on the C target: a cell for each cache line, a row for each page, so that columns are sets of L1.

    The owner of a line is the number of its buffer, in the order of `why`; tiles that share bytes show the last one. Raises: ValueError for a kernel
    without tiles.
    """
    found = [b for b in layouts_of(kernel, machine, isa=isa) if b.role in ("tile", "packed operand")]
    if not found:
        raise ValueError("the kernel keeps nothing on chip")
    line = machine.line_bytes if machine is not None else 64
    per_page = 4096 // line
    pages = -(-max(b.layout.base + b.layout.bytes for b in found) // 4096)
    owner = np.full(pages * per_page, -1, dtype=np.int64)
    for number, b in enumerate(found):
        owner[b.layout.base // line : -(-(b.layout.base + b.layout.bytes) // line)] = number
    place = Layout((pages, per_page), (per_page, 1))
    tile = TileLayout("scratch", pages, per_page, 8 * line, place, owner=Table.of(owner.reshape(pages, per_page)), slot=None, owner_name="buffer")
    why = ", ".join(f"{i} {b.buffer}" for i, b in enumerate(found))
    return BufferLayout("scratch", "scratch memory", "bytes", (pages * 4096,), tile, "exact", why)


def accesses_of(kernel: Any, buffer: str, dims: Mapping[str, int] | None = None, *, args: Sequence[Any] = (), arch: str = "") -> tuple[Access, ...]:
    """The accesses of a shared buffer: those of a call with `args`, recorded by the emulator, or without arguments those that the model expects.

    Args:
        kernel: a compiled kernel; without `args` also a `T.prim_func`.
        args: as the kernel is called. Its CUDA text runs here, thread by thread, for `arch` (default: the kernel's own): keep the arrays small.
    Raises: KeyError with the names there are.
    """
    return (kernel.accesses(*args, arch=arch).tile(buffer) if args else shared_tile(kernel, buffer, dims)).accesses


def isa_of(machine: Machine | None) -> Isa:
    """The instruction set of a CPU machine; this processor's for None or a machine that does not say."""
    known = {isa.name: isa for isa in (AVX512, AVX2, NEON, GENERIC)}
    return known.get(machine.isa, host_isa()) if machine is not None else host_isa()


def l1_of(machine: Machine) -> CacheShape:
    """The L1 cache of a CPU as sets and ways: its capacity and line, and the assumption of `layout.banks.l1_shape`. Raises KeyError without an L1."""
    capacity = machine.level("L1").capacity
    page = 16384 if machine.line_bytes == 128 else 4096
    return l1_shape(capacity.bytes if capacity is not None else 32768, machine.line_bytes, page)
