"""PyTorch's own kernels: functions that write into a given tensor, and those that only return one, whichever is faster."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .entry import EPS, Entry, Run, inputs, room, unpacked
from .problems import Problem


def torch_entry(p: Problem) -> Entry | None:
    """The problem by PyTorch, on `p.threads` threads, without a graph."""
    import torch

    torch.set_num_threads(p.threads)
    torch.set_grad_enabled(False)
    work = _Work(torch, p, [tensor(torch, a) for a in inputs(p)])
    ways = work.ways()
    return Entry(ways, lambda: work.out.to(torch.float64).numpy(), f"torch {torch.__version__}")


class _Work:
    """The tensors of one problem; `out` is the last result."""

    def __init__(self, torch: Any, p: Problem, given: list[Any]) -> None:
        self.torch, self.p, self.t = torch, p, given
        self.out: Any = None

    def fresh(self, function: Callable[[], Any]) -> Run:
        """A function that returns a new tensor: the one before is freed first, so that its memory is there again."""

        def run() -> None:
            self.out = None
            self.out = function()

        return run

    def into(self, out: Any, function: Callable[[Any], Any]) -> Run:
        """A function that writes into `out`."""

        def run() -> None:
            function(out)
            self.out = out

        return run

    def room(self, *shape: int, like: Any = None) -> Any:
        """A tensor on NumPy's memory, which asks for huge pages as that of all other arrays here."""
        dtype = (self.t[0] if like is None else like).dtype
        size = dtype.itemsize
        made = room(shape, {1: np.int8, 2: np.int16, 4: np.int32}[size])
        return self.torch.from_numpy(made).view(dtype)

    def ways(self) -> dict[str, Run]:
        """Every way that this problem has, by name."""
        torch, p, t = self.torch, self.p, self.t
        nn, aten = torch.nn.functional, torch.ops.aten
        match p.kind:
            case "gemm" if p.dtype == "int8":
                return {"_int_mm": self.fresh(lambda: torch._int_mm(t[0], t[1]))}
            case "gemm":
                return {"mm": self.into(self.room(*p.shape[:2]), lambda out: torch.mm(t[0], t[1], out=out))}
            case "gemv":
                row = t[0][None, :]
                return {
                    "linear": self.fresh(lambda: nn.linear(row, t[1])[0]),
                    "mv": self.into(self.room(p.shape[0]), lambda out: torch.mv(t[1], t[0], out=out)),
                }
            case "w4":
                whole = tensor(torch, unpacked(*inputs(p)[1:]))
                return {"linear": self.fresh(lambda: nn.linear(t[0], whole))}
            case "attention":
                return {"sdpa": self.fresh(lambda: nn.scaled_dot_product_attention(t[0], t[1], t[2], is_causal=p.is_causal))}
            case "softmax":
                return {"softmax": self.into(self.room(*p.shape), lambda out: torch.softmax(t[0], -1, out=out))}
            case "layernorm":
                m, r = torch.empty(p.shape[0], 1), torch.empty(p.shape[0], 1)
                given = (t[0], (p.shape[1],), t[1], t[2], EPS)
                return {
                    "layer_norm": self.fresh(lambda: nn.layer_norm(*given)),
                    "native_layer_norm.out": self.into(self.room(*p.shape), lambda out: aten.native_layer_norm.out(*given, out0=out, out1=m, out2=r)),
                }
            case "rmsnorm":
                size = torch.empty(p.shape[0], 1)
                return {
                    "rms_norm": self.fresh(lambda: nn.rms_norm(t[0], (p.shape[1],), t[1], EPS)),
                    "vector_norm, mul": self.into(self.room(*p.shape), lambda out: _rmsnorm(torch, t[0], t[1], size, out)),
                }
            case "add":
                return {"add": self.into(self.room(*p.shape), lambda out: torch.add(t[0], t[1], out=out))}
            case "gelu":
                return {
                    "gelu": self.fresh(lambda: nn.gelu(t[0])),
                    "gelu.out": self.into(self.room(*p.shape), lambda out: aten.gelu.out(t[0], out=out)),
                }
            case _:
                return {"copy_": self.into(self.room(*p.shape[::-1]), lambda out: out.copy_(t[0].T))}


def _rmsnorm(torch: Any, x: Any, w: Any, size: Any, out: Any) -> None:
    """x / sqrt(mean(x * x) + eps) * w, each step into memory that is there."""
    torch.linalg.vector_norm(x, dim=-1, keepdim=True, out=size)
    size.mul_(size).div_(x.shape[1]).add_(EPS).rsqrt_()
    torch.mul(x, size, out=out)
    out.mul_(w)


def tensor(torch: Any, a: Any) -> Any:
    """A NumPy array as a tensor on the same memory."""
    if a.dtype.name == "bfloat16":
        return torch.from_numpy(a.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(a)
