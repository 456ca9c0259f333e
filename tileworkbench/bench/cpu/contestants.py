"""Who takes part, and how each solves a problem: this package, NumPy, a plain copy; PyTorch and TileLang have files of their own."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np

from ...kernels import attention, elementwise, gemm, linear, norms, softmax
from ...runtime.jit import compile
from ...runtime.kernel import JITKernel
from .entry import EPS, Entry, Run, inputs, one_way, room
from .problems import SCALE_COLUMNS, Problem
from .tilelang_peer import tilelang_entry
from .torch_peer import torch_entry


def ours(p: Problem) -> Entry:
    """The library's tile program with its default schedule, compiled for the default target."""
    kernel, schedule, shape, dtype = _kernel(p)
    arrays = inputs(p)
    out = room(shape, arrays[0].dtype if dtype == "" else dtype)
    kernel.num_threads = p.threads
    return one_way(lambda: kernel(*arrays, out), out, f"tileworkbench, {kernel.facts.compiler}", schedule)


def _kernel(p: Problem) -> tuple[JITKernel, str, tuple[int, ...], str]:
    """A kernel that writes into its last argument, its schedule in words, and the shape and dtype ("": the input's) of that argument."""
    match p.kind:
        case "gemm":
            m, n, k = p.shape
            s = gemm.default_schedule(m, n, k, p.dtype, p.threads)
            out, total = ("int32", "int32") if p.dtype == "int8" else (p.dtype, "float32")
            program = gemm.program(m, n, k, s.block_m, s.block_n, s.block_k, s.stages, p.dtype, out, False, total)
            return compile(program), str(s), (m, n), "int32" if p.dtype == "int8" else ""
        case "gemv":
            n, k = p.shape
            block_n, block_k = linear.gemv_schedule(n, k)
            return compile(linear.gemv_program(n, k, block_n, block_k, p.dtype)), f"{block_n}x{block_k}", (n,), ""
        case "w4":
            m, n, k = p.shape
            words = "x".join(map(str, linear.w4_schedule(SCALE_COLUMNS))) if m > 4 else "64 rows"
            return compile(linear.default_w4_program(m, n, k, SCALE_COLUMNS, p.dtype)), words, (m, n), ""
        case "attention":
            b, h, seq, dim = p.shape
            a = attention.default_schedule(seq, dim, p.dtype, p.is_causal)
            return compile(attention.program(b, h, seq, dim, p.is_causal, a.block_m, a.block_n, p.dtype)), str(a), p.shape, ""
        case "softmax" | "layernorm" | "rmsnorm":
            rows, cols = p.shape
            some = softmax.default_schedule(rows, cols)
            make = {
                "softmax": lambda: softmax.program(rows, cols, some.rows, p.dtype),
                "layernorm": lambda: norms.layernorm_program(rows, cols, some.rows, p.dtype, EPS),
                "rmsnorm": lambda: norms.rmsnorm_program(rows, cols, some.rows, p.dtype, EPS),
            }
            return compile(make[p.kind]()), str(some), p.shape, ""
        case "transpose":
            rows, cols = p.shape
            tall, wide = elementwise.transpose_schedule(rows, cols)
            return compile(elementwise.transpose_program(rows, cols, tall, wide, p.dtype)), f"{tall}x{wide}", (cols, rows), ""
        case _:
            one = {"add": elementwise.add_program, "gelu": elementwise.gelu_program}[p.kind]
            return compile(one(p.shape[0], 1 << 16, p.dtype)), "65536", p.shape, ""


def numpy_entry(p: Problem) -> Entry | None:
    """NumPy, where it has the function in this dtype as one call."""
    version = f"numpy {np.__version__}"
    match (p.kind, p.dtype):
        case ("gemm" | "gemv", "float32"):
            a, b = inputs(p) if p.kind == "gemm" else inputs(p)[::-1]
            out = room((*a.shape[:-1], *b.shape[1:]), np.float32)
            return one_way(lambda: np.matmul(a, b, out=out), out, version)
        case ("add", _):
            x, y = inputs(p)
            out = room(x.shape, x.dtype)
            return one_way(lambda: np.add(x, y, out=out), out, version)
        case ("transpose", _):
            given = inputs(p)[0]
            out = room(p.shape[::-1], np.float32)
            return one_way(lambda: np.copyto(out, given.T), out, version)
        case _:
            return None


def copy_entry(p: Problem) -> Entry | None:
    """No peer but a measure: an array of the problem's shape, copied as the C library does it or as PyTorch does, whichever is faster."""
    if not p.is_copy_bound:
        return None
    given = inputs(p)[0]
    out = room(given.shape, given.dtype)
    ways: dict[str, Run] = {"numpy.copyto": lambda: np.copyto(out, given)}
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(p.threads)
        source, target = torch.from_numpy(given), torch.from_numpy(out)
        ways["torch.copy_"] = lambda: target.copy_(source)
    return Entry(ways, lambda: out.astype(np.float64), "copy")


CONTESTANTS: dict[str, Callable[[Problem], Entry | None]] = {
    "ours": ours, "numpy": numpy_entry, "torch": torch_entry, "tilelang": tilelang_entry, "copy": copy_entry
}  # fmt: skip
