"""Which instruction computes a tile product on a GPU, and how the warps of the block share the tile.

wgmma where the architecture has it and the tile suits it, mma.sync where the types are a tensor core's, FMA for everything else.

>>> from ..base.dtypes import DType
>>> half, single = DType("float16"), DType("float32")
>>> unit = matrix_unit(Problem(128, 128, 32, half, half, single, threads=128), arch=80)
>>> unit.kind, unit.warps, unit.step
('mma', (2, 2), 16)
>>> matrix_unit(Problem(128, 128, 32, half, half, single, threads=256), arch=90).kind
'wgmma'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..base.dtypes import DType
from ..ir.stmt import Gemm
from ..ir.tile_form import TileForm
from ..layout.fragments import WARP, Fragment, flat, micro_tiles, mma_a, mma_c, wgmma_a, wgmma_c
from .tile_forms import suits_groups

GROUP = 128  # threads of a warp group
# (a, b, c) -> (k of one mma.sync, least architecture), best first. Source: PTX ISA, "Matrix Fragments for mma"
_MMA: dict[tuple[str, str, str], tuple[tuple[int, int], ...]] = {
    ("float16", "float16", "float32"): ((16, 80), (8, 75)), ("float16", "float16", "float16"): ((16, 80), (8, 75)),
    ("bfloat16", "bfloat16", "float32"): ((16, 80), (8, 80)),
    **{(x, x, "float32"): ((8, 80),) for x in ("float32", "tfloat32")},
    **{(a, b, "int32"): ((32, 80),) for a in ("int8", "uint8") for b in ("int8", "uint8")},
    **{(a, b, "float32"): ((32, 89),) for a in ("float8_e4m3fn", "float8_e5m2") for b in ("float8_e4m3fn", "float8_e5m2")},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """A tile product: sizes, types of a, b and c, and what surrounds it. `a_in_registers`: a is a fragment. `tf32`: float32 may lose 13 bits.

    `in_forms`: shared factors lie as warp groups read them.
    """

    m: int
    n: int
    k: int
    a: DType
    b: DType
    c: DType
    threads: int
    policy: str = "square"
    trans_a: bool = False
    trans_b: bool = False
    a_in_registers: bool = False
    tf32: bool = False
    in_forms: bool = True


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """`kind` is "wgmma", "mma" or "fma". `warps`: how many below one another and side by side (warp groups for wgmma). `step`: k of one instruction.

    `c` is the accumulator's fragment, `a` the left operand's where it comes from registers.
    """

    kind: str
    warps: tuple[int, int]
    step: int
    c: Fragment
    a: Fragment


def product_unit(stmt: Gemm, threads: int, arch: int, policy: str = "", forms: tuple[TileForm, ...] | None = None, tf32: bool = False) -> MatrixUnit:
    """The instruction for a product of a block of `threads`; `policy` in place of the author's. Without `forms`: as if its factors had them."""
    rows, columns = stmt.c.static_extents()[-2:]
    depth = stmt.a.static_extents()[-2 if stmt.trans_a else -1]
    held = stmt.a.buffer.scope == "fragment"
    types = stmt.a.buffer.type, stmt.b.buffer.type, stmt.c.buffer.type
    in_forms = forms is None or suits_groups(stmt, forms)
    problem = Problem(rows, columns, depth, *types, threads, policy or stmt.policy, stmt.trans_a, stmt.trans_b, held, tf32, in_forms)
    return matrix_unit(problem, arch)


def matrix_unit(problem: Problem, arch: int) -> MatrixUnit:
    """The instruction for `problem` on compute capability `arch` (90 for 9.0, with the features of sm_90a)."""
    kinds = (str(problem.a), str(problem.b), str(problem.c))
    k = next((k for k, least in _MMA.get(kinds, ()) if arch >= least and problem.k % k == 0), 0)
    suits = k and (problem.a != "float32" or problem.tf32)
    if suits and arch == 90 and k * problem.a.bits == 256 and _is_for_groups(problem):
        groups = problem.threads // GROUP
        c, a = wgmma_c(groups, problem.m, problem.n), wgmma_a(groups, problem.m, problem.k, problem.a.bits)
        return MatrixUnit("wgmma", (groups, 1), k, c, a)
    if suits and problem.threads % WARP == 0:
        for m, n in _grids(problem):
            c, a = mma_c(m, n, problem.m, problem.n), mma_a(m, n, problem.m, problem.k, problem.a.bits, k)
            return MatrixUnit("mma", (m, n), k, replace(c, threads=problem.threads), replace(a, threads=problem.threads))
    c = micro_tiles((problem.m, problem.n), problem.threads)
    return MatrixUnit("fma", (1, 1), 1, c, flat((problem.m, problem.k), problem.threads))


def _is_for_groups(p: Problem) -> bool:
    """Whether warp groups can share the tile: rows in 64s, columns in 8s, and operands of other than 16 bits with k along their rows.

    Of float32 they read the upper 19 bits: what the tensor copy engine brings is rounded to these, what threads store is cut.
    Source: CUTLASS 3.8, sm90_mma_tma_gmma_ss_warpspecialized.hpp, on ConvertF32toTF32A.
    """
    groups = p.threads // GROUP
    whole = p.in_forms and groups > 0 and p.threads % GROUP == 0 and p.m % (64 * groups) == 0 and p.n % 8 == 0 and p.n <= 256
    if p.c.is_int and p.n > 32 and p.n % 16:
        return False
    along = p.a.bits == 16 or (not p.trans_a and p.trans_b)
    rounded = p.a.bits == 32 and p.a_in_registers  # values of threads, which mma.sync rounds
    return whole and along and not rounded and not (p.a_in_registers and p.trans_a)


def _grids(p: Problem) -> Iterator[tuple[int, int]]:
    """(rows, columns) of warps whose shares are whole instructions, best first: least to read from shared memory, or what the policy says."""
    warps = p.threads // WARP
    found = []
    for used in range(warps, 0, -1):
        for m in range(1, used + 1):
            n = used // m
            if m * n != used or p.m % (16 * m) or p.n % (8 * n):
                continue
            order = {"full_row": -m, "full_col": -n}.get(p.policy, 0)
            found.append((-used, order, p.m / m + p.n / n, m, n))
        if found:
            break
    for *_, m, n in sorted(found):
        yield m, n
