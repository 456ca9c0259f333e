"""The tensors of a problem: random, alike for all sides, and in several sets where one would stay in L2 from launch to launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .problems import Problem

ROTATE_BYTES = 160 << 20  # of all sets together: several times the L2 of any GPU here
MOST_SETS = 24
SCALE = 0.0625  # of products of 8-bit factors
EPS = 1e-5


@dataclass(frozen=True, slots=True)
class Set:
    """One launch's tensors: what is read, and where the result goes."""

    given: tuple[Any, ...]
    out: Any


def count_of_sets(p: Problem) -> int:
    """Two at least, and so many that none is still in L2 when its turn comes."""
    return max(2, min(MOST_SETS, -(-ROTATE_BYTES // p.bytes)))


def make_sets(torch: Any, p: Problem, device: str, count: int) -> list[Set]:
    """`count` sets for a problem, from fixed seeds."""
    source = torch.Generator(device=device)
    source.manual_seed(12345)
    return [
        Set(tuple(_given(torch, p, device, source)), torch.empty(_result(p), dtype=_dtype(torch, p.out_dtype), device=device)) for _ in range(count)
    ]


def poison(torch: Any, out: Any) -> None:
    """Fill a result with what no kernel gives: an element that is not written stays so."""
    out.fill_(float("nan") if out.is_floating_point() else -(1 << 30))


def _dtype(torch: Any, name: str) -> Any:
    return torch.float32 if name == "tfloat32" else getattr(torch, name)


def _result(p: Problem) -> tuple[int, ...]:
    match p.kind:
        case "gemm" | "scaled":
            return p.shape[:2]
        case "gemv":
            return p.shape[:1]
        case "transpose":
            return p.shape[::-1]
        case _:
            return p.shape


def _given(torch: Any, p: Problem, device: str, source: Any) -> list[Any]:
    dtype = _dtype(torch, p.dtype)

    def normal(*shape: int) -> Any:
        if p.dtype == "int8":
            return torch.randint(-128, 128, shape, dtype=torch.int8, device=device, generator=source)
        return torch.randn(shape, device=device, generator=source).to(dtype)

    match p.kind:
        case "gemm" | "scaled":
            m, n, k = p.shape
            factors = [normal(m, k), normal(*((n, k) if p.is_nt or p.kind == "scaled" else (k, n)))]
            return [*factors, torch.full((1,), SCALE, device=device)] if p.kind == "scaled" else factors
        case "gemv":
            n, k = p.shape
            return [normal(k), normal(n, k)]
        case "attention":
            b, h, s, d = p.shape
            return [normal(*p.shape), *(normal(b, p.kv_heads or h, s, d) for _ in range(2))]
        case "layernorm":
            return [normal(*p.shape), normal(p.shape[1]), normal(p.shape[1])]
        case "rmsnorm":
            return [normal(*p.shape), normal(p.shape[1])]
        case "add":
            return [normal(*p.shape), normal(*p.shape)]
        case _:
            return [normal(*p.shape)]
