"""A kernel as CUDA text: the passes, the emitter, and the device library in front.

The emulator compiles the kernels' own text (`translate_cuda`) and brings its own library; a GPU's text has ours in front (`translate_gpu`).
"""

from __future__ import annotations

from dataclasses import replace

from ..codegen.cuda import emit_cuda
from ..codegen.cuda_source import CudaSource
from ..device import STATUS, arch_number, from_text, library, why_missing
from ..ir.stmt import Kernel
from ..transform.cuda_lowering import cuda_steps
from .executable import PassRecord
from .recording import run_and_record


def translate_cuda(kernel: Kernel, arch: str, aligned: bool = True) -> tuple[CudaSource, tuple[PassRecord, ...]]:
    """Lower and emit: the CUDA text for `arch` without the device library, and a record of every pass. `aligned` as in `cuda_steps`."""
    lowered, records = run_and_record(kernel, cuda_steps(arch_number(arch), aligned))
    return emit_cuda(lowered, lambda name: why_missing(name, arch)), records


def translate_gpu(kernel: Kernel, arch: str, aligned: bool = True) -> tuple[CudaSource, tuple[PassRecord, ...]]:
    """`translate_cuda` with the device functions that the text calls in front: what NVRTC compiles."""
    source, records = translate_cuda(kernel, arch, aligned)
    return with_library(source, arch), records


def with_library(source: CudaSource, arch: str) -> CudaSource:
    """`source` with the device library in front."""
    names = from_text(source.text)
    front = library(names, arch, "gpu")
    shift = front.count("\n")
    lines = {line + shift: span for line, span in source.lines.items()}
    return replace(source, text=front + source.text, status=STATUS if "twb_fail" in names else "", lines=lines)
