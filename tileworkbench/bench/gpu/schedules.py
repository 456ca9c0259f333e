"""A search of the library's schedules for the problems of `bench gpu` on the GPU here: `python -m tileworkbench.bench schedules --json F`.

What is found goes to the store, which `default_schedule` asks from then on, and into the file: a `kernels.tuned.Record`, as the package holds one for
an architecture. Several problems are compiled side by side; the GPU times one kernel at a time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ...base.errors import TileError, UnsupportedError
from ...kernels.searching import PLAN, Subject, attention_of, choose, product
from ...kernels.tuned import Record, Tuned, attention_key, gemm_key
from ...runtime.gpu_driver import driver_version
from ...runtime.libcuda import require_driver
from ...tune.sandbox import machines_turn
from .arrays import make_sets
from .problems import PROBLEMS, Problem, chosen

AT_ONCE = 8
FEW = 1e-5  # of the elements may be: the first rows of causal attention are sums of a few values, and larger than usual. A wrong tile is more
OFF = 0.02  # of itself and of the usual size of an element, that a result may be off: two units of rounding of bfloat16 and what tfloat32 cuts off
COMMAND = "python -m tileworkbench.bench schedules"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the search chose, and why it chose nothing for some."""

    record: Record
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def is_within(self) -> bool:
        """Whether every problem has a schedule."""
        return not self.failed

    def as_json(self) -> dict[str, Any]:
        """The record's plain values."""
        return self.record.as_dict()

    def table(self) -> str:
        """One line a problem."""
        return "\n".join([str(self.record), *(f"{name}: {why}" for name, why in self.failed)])


def searched(only: Sequence[str]) -> list[int]:
    """The numbers of the problems whose schedules are searched, of groups or of all: one for each name in a record.

    >>> [PROBLEMS[i].name for i in searched(["gemm_tf32"])]
    ['gemm_tf32 4096x4096x4096 nt', 'gemm_tf32 8192x8192x8192 nt']
    """
    found = {key: i for i in reversed(chosen(list(only))) if (key := key_of(PROBLEMS[i]))}
    return sorted(found.values())


def key_of(p: Problem) -> str:
    """The name of a problem in records; "" for one that has no declared space."""
    if p.kind == "gemm":
        m, n, k = p.shape
        return gemm_key(m, n, k, p.dtype, p.is_nt)
    return attention_key(p.shape[2], p.shape[3], p.dtype, p.is_causal) if p.kind == "attention" and not p.kv_heads else ""


def subject_of(p: Problem, target: Any, args: Sequence[Any] | None = None) -> Subject:
    """What is searched for a problem."""
    if p.kind == "gemm":
        m, n, k = p.shape
        return product(m, n, k, p.dtype, target=target, is_nt=p.is_nt, out_dtype=p.out_dtype, args=args)
    batch, heads, seq, dim = p.shape
    return attention_of(batch, heads, seq, dim, p.dtype, causal=p.is_causal, target=target, args=args)


def search_one(number: int) -> Tuned | str:
    """Search for one problem with PyTorch's arrays; the reason where nothing was found."""
    import torch

    p = PROBLEMS[number]
    torch.backends.cuda.matmul.allow_tf32 = False
    with machines_turn():  # what is worked out here would slow down what another process times
        given = make_sets(torch, p, "cuda", 1)[0].given
        wanted = reference(torch, p, given)
        size = float(wanted.double().square().mean().sqrt())
        torch.cuda.synchronize()
    plan = replace(PLAN, settings=replace(PLAN.settings, atol=OFF * size, rtol=OFF, mismatched=FEW))
    try:
        return choose(subject_of(p, "cuda", given), reference=wanted, plan=plan)
    except TileError as error:
        return str(error).splitlines()[0]


def reference(torch: Any, p: Problem, given: Sequence[Any]) -> Any:
    """The result by PyTorch: products of float32, of integers in float64, which is exact; attention in float32."""
    wide = torch.float64 if p.dtype == "int8" else torch.float32
    if p.kind == "gemm":
        right = given[1].to(wide)
        return given[0].to(wide) @ (right.T if p.is_nt else right)
    return torch.nn.functional.scaled_dot_product_attention(*(x.to(wide) for x in given), is_causal=p.is_causal)


def run(only: Sequence[str] = (), file: str | None = None) -> Chosen:
    """Search for the problems of the groups `only` (default: all that have a declared space); each is told on stderr, and kept in `file` at once.

    Raises: ValueError for an unknown group; UnsupportedError where there is no GPU, or no PyTorch.
    """
    numbers = searched(only)
    device = require_driver().device(0)
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(f"bench schedules: {error}", hint="its arrays and its checks are PyTorch's") from None
    record = Record(device.arch, device.name, time.strftime("%Y-%m-%d"), driver_version(), " ".join([COMMAND, *(f"--only {g}" for g in only)]))
    failed: list[tuple[str, str]] = []
    rows: dict[int, Tuned] = {}
    with ProcessPoolExecutor(AT_ONCE, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(search_one, n): n for n in numbers}
        for future in as_completed(waiting):
            number = waiting[future]
            try:
                found = future.result()
            except Exception as error:  # the search of one problem may die of anything; the others go on
                found = f"{type(error).__name__}: {error}"
            if isinstance(found, Tuned):
                rows[number] = found
            else:
                failed.append((PROBLEMS[number].name, found))
            print(*(found.cells if isinstance(found, Tuned) else failed[-1]), sep="  ", file=sys.stderr, flush=True)
            record = replace(record, schedules=tuple(rows[n] for n in sorted(rows)))
            if file:
                Path(file).write_text(record.to_json() + "\n")
    return Chosen(record, tuple(failed))
