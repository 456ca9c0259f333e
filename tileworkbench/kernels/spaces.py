"""The schedules that a search of the kernel library may choose from: tunables of a product and of attention on a GPU, and the rules between them.

What the rules forbid is known beforehand not to run there; each says why. A schedule that they allow may still be refused by the compiler, which a
search tells as well.

>>> space = gemm_space(4096, 4096, 4096, "float16", target="cuda:sm_90a")
>>> print(space.tunable("stages"))
stages: 2, 3, 4, 5, 6, 7, 8
>>> one = dict(block_m=128, block_n=256, block_k=64, stages=5, threads=256, panel=8, cluster_n=1, cluster_m=1, split_k=1)
>>> space.broken(one)
'the tiles of all stages need more shared memory than a block may have'
>>> space.broken({**one, "stages": 4})
''
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..base.dtypes import DType
from ..base.errors import UnsupportedError
from ..tune.schedule import Schedule
from ..tune.space import Space, powers
from .choice import gpu_of, has_wgmma, shared_bytes
from .gemm_tiles import FEWEST_TURNS, LINE, PARTS

GROUP, GROUP_ROWS = 128, 64  # threads of a warp group, and the rows of a product that they make with wgmma
# Registers of a thread that may hold tiles: of 65536 in a multiprocessor, with a warp group that copies beside those that multiply, less what
# addresses and loops need. Source: the sizes that compile without spills, NVRTC 13.0
ACCUMULATORS = 128
ATTENTION_REGISTERS = {128: 216, 256: 208, 384: 136}
BARRIERS = 2048  # bytes of shared memory for barriers and alignment

FEW_ROWS = 64


def gemm_space(
    m: int, n: int, k: int, dtype: str = "float16", *, target: Any = None, is_nt: bool = False, may_split: bool = True
) -> Space:  # fmt: skip
    """The schedules of `gemm.Schedule` for a product on a GPU.

    Args:
        dtype: of A and B.
        target: a GPU's: "cuda:sm_90a", "emulate:sm_80", ...
        is_nt: whether B is given as (n, k).
        may_split: whether k may have parts (`split_gemm`).
    Raises: UnsupportedError for a target that runs on CPUs, where `gemm.default_schedule` counts the caches' bytes.
    """
    arch, size = _gpu(target), max(1, DType(dtype).bits // 8)
    groups = has_wgmma(arch) and dtype not in ("float32", "float64")
    turns, parts = -(-k * size // LINE), [p for p in PARTS if p == 1 or may_split]
    if m <= FEW_ROWS:
        rows = next(r for r in (16, 32, 64) if m <= r)
        made = Space.of(
            block_m=[rows], block_n=powers(16, 128), block_k=[b // size for b in (64, 128, 256, 512)], stages=range(2, 9), threads=[64, 128, 256],
            panel=[0], cluster_n=[1], cluster_m=[1], split_k=parts,
        )  # fmt: skip
    elif groups:
        made = Space.of(
            block_m=[64, 128, 256], block_n=[64, 96, 128, 160, 192, 224, 256], block_k=[LINE // size, 2 * LINE // size], stages=range(2, 9),
            threads=[128, 256], panel=[0, 4, 8, 16], cluster_n=[1, 2], cluster_m=[1, 2], split_k=parts,
        )  # fmt: skip
        made = made.where(lambda block_m, threads: block_m % (threads // GROUP * GROUP_ROWS) == 0, "each warp group multiplies 64 rows or 128")
    else:
        made = Space.of(
            block_m=powers(32, 128), block_n=powers(32, 128), block_k=[b // size for b in (64, 128)], stages=range(1, 5), threads=[128, 256],
            panel=[0, 8], cluster_n=[1], cluster_m=[1], split_k=[1],
        )  # fmt: skip
    most = shared_bytes(arch) - BARRIERS
    return (
        made.where(lambda s: s["block_m"] * s["block_n"] <= ACCUMULATORS * s["threads"], "a thread would hold more than 128 sums")
        .where(
            lambda s: (s["block_m"] + s["block_n"]) * s["block_k"] * size * s["stages"] <= most,
            "the tiles of all stages need more shared memory than a block may have",
        )
        .where(
            lambda s: s["cluster_n"] * s["cluster_m"] == 1 or (s["cluster_n"] * s["cluster_m"] == 2 and s["split_k"] == 1),
            "a cluster is two blocks along one axis, of a product in one part",
        )
        .where(
            lambda s: -(-n // s["block_n"]) % s["cluster_n"] == 0 and -(-m // s["block_m"]) % s["cluster_m"] == 0,
            "the blocks are no multiple of a cluster",
        )
        .where(lambda split_k: split_k == 1 or turns >= FEWEST_TURNS * split_k, "a part of k would be too short")
    )


def attention_space(seq: int, dim: int, dtype: str = "float16", *, target: Any = None) -> Space:
    """The schedules of `attention.Schedule` for so many queries and keys of a head on a GPU.

    Args:
        target: a GPU's: "cuda:sm_90a", "emulate:sm_80", ...
    Raises: UnsupportedError for a target that runs on CPUs.
    """
    arch, size = _gpu(target), DType(dtype).bits // 8
    most = shared_bytes(arch) - BARRIERS
    if has_wgmma(arch) and size == 2:
        made = Space.of(
            block_m=[64, 128, 192], block_n=[32, 48, 64, 80, 96, 112, 128, 144, 160, 176], stages=[1, 2], threads=[128, 256, 384],
            in_turn=[False, True],
        )  # fmt: skip
        made = made.where(lambda block_m, threads: block_m * GROUP == threads * GROUP_ROWS, "each warp group has 64 queries").where(
            lambda s: s["block_n"] * 3 // 4 + dim // 2 <= ATTENTION_REGISTERS[s["threads"]],
            "scores, weights and outputs need more registers than a thread has",
        )
    else:
        made = Space.of(block_m=powers(32, 128), block_n=powers(32, 128), stages=[1, 2], threads=[128, 256], in_turn=[False])
    return (
        made.where(lambda in_turn, threads: not in_turn or threads > GROUP, "one warp group has nobody to take turns with")
        .where(
            lambda s: (s["block_m"] + 2 * s["block_n"] * s["stages"]) * dim * size <= most,
            "the tiles of Q, K and V need more shared memory than a block may have",
        )
        .where(lambda s: s["block_m"] < seq + GROUP_ROWS, "whole warp groups would have no queries")
    )


def schedule_of(fields: Any) -> Schedule:
    """A kernel's own record of tunables as a schedule of the search."""
    return Schedule(asdict(fields))


def _gpu(target: Any) -> str:
    arch = gpu_of(target)
    if not arch:
        raise UnsupportedError("the declared spaces are those of GPUs", hint='name one: target="cuda:sm_90a"')
    return arch
