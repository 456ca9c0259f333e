"""PyTorch's libraries: cuBLAS for products, cuDNN and the flash kernels for attention, its own kernels for rows and elements; every way it has.

A way is one launch on one set of tensors. Functions that write into a given tensor are used where there are some; a result that only comes new is
taken from PyTorch's pool, which costs the GPU nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .arrays import EPS, Set
from .problems import Problem


@dataclass(frozen=True, slots=True)
class Way:
    """One way to do the work: `launch(set)`, inside `context()`, which is entered once for many launches."""

    name: str
    launch: Callable[[Set], Any]
    context: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


def ways(torch: Any, p: Problem) -> list[Way]:
    """PyTorch's ways for a problem."""
    nn, aten = torch.nn.functional, torch.ops.aten
    match p.kind:
        case "gemm" if p.dtype == "int8":
            return [Way("_int_mm", lambda s: torch._int_mm(s.given[0], s.given[1].T, out=s.out))]
        case "gemm":
            if p.dtype == "tfloat32":
                torch.backends.cuda.matmul.allow_tf32 = True
            found = [Way("mm", lambda s: torch.mm(s.given[0], s.given[1].T if p.is_nt else s.given[1], out=s.out))]
            return [*found, Way("linear", lambda s: nn.linear(s.given[0], s.given[1]))] if p.is_nt else found
        case "scaled":
            return [Way(f"_scaled_mm{' fast' if p.is_fast else ''}", _scaled(torch, p.is_fast))]
        case "gemv":
            return [Way("mv", lambda s: torch.mv(s.given[1], s.given[0], out=s.out)), Way("linear", lambda s: nn.linear(s.given[0], s.given[1]))]
        case "attention":
            return _attention(torch, p)
        case "softmax":
            return [Way("softmax", lambda s: torch.softmax(s.given[0], -1, out=s.out))]
        case "layernorm":
            return [Way("layer_norm", lambda s: nn.layer_norm(s.given[0], (p.shape[1],), s.given[1], s.given[2], EPS))]
        case "rmsnorm":
            return [Way("rms_norm", lambda s: nn.rms_norm(s.given[0], (p.shape[1],), s.given[1], EPS))]
        case "add":
            return [Way("add", lambda s: torch.add(s.given[0], s.given[1], out=s.out))]
        case "gelu":
            return [Way("gelu", lambda s: aten.gelu.out(s.given[0], out=s.out))]
        case _:
            return [Way("copy_", lambda s: s.out.copy_(s.given[0].T))]


def _scaled(torch: Any, is_fast: bool) -> Callable[[Set], Any]:
    ones: list[Any] = []  # the scale of the other factor

    def launch(s: Set) -> Any:
        if not ones:
            ones.append(torch.ones_like(s.given[2]))
        return torch._scaled_mm(s.given[0], s.given[1].T, ones[0], s.given[2], out_dtype=torch.bfloat16, use_fast_accum=is_fast)

    return launch


def _attention(torch: Any, p: Problem) -> list[Way]:
    """Every backend; where heads share keys, also with keys and values repeated beforehand, which is not timed."""
    attend = torch.nn.functional.scaled_dot_product_attention
    kernel, backends = torch.nn.attention.sdpa_kernel, torch.nn.attention.SDPBackend
    repeated: dict[int, tuple[Any, Any]] = {}
    group = p.shape[1] // (p.kv_heads or p.shape[1])

    def straight(s: Set) -> Any:
        return attend(*s.given, is_causal=p.is_causal, **({"enable_gqa": True} if group > 1 else {}))

    def spread(s: Set) -> Any:
        if id(s) not in repeated:
            k, v = (t.repeat_interleave(group, 1) for t in s.given[1:])
            repeated[id(s)] = (k, v)
        return attend(s.given[0], *repeated[id(s)], is_causal=p.is_causal)

    found = []
    for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION"):
        backend = getattr(backends, name, None)
        if backend is None:
            continue
        short = name.partition("_")[0].lower()
        context = _entered(kernel, backend)
        found.append(Way(short, straight, context))
        if group > 1:
            found.append(Way(f"{short}, repeated", spread, context))
    return found


def _entered(kernel: Any, backend: Any) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    return lambda: kernel(backend)
