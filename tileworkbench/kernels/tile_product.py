"""A step of a product's walk along k: bring a tile of A and one of B next to the core, and add what they multiply to.

`gemm` takes these steps one after the other, `split_gemm` deals them out to blocks.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
# (what a macro is called with are values of the kernel language)
from __future__ import annotations

from .. import language as T


@T.macro
def add_product(A, B, A_tile, B_tile, acc, by, bx, ko, is_nt):
    """acc += tile (by, ko) of A times tile (ko, bx) of B; `is_nt`: B is (n, k), and so are its tiles."""
    (block_m, block_n), block_k = acc.shape, A_tile.shape[1]
    T.copy(A[by * block_m, ko * block_k], A_tile)
    if is_nt:
        T.copy(B[bx * block_n, ko * block_k], B_tile)
    else:
        T.copy(B[ko * block_k, bx * block_n], B_tile)
    T.gemm(A_tile, B_tile, acc, transpose_B=is_nt)
