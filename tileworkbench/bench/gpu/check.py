"""Whether a result is right: some of its rows beside the formula in float64. A wrong kernel is never a fast one.

A row's size is the root of its mean square. No element may be off by more than four units of rounding of the larger of itself and its row, and all
rows as a whole by no more than two: a product that misses one of 8192 terms is off by 22 units of float16, a row of another block by all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...base.dtypes import DType
from .arrays import EPS, Set
from .problems import Problem

ROWS = 64  # of the result that are looked at; of attention those of the first and of the last head
ELEMENT, WHOLE = 4.0, 2.0  # units that an element and the whole may be off


@dataclass(frozen=True, slots=True)
class Verdict:
    """`error`: the norm of the difference over that of the right rows. `why`: what is wrong, or ""."""

    error: float
    why: str = ""


def check(torch: Any, p: Problem, tensors: Set) -> Verdict:
    """Look at the result of a launch."""
    got, want = _samples(torch, p, tensors)
    got = got.double()
    if not torch.isfinite(got).all():
        return Verdict(math.nan, f"{int((~torch.isfinite(got)).sum())} of {got.numel()} elements looked at are not finite")
    off = (got - want).abs()
    size = float(want.norm())
    error = float(off.norm()) / size if size else float(off.norm())
    if p.out_dtype == "int32":
        count = int((off != 0).sum())
        return Verdict(error, f"{count} of {got.numel()} elements looked at are wrong" if count else "")
    unit = 2.0**-10 if p.dtype == "tfloat32" else float(DType(p.out_dtype).unit_roundoff)  # the instruction cuts 13 bits of float32 off
    unit *= 2 if p.is_fast else 1  # of 8192 products in 14 bits
    unit = max(unit, 2.0**-20)  # what functions and long sums in float32 may lose
    row = want.square().mean(dim=-1, keepdim=True).sqrt()
    excess = off / (torch.maximum(want.abs(), row) * unit).clamp_min(1e-300)
    worst = float(excess.max())
    if worst > ELEMENT:
        count = int((excess > ELEMENT).sum())
        return Verdict(error, f"{count} of {got.numel()} elements looked at are off by up to {worst:.3g} units of rounding")
    return Verdict(error, f"off by {error / unit:.3g} units of rounding as a whole" if error > WHOLE * unit else "")


def _some(torch: Any, count: int, like: Any) -> Any:
    """Numbers of rows: the first, the last and others between, not a regular few."""
    if count <= ROWS:
        return torch.arange(count, device=like.device)
    source = torch.Generator().manual_seed(count)
    some = torch.randperm(count - 2, generator=source)[: ROWS - 2] + 1
    return torch.cat([torch.tensor([0, count - 1]), some]).sort().values.to(like.device)


def _samples(torch: Any, p: Problem, tensors: Set) -> tuple[Any, Any]:
    """Rows of the result, and what they should be in float64."""
    given, out = tensors.given, tensors.out
    match p.kind:
        case "gemm" | "scaled":
            rows = _some(torch, p.shape[0], out)
            right = given[1].double()
            want = given[0][rows].double() @ (right.T if p.is_nt or p.kind == "scaled" else right)
            return out[rows], want * given[2].double() if p.kind == "scaled" else want
        case "gemv":
            rows = _some(torch, p.shape[0], out)
            return out[rows], given[1][rows].double() @ given[0].double()
        case "attention":
            return _attention(torch, p, tensors)
        case "softmax" | "layernorm" | "rmsnorm":
            rows = _some(torch, p.shape[0], out)
            return out[rows], _row(torch, p.kind, given, rows)
        case "transpose":
            rows = _some(torch, p.shape[1], out)
            return out[rows], given[0][:, rows].T.double()
        case _:
            size = min(p.shape[0], 1 << 20)
            ends = torch.cat([torch.arange(size), torch.arange(p.shape[0] - size, p.shape[0])]).to(out.device)
            x = given[0][ends].double()
            want = x + given[1][ends].double() if p.kind == "add" else 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))
            return out[ends].reshape(1, -1), want.reshape(1, -1)


def _row(torch: Any, kind: str, given: tuple[Any, ...], rows: Any) -> Any:
    x = given[0][rows].double()
    if kind == "softmax":
        return torch.softmax(x, dim=-1)
    away = x - x.mean(dim=-1, keepdim=True) if kind == "layernorm" else x
    scaled = away / (away.square().mean(dim=-1, keepdim=True) + EPS).sqrt() * given[1].double()
    return scaled + given[2].double() if kind == "layernorm" else scaled


def _attention(torch: Any, p: Problem, tensors: Set) -> tuple[Any, Any]:
    q, k, v = tensors.given
    b, h, seq, dim = p.shape
    rows = _some(torch, seq, q)
    got, want = [], []
    for batch, head in dict.fromkeys(((0, 0), (b - 1, h - 1))):
        kv = head // (h // (p.kv_heads or h))
        scores = q[batch, head, rows].double() @ k[batch, kv].double().T / math.sqrt(dim)
        if p.is_causal:
            later = torch.arange(seq, device=q.device)[None, :] > rows[:, None]
            scores = scores.masked_fill(later, float("-inf"))
        want.append(torch.softmax(scores, dim=-1) @ v[batch, kv].double())
        got.append(tensors.out[batch, head, rows])
    return torch.cat(got), torch.cat(want)
