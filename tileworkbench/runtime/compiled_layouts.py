"""Where the tiles of a kernel lie that was compiled to CUDA text: read from the passes that made it."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.stmt import Kernel
from ..model.placement import BufferLayout
from ..model.placement_cuda import cuda_layouts
from .executable import PassRecord

_PLACES = "place_threads"


def compiled_layouts(kernel: Kernel, passes: Sequence[PassRecord]) -> tuple[BufferLayout, ...]:
    """The layouts of all tiles on chip: the author's in the order of allocation, then what the compiler made.

    >>> from tileworkbench.kernels.gemm import program
    >>> from tileworkbench.runtime.translate_cuda import translate_cuda
    >>> kernel = program(256, 256, 256, 128, 128, 64, 3, "float16", "float16", False).kernel
    >>> for b in compiled_layouts(kernel, translate_cuda(kernel, "sm_80")[1]):
    ...     print(b.buffer, b.role, b.stages, b.layout.base, b.layout.formula() if b.layout.place else b.why)
    A_tile shared 3 0 (Swizzle(3, 3, 3)) o ((128, (64, 1)):(64, (1, 8192)))
    B_tile shared 3 49152 (Swizzle(3, 3, 3)) o ((64, (64, 2)):(64, (1, 4096)))
    acc fragment 1 0 accumulator of mma.sync m16n8k16: 2 x 2 warps share the tile
    """
    record = next(r for r in passes if r.name == _PLACES)
    return tuple(cuda_layouts(kernel, record.before, record.after))
