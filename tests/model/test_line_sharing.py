"""Lines with two writers, against a count of every byte of every block."""

from __future__ import annotations

import numpy as np
import pytest

import tileworkbench.language as T
from tileworkbench.kernels import gemm
from tileworkbench.model.line_sharing import shared_lines, writers


def by_bytes(m: int, n: int, tile_m: int, tile_n: int, size: int, line: int) -> int:
    """Lines of a row-major (m, n) array that tiles of different blocks write."""
    writers: dict[int, set[tuple[int, int]]] = {}
    for r in range(m):
        for c in range(n):
            for byte in range((r * n + c) * size, (r * n + c + 1) * size):
                writers.setdefault(byte // line, set()).add((r // tile_m, c // tile_n))
    return sum(len(w) > 1 for w in writers.values())


@pytest.mark.parametrize(("m", "n", "tile_m", "tile_n"), [(32, 60, 16, 20), (32, 64, 16, 16), (48, 40, 16, 32), (32, 24, 32, 8)])
@pytest.mark.parametrize("line", [64, 128])
def test_products_of_all_shapes(m: int, n: int, tile_m: int, tile_n: int, line: int) -> None:
    program = gemm.program(m, n, 32, tile_m, tile_n, 32, 1, "float32", "float32", False)
    found = shared_lines(program, line_bytes=line)
    expected = by_bytes(m, n, tile_m, tile_n, 4, line)
    assert [(s.buffer, s.lines) for s in found] == ([("C", expected)] if expected else [])
    if found:
        assert found[0].span is not None and found[0].blocks == -(-m // tile_m) * -(-n // tile_n)


@T.prim_func
def counters(A: T.Tensor((64, 1024), "float32"), out: T.Tensor((64,), "float32")):
    with T.Kernel(64) as bx:
        x = T.alloc_fragment((1, 1024), "float32")
        s = T.alloc_fragment((1,), "float32")
        T.copy(A[bx, 0], x)
        T.reduce_sum(x, s, dim=1)
        out[bx] = s[0]


def test_one_number_a_block_is_the_classical_case() -> None:
    """64 blocks write 4 bytes each: four lines of sixteen writers."""
    assert [(s.buffer, s.blocks, s.lines) for s in shared_lines(counters)] == [("out", 64, 4)]
    assert [(s.blocks, s.lines) for s in shared_lines(counters, blocks=20)] == [(20, 2)]


def test_every_cell_has_its_writer() -> None:
    program = gemm.program(32, 60, 32, 16, 20, 32, 1, "float32", "float32", False)
    owners = writers(program, "C").owners()
    expected = np.arange(32)[:, None] // 16 * 3 + np.arange(60)[None, :] // 20  # blocks in launch order, x first
    assert owners.tolist() == expected.tolist()
    assert sorted(np.unique(writers(program, "C", blocks=2).owners())) == [-1, 0, 1]
    with pytest.raises(KeyError, match="no block writes 'A'; written are C"):
        writers(program, "A")
