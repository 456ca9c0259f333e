"""How each contestant solves a problem: a function without arguments that does the work once, into arrays that are there, and its result.

All contestants get the same numbers. Nobody allocates or converts in the timed call.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels import attention, elementwise, gemm, linear, norms, softmax
from ...runtime.jit import compile
from ...runtime.kernel import JITKernel
from .problems import Problem

GROUP = 128  # columns that share a scale of four-bit weights
EPS = 1e-5


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant's work: `run` does it once, `result` gives the output as float64, `version` names what ran, `schedule` how."""

    run: Callable[[], Any]
    result: Callable[[], Any]
    version: str
    schedule: str = ""


def inputs(p: Problem) -> list[Any]:
    """The problem's arrays, from a fixed seed: standard normal floats, or all values of an integer type."""
    rng = np.random.default_rng(12345)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    match p.kind:
        case "gemm":
            m, n, k = p.shape
            if p.dtype == "int8":
                return [rng.integers(-128, 128, size, dtype=np.int8) for size in ((m, k), (k, n))]
            return [_as(normal(m, k), p.dtype), _as(normal(k, n), p.dtype)]
        case "gemv":
            n, k = p.shape
            return [_as(normal(k), p.dtype), _as(normal(n, k), p.dtype)]
        case "w4":
            m, n, k = p.shape
            return [normal(m, k), rng.integers(0, 256, (n, k // 2), dtype=np.uint8), np.abs(normal(n, k // GROUP))]
        case "attention":
            return [_as(normal(*p.shape), p.dtype) for _ in range(3)]
        case "layernorm" | "rmsnorm":
            extra = [normal(p.shape[1]) for _ in range(2 if p.kind == "layernorm" else 1)]
            return [normal(*p.shape), *extra]
        case "add":
            return [normal(*p.shape), normal(*p.shape)]
        case _:
            return [normal(*p.shape)]


def _as(a: Any, dtype: str) -> Any:
    if dtype != "bfloat16":
        return a
    import ml_dtypes

    return a.astype(ml_dtypes.bfloat16)


# ------------------------------------------------------------------------------------------- ours
def ours(p: Problem) -> Entry:
    """The library's tile program with its default schedule, compiled for the default target."""
    kernel, schedule, shape, dtype = _kernel(p)
    arrays = inputs(p)
    out = np.zeros(shape, arrays[0].dtype if dtype == "" else dtype)
    kernel.num_threads = p.threads
    return Entry(lambda: kernel(*arrays, out), lambda: out.astype(np.float64), f"tileworkbench, {kernel.facts.compiler}", schedule)


def _kernel(p: Problem) -> tuple[JITKernel, str, tuple[int, ...], str]:
    """A kernel that writes into its last argument, its schedule in words, and the shape and dtype ("": the input's) of that argument."""
    match p.kind:
        case "gemm":
            m, n, k = p.shape
            s = gemm.default_schedule(m, n, k, p.dtype)
            out, total = ("int32", "int32") if p.dtype == "int8" else (p.dtype, "float32")
            program = gemm.program(m, n, k, s.block_m, s.block_n, s.block_k, s.stages, p.dtype, out, False, total)
            return compile(program), str(s), (m, n), "int32" if p.dtype == "int8" else ""
        case "gemv":
            n, k = p.shape
            return compile(linear.gemv_program(n, k, 16, 512, p.dtype)), "16x512", (n,), ""
        case "w4":
            m, n, k = p.shape
            return compile(linear.w4_program(m, n, k, GROUP, min(m, 16), 64, 256, p.dtype)), "64x256", (m, n), ""
        case "attention":
            b, h, seq, dim = p.shape
            a = attention.default_schedule(seq)
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
            return compile(elementwise.transpose_program(rows, cols, 32, p.dtype)), "32x32", (cols, rows), ""
        case _:
            one = {"add": elementwise.add_program, "gelu": elementwise.gelu_program}[p.kind]
            return compile(one(p.shape[0], 1 << 16, p.dtype)), "65536", p.shape, ""


# ------------------------------------------------------------------------------------------- peers
def numpy_entry(p: Problem) -> Entry | None:
    """NumPy, where it has the function in this dtype as one call."""
    arrays = inputs(p)
    version = f"numpy {np.__version__}"
    match (p.kind, p.dtype):
        case ("gemm" | "gemv", "float32"):
            a, b = arrays if p.kind == "gemm" else arrays[::-1]
            out: Any = np.empty((*a.shape[:-1], *b.shape[1:]), np.float32)
            return Entry(lambda: np.matmul(a, b, out=out), lambda: out.astype(np.float64), version)
        case ("add", _):
            out = np.empty_like(arrays[0])
            return Entry(lambda: np.add(arrays[0], arrays[1], out=out), lambda: out.astype(np.float64), version)
        case ("transpose", _):
            out = np.empty(p.shape[::-1], np.float32)
            return Entry(lambda: np.copyto(out, arrays[0].T), lambda: out.astype(np.float64), version)
        case _:
            return None


def torch_entry(p: Problem) -> Entry | None:
    """PyTorch's own kernel, writing into a given tensor where its function can."""
    import torch

    torch.set_num_threads(p.threads)
    torch.set_grad_enabled(False)
    t = [_tensor(torch, a) for a in inputs(p)]
    nn = torch.nn.functional
    out = torch.empty(0)

    def kept(function: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            nonlocal out
            out = function()

        return run

    def into(like: Any, function: Callable[..., Any]) -> Callable[[], Any]:
        nonlocal out
        out = like
        return lambda: function(out=out)

    match p.kind:
        case "gemm" if p.dtype == "int8":
            run = kept(lambda: torch._int_mm(t[0], t[1]))
        case "gemm":
            run = into(torch.empty(p.shape[0], p.shape[1], dtype=t[0].dtype), lambda out: torch.mm(t[0], t[1], out=out))
        case "gemv":
            row = t[0][None, :]
            run = kept(lambda: nn.linear(row, t[1])[0])
        case "w4":
            whole = _tensor(torch, unpacked(*inputs(p)[1:]))
            run = kept(lambda: nn.linear(t[0], whole))
        case "attention":
            run = kept(lambda: nn.scaled_dot_product_attention(t[0], t[1], t[2], is_causal=p.is_causal))
        case "softmax":
            run = into(torch.empty_like(t[0]), lambda out: torch.softmax(t[0], -1, out=out))
        case "layernorm":
            run = kept(lambda: nn.layer_norm(t[0], (p.shape[1],), t[1], t[2], EPS))
        case "rmsnorm":
            run = kept(lambda: nn.rms_norm(t[0], (p.shape[1],), t[1], EPS))
        case "add":
            run = into(torch.empty_like(t[0]), lambda out: torch.add(t[0], t[1], out=out))
        case "gelu":
            run = kept(lambda: nn.gelu(t[0]))
        case _:
            run = into(torch.empty(p.shape[::-1]), lambda out: out.copy_(t[0].T))
    return Entry(run, lambda: out.to(torch.float64).numpy(), f"torch {torch.__version__}")


def _tensor(torch: Any, a: Any) -> Any:
    if a.dtype.name == "bfloat16":
        return torch.from_numpy(a.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(a)


def unpacked(packed: Any, scales: Any) -> Any:
    """Four-bit weights as float32."""
    q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1).astype(np.float32) - 8
    return q * np.repeat(scales, GROUP, axis=1)


CONTESTANTS: dict[str, Callable[[Problem], Entry | None]] = {"ours": ours, "numpy": numpy_entry, "torch": torch_entry}
