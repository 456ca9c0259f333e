"""This package's side: the library's tile program with its schedule for the target, compiled to write into a given result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...base.pass_configs import FAST_ACCUMULATE
from ...frontend.prim_func import PrimFunc
from ...kernels import attention, elementwise, gemm, linear, norms, softmax
from ...runtime.jit import compile
from .arrays import EPS, Set
from .problems import Problem


@dataclass(frozen=True, slots=True)
class Ours:
    """A compiled kernel: `launch(set)` starts it; its schedule in words, and what its compiler said (None: it is no GPU's)."""

    launch: Callable[[Set], Any]
    schedule: str
    passes_ms: float
    compiler_ms: float
    registers: int | None = None
    spilt_bytes: int | None = None
    shared_bytes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def compile_ms(self) -> float:
        """Passes and compiler together."""
        return self.passes_ms + self.compiler_ms


def ours(p: Problem, target: str) -> Ours:
    """Compile for `target`. Raises what the compiler raises."""
    program, schedule = choose(p, target)
    kernel = compile(program, target=target, pass_configs={FAST_ACCUMULATE: True} if p.is_fast else None)
    facts = kernel.facts
    known = getattr(kernel.executable, "kernels", ())
    plan = getattr(kernel.executable, "plan", None)
    shared = [k.shared_bytes for k in known] + [k.shared_bytes for k in plan.kernels] if plan is not None else []

    def launch(tensors: Set) -> None:
        kernel(*tensors.given, tensors.out)

    return Ours(
        launch, schedule, facts.passes_ms, facts.compiler_ms, max((k.registers for k in known), default=None),
        sum(k.spill_stores + k.spill_loads for k in known) if known else None, max(shared, default=None), facts.notes,
    )  # fmt: skip


def choose(p: Problem, target: Any) -> tuple[PrimFunc, str]:
    """The program, and its schedule in words."""
    match p.kind:
        case "gemm":
            m, n, k = p.shape
            s = gemm.default_schedule(m, n, k, p.dtype, target=target, is_nt=p.is_nt)
            return gemm.scheduled(m, n, k, s, p.dtype, p.out_dtype, is_nt=p.is_nt), str(s)
        case "scaled":
            m, n, k = p.shape
            s = gemm.default_schedule(m, n, k, p.dtype, target=target, is_nt=True, may_split=False)
            tile = (s.block_m, s.block_n, s.block_k, s.stages)
            return gemm.scaled_program(m, n, k, *tile, p.dtype, p.out_dtype, s.threads, s.panel, s.cluster_n, s.cluster_m), str(s)
        case "gemv":
            n, k = p.shape
            rows, columns, threads = linear.schedule_for(n, k, p.dtype, target)
            return linear.gemv_program(n, k, rows, columns, p.dtype, threads), f"{rows}x{columns} t{threads}"
        case "attention":
            b, h, seq, dim = p.shape
            a = attention.default_schedule(seq, dim, p.dtype, p.is_causal, target=target)
            how = (a.stages, a.threads, a.in_turn)
            return attention.program(b, h, seq, dim, p.is_causal, a.block_m, a.block_n, p.dtype, p.kv_heads, *how), str(a)
        case "softmax" | "layernorm" | "rmsnorm":
            rows, cols = p.shape
            some = (norms.layernorm_schedule if p.kind == "layernorm" else softmax.default_schedule)(rows, cols, target=target)
            if p.kind == "softmax":
                return softmax.program(rows, cols, some.rows, p.dtype, some.threads), str(some)
            make = norms.layernorm_program if p.kind == "layernorm" else norms.rmsnorm_program
            return make(rows, cols, some.rows, p.dtype, EPS, some.threads), str(some)
        case "transpose":
            rows, cols = p.shape
            tall, wide = elementwise.transpose_schedule(rows, cols, p.dtype, target=target)
            threads = elementwise.transpose_threads(target)
            return elementwise.transpose_program(rows, cols, tall, wide, p.dtype, threads), f"{tall}x{wide} t{threads}"
        case _:
            one = {"add": elementwise.add_program, "gelu": elementwise.gelu_program}[p.kind]
            numbers, threads = elementwise.stretch(p.dtype, target)
            return one(p.shape[0], numbers, p.dtype, threads), f"{numbers} t{threads}"
